"""Reruns of the papers' figures and tables: each target's values beside the paper's, and its figure.

Ids are those of docs/validation.md; `hocket reproduce --list` prints them.
"""

from collections.abc import Iterable, Iterator

from hocket.errors import InputError
from hocket_reproduce.targets import (
    b1,
    c1,
    c2,
    c3,
    c4,
    c9,
    c13,
    c15,
    c17,
    c18,
    c19,
    c21,
    cross,
    h1,
    h3,
    h4,
    h5,
    h6,
    h7,
    h8,
    live,
    r3,
    r4,
    r5,
    r6,
    r7,
    r8,
    x2,
    x3,
)
from hocket_reproduce.targets.target import (
    Progress,
    Reproduction,
    Row,
    Target,
)

__all__ = ["TARGETS", "Progress", "Reproduction", "Row", "Target", "chosen", "reproduce"]

TARGETS: dict[str, Target] = {
    target.id: target
    for target in (
        Target("H1", "Fair against unfair sharing of two VGG19 jobs", h1.reproduce_h1),
        Target("H2", "Unfairness slides two jobs apart", h1.reproduce_h2),
        Target("H3", "Five groups under fairness and unfairness", h3.reproduce),
        Target("H4", "The circle, the unified circle and the rotation", h4.reproduce),
        Target("H5", "Adaptively unfair sharing", h5.reproduce),
        Target("H6", "Unique priorities, and more jobs than queues", h6.reproduce),
        Target("H7", "Time-shifts and clock errors", h7.reproduce),
        Target("H8", "Cluster-wide compatibility, shared GPUs, batch sizes", h8.reproduce),
        Target("R3", "Incast on one switch under six congestion controls", r3.reproduce),
        Target("R4", "All-To-All and All-Reduce on one switch", r4.reproduce, takes_minutes=True),
        Target("R5", "All-To-All on a Clos network: ToRs and spines", r5.reproduce, takes_minutes=True),
        Target("R6", "Completion times and PAUSE frames on a Clos network", r6.reproduce, takes_minutes=True),
        Target("R7", "DLRM on 128 GPUs", r7.reproduce, takes_minutes=True),
        Target("R8", "Windows set once, for one job and for two", r8.reproduce, takes_minutes=True),
        Target("C1", "Traffic of four parallelisation strategies", c1.reproduce),
        Target("C2", "Interleaving two VGG19 jobs", c2.reproduce),
        Target("C3", "The optimisation and its score", c3.reproduce),
        Target("C4", "Unique time-shifts from the affinity graph", c4.reproduce),
        Target("C9", "Agents that bring jobs back to their slots", c9.reproduce),
        Target("C13", "Poisson arrivals, mixed models", c13.reproduce_c13, takes_minutes=True),
        Target("C14", "Poisson arrivals, model parallel", c13.reproduce_c14, takes_minutes=True),
        Target("C15", "DLRM and ResNet50 arrive", c15.reproduce_c15, takes_minutes=True),
        Target("C16", "Model-parallel jobs arrive", c15.reproduce_c16, takes_minutes=True),
        Target("C17", "Snapshots: score, time-shift, communication time", c17.reproduce),
        Target("C18", "Six servers of two GPUs", c18.reproduce, takes_minutes=True),
        Target("C19", "Precision of the angles: accuracy and execution time", c19.reproduce),
        Target("C20", "ECN marks of ResNet50 and CamemBERT", c15.reproduce_c20, takes_minutes=True),
        Target("C21", "Profiling by port counters", c21.reproduce),
        Target("B1", "Rivals of CASSINI, and migration", b1.reproduce, takes_minutes=True),
        Target("X1", "Flow engine against packet engine", cross.reproduce),
        Target("X2", "Training jobs: flow engine against packet engine", x2.reproduce, takes_minutes=True),
        Target("X3", "ECN marks: flow engine against packet engine", x3.reproduce, takes_minutes=True),
        Target(
            "LIVE",
            "Real jobs on real links, beside both engines",
            live.reproduce,
            takes_minutes=True,
            missing=live.missing,
        ),
    )
}
"""Every target that can be rerun, in the order of the papers; targets of no paper come last."""


def chosen(ids: Iterable[str]) -> list[Target]:
    """The targets with these ids, in upper or lower case, each once.

    Raises `InputError` for an id that is not in `TARGETS`.

    >>> chosen(["c99"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    hocket_agent.errors.InputError: 'C99' is not a target; known: H1, H2, ...
    """
    names = list(dict.fromkeys(name.upper() for name in ids))
    for name in names:
        if name not in TARGETS:
            raise InputError(f"{name!r} is not a target; known: {', '.join(TARGETS)}")
    return [TARGETS[name] for name in names]


def reproduce(ids: Iterable[str], progress: Progress | None = None) -> Iterator[Reproduction]:
    """Reruns the targets `ids` one after another; `progress` is called with each step.

    Raises `InputError` at once for an id that is not in `TARGETS`.
    """
    # A generator function would raise only on the first result.
    return (_rerun(target, progress) for target in chosen(ids))


def _rerun(target: Target, progress: Progress | None) -> Reproduction:
    def report_step(doing: str) -> None:
        if progress is not None:
            progress(f"{target.id}: {doing}")

    return target.run(report_step)
