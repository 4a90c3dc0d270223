"""Replays a window of a cluster run on either engine: repeats the run up to a time, turns the state of its
jobs into a plan, and runs the plan.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import polars as pl
import tomli_w

from hocket import _hocket
from hocket.cluster.marks import CONGESTION, SWITCH, marks_for
from hocket.cluster.policies import Policy, load_policy
from hocket.cluster.simulation import reached
from hocket.cluster.trace import Trace, parse_trace
from hocket.cluster.transitions import Stint, Transitions
from hocket.engines.link_use import LinkUse, RunWindow, uses_of
from hocket.engines.run import Progress, simulate
from hocket.engines.specs import native_profile
from hocket.errors import InputError, check_choice
from hocket.plan import Engine, as_plan
from hocket.results import Run, frame
from hocket.units import format_duration, format_rate

PLAN = "plan.toml"
"""The plan's name in the directory of a replay."""

MEANS = pl.Schema(
    {"job": pl.String(), "iterations": pl.Int64(), "iteration_s": pl.Float64(), "marks": pl.Float64()}
)
"""A row per job: the number of iterations that it began and finished within the window, their mean duration,
and the mean number of marked packets in one; null without iterations, and where marks are not counted."""

_PS_PER_S = 10**12
_ITERATIONS_SHOWN = 6


@dataclass(frozen=True)
class Window:
    """The state of a cluster at `at_s`, and its iterations from then until `until_s`."""

    at_s: float
    until_s: float
    ended_early: bool
    """Whether a decision of the scheduler ended it, as the plan cannot represent a new decision."""
    plan: Mapping[str, Any]
    """The jobs that run at `at_s`, in a network whose time 0 is `at_s`."""
    means: pl.DataFrame
    """The means of the cluster run within the window, with the columns of `MEANS`."""

    def write(self, directory: str | Path) -> Path:
        """Write the plan into `directory`, which is created if necessary; return its path.

        Raises `InputError` if it cannot be written.
        """
        path = Path(directory) / PLAN
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(tomli_w.dumps(self.plan), encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
        return path


@dataclass(frozen=True)
class Replay:
    """A window, and the run of its plan on an engine."""

    window: Window
    run: Run

    def comparison(self) -> pl.DataFrame:
        """The means of the cluster run, and those of the replay in columns ending in `_replayed`."""
        replayed = means_of(self.run)
        return self.window.means.join(
            replayed, on="job", how="left", suffix="_replayed", maintain_order="left"
        )

    def link_use(self) -> LinkUse:
        """The use of a link by each job over time, in the first six iterations of the replay at most.

        They are simulated again; `hocket.engines.link_use.uses_of` selects the link. Raises `InputError` if
        no job sends anything.
        """
        window = self.window
        longest_s = self.run.tables["jobs"]["mean_iteration_s"].drop_nulls().max()
        end_s = window.until_s - window.at_s
        if isinstance(longest_s, float):
            end_s = min(end_s, _ITERATIONS_SHOWN * longest_s)
        plan, engine = as_plan(window.plan), self.run.manifest["engine"]
        uses = uses_of({"": RunWindow(plan, 0.0, end_s, engine=engine)})
        if not uses:
            raise InputError(
                f"figure: no job sends anything in the first {end_s:g} s of the window; choose another one"
            )
        return uses[""]

    @property
    def pauses(self) -> int | None:
        """PAUSE frames in the replay; None on the flow engine, which has none."""
        ports = self.run.tables.get("ports")
        return None if ports is None else int(ports["pauses"].sum())


def replay(
    run: Run,
    at_s: float,
    for_s: float,
    *,
    engine: Engine = "packet",
    scheduler: str | None = None,
    directory: str | Path | None = None,
    progress: Progress | None = None,
) -> Replay:
    """Replay `for_s` seconds of a cluster run from `at_s` on; with a `directory`, write plan and run there.

    Jobs keep their placement, paths and slots, and start with the rest of the iteration under way. Jitter is
    drawn anew. A window ends early where the scheduler makes a decision. `scheduler` is needed only for a run
    under a user's own class, and names it as `FILE.py:Class`.

    Raises `InputError` as `window` does and as `hocket.simulate` does.
    """
    check_choice("engine", engine, get_args(Engine))
    selected = window(run, at_s, for_s, scheduler=scheduler)
    replayed = simulate(selected.plan, engine=engine, directory=directory, progress=progress)
    if directory is not None:
        selected.write(directory)
    return Replay(selected, replayed)


def window(run: Run, at_s: float, for_s: float, *, scheduler: str | None = None) -> Window:
    """The state of a cluster run at `at_s` as a plan, and its means over the next `for_s` seconds.

    Raises `InputError` if the run is not a cluster run, was made by another version of Hocket, had ended or
    had no running job at `at_s`, if its jobs shared no network, if `scheduler` is not the one that it ran
    under, and as `load_policy` does.
    """
    at_ps, for_ps = round(at_s * _PS_PER_S), round(for_s * _PS_PER_S)
    trace = _trace_of(run)
    policy = _check_replayable(_policy_of(run, scheduler, trace))
    ended_ps = round(run.manifest["simulated_s"] * _PS_PER_S)
    if at_ps >= ended_ps:
        ended_s = run.manifest["simulated_s"]
        raise InputError(f"the run ended at {ended_s:g} s; a window cannot start at {format_duration(at_ps)}")
    requested_ps = min(at_ps + for_ps, ended_ps)
    until_ps = min([requested_ps, *(time_ps for time_ps in _decisions_ps(run) if time_ps > at_ps)])
    # The tables of a run do not contain its state at every time, but the same trace gives the same run.
    transitions = reached(trace, policy, at_ps)
    stints = {
        member.number: member.stint for member in transitions.active.values() if member.stint is not None
    }
    if not stints:
        raise InputError(f"no job runs at {format_duration(at_ps)}")
    plan = _plan(trace, transitions, stints, at_ps, until_ps)
    means = _means_until(transitions.engine, stints, at_ps, until_ps)
    if not _counts_marks(trace):
        means = means.with_columns(marks=pl.lit(None, dtype=pl.Float64))
    return Window(at_ps / _PS_PER_S, until_ps / _PS_PER_S, until_ps < requested_ps, plan, means)


def means_of(run: Run) -> pl.DataFrame:
    """`MEANS` of a replay. Iterations under way at its start are excluded."""
    whole = whole_iterations(run)
    flows = run.tables.get("flows")
    rows = []
    for job in run.tables["jobs"]["job"]:
        of_job = whole.filter(pl.col("job") == job)
        marks = None
        if flows is not None and of_job.height > 0:
            # A flow that starts when the last of these iterations ends belongs to the next one.
            sent = pl.col("start_s").is_between(of_job["start_s"].min(), of_job["end_s"].max(), closed="left")
            marks = float(flows.filter((pl.col("job") == job) & sent)["marks"].sum())
        rows.append(_means(job, of_job.height, float(of_job["iteration_s"].sum()), marks))
    return pl.DataFrame(rows, schema=MEANS, orient="row")


def whole_iterations(run: Run) -> pl.DataFrame:
    """The iterations of a replay without those that were under way at its start."""
    return run.tables["iterations"].filter(pl.col("iteration") > 0)


def _means(job: str, count: int, length_s: float, marks: float | None) -> tuple[Any, ...]:
    """A row of `MEANS` from sums over `count` iterations."""
    if count == 0:
        return job, 0, None, None
    return job, count, length_s / count, None if marks is None else marks / count


def _trace_of(run: Run) -> Trace:
    manifest = run.manifest
    if "scheduler" not in manifest:
        raise InputError("it is not a run of `hocket cluster`: its manifest names no scheduler")
    made_by, ours = manifest["hocket_version"], version("hocket")
    if made_by != ours:
        raise InputError(
            f"it was made by Hocket {made_by}, and this is {ours}, which may make other decisions: "
            "run the trace again"
        )
    return parse_trace(manifest["plan"]["given"], source="the trace in its manifest")


def _policy_of(run: Run, scheduler: str | None, trace: Trace) -> Policy:
    """The policy named in the run's manifest, loaded from `scheduler` if that is given.

    Raises `InputError` if the two differ.
    """
    recorded = run.manifest["scheduler"]
    try:
        policy = load_policy(scheduler or recorded, trace)
    except InputError:
        if scheduler is not None:
            raise
        # The manifest records the name of a user's class, but not its file.
        raise InputError(
            f"it ran under a class of your own; give its file: --scheduler FILE.py:{recorded}"
        ) from None
    if policy.title != recorded:
        raise InputError(
            f"scheduler {scheduler!r}: the run used {recorded!r}, and can be replayed only under it"
        )
    return policy


def _check_replayable(policy: Policy) -> Policy:
    # A user's class need not have this attribute.
    if getattr(policy.scheduler, "dedicated", False):
        raise InputError(f"scheduler {policy.title!r}: its jobs share no network that could be replayed")
    if policy.crux or policy.mltcp or policy.perfect_routing:
        raise InputError(
            f"scheduler {policy.title!r}: cannot be replayed, as a plan cannot express its paths, priorities "
            "and weights"
        )
    return policy


def _decisions_ps(run: Run) -> Iterator[int]:
    """The times of all decisions, ascending."""
    return (round(at_s * _PS_PER_S) for at_s in run.tables["decisions"]["at_s"])


def _counts_marks(trace: Trace) -> bool:
    return trace.settings.marks and marks_for(trace.network) is not None


def _plan(
    trace: Trace, transitions: Transitions, stints: Mapping[int, Stint], at_ps: int, until_ps: int
) -> dict[str, Any]:
    fitted = marks_for(trace.network) is not None
    policy = {"jitter": trace.settings.jitter, **({"congestion": CONGESTION} if fitted else {})}
    return {
        "name": f"{trace.name} at {format_duration(at_ps)}",
        "seed": trace.seed,
        "fabric": trace.file.fabric.model_dump(mode="json", by_alias=True, exclude_unset=True),
        # Marks in the cluster run were fitted to these thresholds; other networks take the defaults of plans.
        "switch": SWITCH if fitted else {},
        "run": {"until": format_duration(until_ps - at_ps)},
        "jobs": [
            {
                **_job(stints[rest["job"]], rest, at_ps),
                "placement": _hosts(trace, stints[rest["job"]]),
                # ECMP hashes the label, so that flows take the same paths as in the run.
                "label": transitions.routes.label(stints[rest["job"]].job.name),
                **policy,
            }
            for rest in transitions.engine.rests()
        ],
    }


def _hosts(trace: Trace, stint: Stint) -> list[str]:
    """The hosts of a stint in the order of its ring, each once."""
    return list(dict.fromkeys(trace.cluster.hosts[gpu] for gpu in stint.gpus))


def _job(stint: Stint, rest: "_hocket._Rest", at_ps: int) -> dict[str, Any]:
    """The rest of a job as keys of a plan: its work, its first iteration and its slots."""
    profile = native_profile(stint.job.profile(len(stint.gpus), stint.batch_size))
    job = {"name": stint.job.name, **_as_plan(profile), "iterations": rest["iterations"]}
    if rest["rest"] is not None:
        job["first"] = _as_plan(rest["rest"])
        # In a plan the rest of a wait is an iteration; the engine does not count it among those left.
        job["iterations"] += rest["waits"]
    if rest["slots"] is not None:
        period_ps = rest["slots"]["period_ps"]
        shift_ps = (rest["slots"]["origin_ps"] - at_ps) % period_ps
        # A plan cannot express slots shorter than an iteration, and a time-shift would delay an iteration
        # that begins now.
        if period_ps >= profile["period_ps"] and (rest["rest"] is not None or shift_ps == 0):
            slots = {"time_shift": format_duration(shift_ps), "pad_to": format_duration(period_ps)}
            job |= {**slots, "readjust": rest["slots"]["readjusts"]}
    return job


def _as_plan(profile: "_hocket._Profile") -> dict[str, Any]:
    up = [
        {
            "start": format_duration(phase["start_ps"]),
            "duration": format_duration(phase["duration_ps"]),
            "rate": format_rate(phase["rate_bps"]),
        }
        for phase in profile["phases"]
    ]
    return {"period": format_duration(profile["period_ps"]), "up": up}


def _means_until(
    engine: _hocket.ClusterRun, stints: Mapping[int, Stint], at_ps: int, until_ps: int
) -> pl.DataFrame:
    """Advance a cluster to `until_ps` without decisions; return `MEANS` of the jobs in `stints`."""
    # Rows from before the window are dropped.
    engine.take_tables()
    # `advance` returns whenever a job ends.
    while engine.now_ps < until_ps:
        engine.advance(until_ps)
    rows = frame(engine.take_tables()["iterations"])
    means = []
    for number, stint in stints.items():
        of_job = rows.filter(pl.col("job") == number)
        # The first of several equal iterations in one row may have begun before the window.
        begun = of_job["count"] - (of_job["start_ps"] <= at_ps).cast(pl.UInt64)
        part = begun / of_job["count"]
        length_s = float((of_job["duration_ps"] * part).sum()) / _PS_PER_S
        marks = float((of_job["marks"] * part).sum())
        means.append(_means(stint.job.name, int(begun.sum()), length_s, marks))
    return pl.DataFrame(means, schema=MEANS, orient="row")
