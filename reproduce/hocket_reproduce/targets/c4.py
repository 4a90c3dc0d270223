"""C4: one time-shift per job across links, from the affinity graph (NSDI'24 Algorithm 1, Fig 7 and 8)."""

from collections.abc import Mapping
from functools import partial

from matplotlib.figure import Figure

from hocket import _hocket
from hocket.compat import Compatibility, compatibility
from hocket.engines.specs import native_profile
from hocket.errors import InputError
from hocket_reproduce.figures.affinity import affinity_figure
from hocket_reproduce.targets.fabrics import (
    chain,
    fig_7_jobs,
    job,
    triangle,
)
from hocket_reproduce.targets.setting import Tables, link_plan
from hocket_reproduce.targets.target import Progress, Reproduction, Row

LINKS: Mapping[str, tuple[str, str]] = {"l1": ("j1", "j2"), "l2": ("j2", "j3")}


def reproduce(progress: Progress) -> Reproduction:
    """Unique shifts on a chain of three jobs, and a loop that is discarded or solved jointly."""
    progress("a chain of three jobs")
    jobs = fig_7_jobs()
    cluster = compatibility(chain(jobs))
    on_links = {
        link: compatibility(link_plan(link, [each for each in jobs if each["name"] in names]))
        for link, names in LINKS.items()
    }
    rows = [row for link, alone in on_links.items() for row in _link_rows(link, alone, cluster)]
    rows.append(_equation_9_row(on_links, cluster))
    progress("a loop")
    rows += _loop_rows()
    return Reproduction(
        "C4",
        "Unique time-shifts from the affinity graph (NSDI'24 Algorithm 1, Fig 7 and 8)",
        tuple(rows),
        partial(_figure, on_links, cluster),
        (
            "Fig 7 names no jobs: WideResNet101 (800), VGG16 (1400) and a job of the same 274 ms that sends "
            "for 100 ms at 40 Gbps here.",
            "The loop: three jobs of 240 ms that each send for 80 ms, every two of them sharing a link.",
            "Theorem 1 is a property test on random loop-free graphs in hocket-compat.",
        ),
    )


def relative_shift_ms(answer: Compatibility, link: str) -> float:
    """The shift of a link's second job against its first, modulo its iteration, in ms."""
    first, second = LINKS[link]
    period_ps = next(each.profile.period_ps for each in answer.jobs if each.name == second)
    shifts_ps = {each.name: each.time_shift_ps for each in answer.jobs}
    return (shifts_ps[second] - shifts_ps[first]) % period_ps / 1e9


def score_on(answer: Compatibility, link: str) -> float:
    """The score of `link` of Fig 7 with the shifts of `answer`."""
    jobs = [each for each in answer.jobs if each.name in LINKS[link]]
    return _hocket.score(
        answer.capacity_bps,
        [native_profile(each.profile) for each in jobs],
        [each.time_shift_ps for each in jobs],
    )


def _link_rows(link: str, alone: Compatibility, cluster: Compatibility) -> list[Row]:
    first, second = LINKS[link]
    before_ms, after_ms = relative_shift_ms(alone, link), relative_shift_ms(cluster, link)
    before, after = alone.score, score_on(cluster, link)
    return [
        Row(
            f"{link}: shift of {second} against {first}",
            "kept",
            # Shifts are whole picoseconds, 1e-9 ms: only rounding on the circle may differ.
            "kept" if abs(before_ms - after_ms) < 1e-6 else "changed",
            "",
            f"{before_ms:.3f} ms for the link alone, {after_ms:.3f} ms with one shift per job",
        ),
        Row(
            f"{link}: score",
            "kept",
            "kept" if abs(before - after) < 1e-9 else "changed",
            "",
            f"{before:.4f} alone, {after:.4f} with one shift per job",
        ),
    ]


def _equation_9_row(on_links: Mapping[str, Compatibility], cluster: Compatibility) -> Row:
    """The shift of j3 along the path from j1 over l1 and j2 to l2 and j3."""
    l1, l2 = (answer.time_shifts_s for answer in on_links.values())
    iteration_s = next(each.profile.period_ps for each in cluster.jobs if each.name == "j3") / 1e12
    expected_s = (-l1["j1"] + l1["j2"] - l2["j2"] + l2["j3"]) % iteration_s
    return Row(
        "shift of j3 against j1",
        1e3 * expected_s,
        1e3 * ((cluster.time_shifts_s["j3"] - cluster.time_shifts_s["j1"]) % iteration_s),
        "ms",
        "paper: Equation 9, −t_j1 + t_j2 on l1 and −t_j2 + t_j3 on l2, modulo the iteration",
    )


def _loop_rows() -> list[Row]:
    jobs = [job(f"j{number}", 240, 80) for number in (1, 2, 3)]
    joint = compatibility(triangle(jobs, "solve"))
    return [
        Row("a loop whose shifts do not close", "discarded", _fate(triangle(jobs, "discard"))),
        Row(
            'the same with loops = "solve": score',
            None,
            joint.score,
            "",
            "shifts " + ", ".join(f"{1e3 * shift_s:.0f} ms" for shift_s in joint.time_shifts_s.values()),
        ),
    ]


def _fate(plan: Tables) -> str:
    try:
        compatibility(plan)
    except InputError:
        # A plan has one placement: discarding it leaves none, which is an error.
        return "discarded"
    return "accepted"


def _figure(on_links: Mapping[str, Compatibility], cluster: Compatibility) -> Figure:
    return affinity_figure(
        {link: _in_ms(answer.time_shifts_s) for link, answer in on_links.items()},
        _in_ms(cluster.time_shifts_s),
    )


def _in_ms(shifts_s: Mapping[str, float]) -> dict[str, float]:
    return {job: 1e3 * shift_s for job, shift_s in shifts_s.items()}
