"""LIVE's rows: predictions beside live measurements, and why they differ."""

from collections.abc import Iterator, Sequence

from hocket.profiling import JobProfile
from hocket.results import Run
from hocket.tcp import requirements
from hocket_reproduce.targets.live.plans import (
    CAPACITY,
    CASES,
    ITERATIONS,
    JOBS,
    PERIOD_MS,
    RATE,
    SHIFTED,
    UNEQUAL,
    UNSHIFTED,
    UP_MS,
    WEIGHT,
    Case,
)
from hocket_reproduce.targets.live.runs import (
    DIRECTORY,
    ENGINES,
    CaseRuns,
    Measured,
)
from hocket_reproduce.targets.measure import by_job
from hocket_reproduce.targets.setting import JITTER
from hocket_reproduce.targets.target import Row
from hocket_reproduce.targets.testbed import T_AGGRESSIVE_US, T_US

LIMIT = 0.15
"""A live mean that differs from a prediction by more than this gets a comment with the reason."""


def rows(measured: Measured) -> Iterator[Row]:
    """The rows of one plan."""
    name = measured.name
    for job, outcome in measured.alone.items():
        yield _mean_row(f"{name}, {job} alone: mean iteration", outcome)
    for job, profile in measured.profiles.items():
        yield _period_row(f"{name}, {job} alone: period by its NIC's counter", profile)
    for case in CASES:
        if case.name in measured.cases:
            yield from _case_rows(measured, case)
    yield _adjustment_row(name, measured.cases[SHIFTED.name])


def _case_rows(measured: Measured, case: Case) -> Iterator[Row]:
    outcome, slow = measured.cases[case.name], measured.cases[UNSHIFTED.name]
    here = f"{measured.name}, {case.name}"
    yield _mean_row(f"{here}: mean iteration", outcome)
    if case is UNEQUAL:
        for job in JOBS:
            yield _mean_row(f"{here}: mean iteration of {job}", outcome, job)
    yield _mean_row(f"{here}: mean of the last half", outcome, after=0.5)
    if case is not UNSHIFTED:
        yield _gain_row(f"{here}: gain over {UNSHIFTED.name} in the last half", slow, outcome)


def _mean_row(quantity: str, outcome: CaseRuns, job: str | None = None, after: float = 0.0) -> Row:
    flow_ms, packet_ms, live_ms = (outcome.mean_ms(place, job, after) for place in (*ENGINES, "live"))
    comment = f"packets {packet_ms:.1f} ms"
    if any(abs(live_ms / predicted_ms - 1) > LIMIT for predicted_ms in (flow_ms, packet_ms)):
        comment = f"{comment}; {outcome.case.why}"
    return Row(quantity, flow_ms, live_ms, "ms", comment)


def _period_row(quantity: str, profile: JobProfile) -> Row:
    phases = ", ".join(
        f"{1e3 * phase.duration_s:.0f} ms at {phase.rate_bps / 1e6:.0f} Mbps" for phase in profile.phases
    )
    comment = f"against the plan's period; Up {phases}; confidence {profile.confidence:.2f}"
    return Row(quantity, float(PERIOD_MS), 1e3 * profile.period_s, "ms", comment)


def _gain_row(quantity: str, slow: CaseRuns, fast: CaseRuns) -> Row:
    flow, packet, live = (
        slow.mean_ms(place, after=0.5) / fast.mean_ms(place, after=0.5) for place in (*ENGINES, "live")
    )
    return Row(quantity, flow, live, "×", f"packets {packet:.2f}×")


def _adjustment_row(name: str, outcome: CaseRuns) -> Row:
    flow, packet, live = (_adjustments_per_minute(outcome.runs[place]) for place in (*ENGINES, "live"))
    comment = f"packets {packet:.1f}; of the job adjusted most; NSDI'24 Fig 17 has less than 2"
    return Row(f"{name}, {SHIFTED.name}: adjustments per minute", flow, live, "", comment)


def _adjustments_per_minute(run: Run) -> float:
    end_s = run.tables["iterations"]["end_s"].max()
    assert isinstance(end_s, float), "a run has iterations"
    return 60 * max(by_job(run, "adjustments").values()) / end_s


def notes(measured: Sequence[Measured]) -> tuple[str, ...]:
    """Notes on the plans, the machine, and the counterparts of each case on the engines."""
    manifest = measured[0].cases[SHIFTED.name].runs["live"].manifest
    machine = manifest["machine"]
    busiest = max(
        outcome.runs["live"].manifest["machine"]["busy"]
        for each in measured
        for outcome in (*each.alone.values(), *each.cases.values())
    )
    ups = " or ".join(f"{up_ms} ms ({name})" for name, up_ms in UP_MS.items())
    scores = ", ".join(f"{each.score:.2f} ({each.name})" for each in measured)
    return (
        f"Two jobs of two workers each, PyTorch {manifest['torch']} DDP over Gloo, start together on one "
        f"link of {CAPACITY} and run {ITERATIONS} iterations of {PERIOD_MS} ms, Up at {RATE} for {ups}. "
        f"Scores: {scores}. Compute is a wait.",
        f"Live: Linux {machine['kernel']}, {machine['processors']} processors, busy for {busiest:.0%} at "
        f"most. It is a measurement: another run differs by noise. The runs are kept in {DIRECTORY}.",
        "In the picture, live rates are those of the jobs' own interfaces, before the link's queue: for a "
        "few milliseconds they may add up to more than the link's capacity.",
        f"Predicted: the same plan with {JITTER:.0%} jitter, before the run; packets under DCQCN with T of "
        f"{T_US} µs.",
        "Shifts: what `hocket profile` finds in the counters of each job alone is registered with the "
        "service, and agents in the workers follow its slots. Predicted with the slots that it gives for "
        "the plan.",
        f"Unequal: the increase of {JOBS[0]} × {WEIGHT:g}; adaptive: × (1 + sent/total), by `hocket tcp` on "
        f"Reno. The flow engine models these as weights; packets have T of {T_AGGRESSIVE_US} and {T_US} µs "
        "as in H1, and R_AI × (1 + sent/total).",
        *(f"Left out, as this machine lacks it: {lacking}" for lacking in requirements.missing()),
    )
