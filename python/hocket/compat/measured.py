"""The demand of a training job on each link, measured in an iteration alone on the fabric of its plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import polars as pl

from hocket import _hocket
from hocket.compat.phases import Floats, phases_of
from hocket.engines.flow import run_for_table
from hocket.engines.network import Network
from hocket.engines.specs import training_job_spec
from hocket.errors import InputError
from hocket.plan import Plan
from hocket.profiles import PhaseSpec, WorkloadProfile
from hocket.results.sink import Memory
from hocket.results.times import in_ps
from hocket.units import format_duration

SAMPLES = 720
"""Samples per iteration, half a degree of the circle each: a tenth of the 5° steps of NSDI'24."""

STEADY = 0.01
"""The share by which iterations of a job alone may differ: measured iteration times vary by as much."""

# A rank that has finished an iteration begins the next one without waiting for the others, so the first
# iterations of a pipeline, which is still filling, differ from the later ones.
_WARM_UP = 3


@dataclass(frozen=True)
class MeasuredIteration:
    """An iteration of a training job alone: its period, and its rate on each link over time."""

    period_ps: int
    rates_bps: Mapping[int, Floats]
    """By directed link, the mean rate in each of `SAMPLES` parts of the period, shape (SAMPLES,): data with
    headers, and acknowledgements."""
    events: int
    """The number of events of the flow engine per iteration."""
    description: str

    @cached_property
    def mean_bps(self) -> dict[int, float]:
        """By link, the mean rate over the iteration."""
        return {link: float(rates.mean()) for link, rates in self.rates_bps.items()}

    def share_at_other_times(self, one: int, other: int) -> float:
        """The share of the bytes on link `one` that crosses link `other` at another time of the iteration."""
        rates = [self.rates_bps[link] / self.rates_bps[link].sum() for link in (one, other)]
        # Half of all differences: each byte that is missing at one time is in excess at another.
        return float(np.abs(rates[0] - rates[1]).sum()) / 2

    def profile(self, link: int, capacity_bps: int) -> WorkloadProfile:
        """The demand on `link`, whose rate is `capacity_bps`."""
        return self.with_phases(phases_of(self.rates_bps[link], self.period_ps, capacity_bps))

    def with_phases(self, phases: tuple[PhaseSpec, ...]) -> WorkloadProfile:
        """A profile of this period with `phases`."""
        return WorkloadProfile(self.period_ps, phases, (self.description,))


def measure(
    plan: Plan, number: int, network: Network, placement: Mapping[str, Sequence[str]] | None
) -> MeasuredIteration:
    """Measures an iteration of training job `number` of `plan` under `placement`, alone on the fabric.

    Compute times do not jitter; stragglers are as slow as in the plan. Raises `InputError` if iterations
    differ by more than `STEADY`, and as `training_job_spec` does.
    """
    job = plan.jobs[number]
    spec = training_job_spec(plan, number, placement, network)
    # The iteration wanted is an undisturbed one: all that delays or varies iterations is turned off.
    spec = {
        **spec,
        "iterations": _WARM_UP + 2,
        "arrival_ps": 0,
        "time_shift_ps": None,
        "jitter": 0.0,
        "pad_to_ps": None,
    }
    iterations, ran = _run("iterations", plan, network, number, spec)
    rows = iterations.filter(job=job.name).sort("iteration")
    times = rows.select(in_ps("start_s"), in_ps("end_s"))
    # The start of an iteration is that of its first rank, the end that of its last.
    starts, ends = times["start_s"].to_list(), times["end_s"].to_list()
    # Starts alone would not show that ranks drift apart: the fastest rank starts regularly, while the slowest
    # ends later each time.
    spacings = [later - earlier for times in (starts, ends) for earlier, later in pairwise(times[-3:])]
    period_ps = starts[-1] - starts[-2]
    if max(spacings) - min(spacings) > STEADY * period_ps:
        raise InputError(
            f"jobs[{number}].training: job {job.name!r}: alone, its iterations begin or end "
            f"{format_duration(min(spacings))} to {format_duration(max(spacings))} apart; "
            "only jobs whose iterations are alike can take turns"
        )
    # Rounded down, so that all samples are within the iteration; together they miss less than 1 ns of it.
    interval_ps = max(1, period_ps // SAMPLES)
    # The job arrives this much later, so that the sampled iteration begins at the border of a sample.
    late_ps = -starts[-2] % interval_ps
    begin_ps = starts[-2] + late_ps
    end_ps = begin_ps + SAMPLES * interval_ps
    utilisation, _ = _run(
        "utilisation",
        plan,
        network,
        number,
        {**spec, "arrival_ps": late_ps},
        sample_every_ps=interval_ps,
        until_ps=end_ps + 1,
    )
    links = {name: link for link, (name, _) in enumerate(network.fabric.links())}
    sent = utilisation.filter(job=job.name)
    rates_bps: dict[int, Floats] = {}
    for (name,), rows in sent.group_by("link"):
        # A sample is dated at its end.
        place = (rows.select(in_ps("at_s"))["at_s"].to_numpy() - begin_ps) // interval_ps - 1
        within = (place >= 0) & (place < SAMPLES)
        rates = np.zeros(SAMPLES)
        rates[place[within]] = rows["bytes"].to_numpy()[within] * 8e12 / interval_ps
        if rates.any():
            rates_bps[links[str(name)]] = rates
    return MeasuredIteration(
        period_ps=period_ps,
        rates_bps=rates_bps,
        # Rounded up to at least 1, because `predict` divides by it.
        events=-(-ran["counters"]["events"] // len(starts)),
        description="measured on the flow engine: an iteration alone on the plan's fabric",
    )


def alone(number: int, spec: "_hocket._JobSpec") -> "list[_hocket._JobSpec]":
    """Job `number` after as many idle jobs, because ECMP's hash depends on a job's number."""
    idle: list[_hocket._JobSpec] = [
        {
            **spec,
            "name": f"{spec['name']} {place}",
            "profile": {"period_ps": 1, "phases": []},
            "crossings": [],
            "training": None,
            "arrival_ps": 0,
            "iterations": 1,
            "time_shift_ps": None,
        }
        for place in range(number)
    ]
    return [*idle, spec]


def _run(
    table: str,
    plan: Plan,
    network: Network,
    number: int,
    spec: "_hocket._JobSpec",
    *,
    sample_every_ps: int | None = None,
    until_ps: int | None = None,
) -> "tuple[pl.DataFrame, _hocket._FlowRunResult]":
    rows = Memory()
    ran = run_for_table(
        table,
        network,
        alone(number, spec),
        {
            "priority_queues": plan.priority_queues,
            "goodput": plan.goodput,
            "seed": plan.seed,
            "iterations": None,
            "until_ps": until_ps,
            "record_rates_until_ps": 0,
            "record_operations": 0,
            "sample_every_ps": sample_every_ps,
            "record_flows": False,
        },
        lambda columns: rows.append(table, columns),
    )
    return rows.take_tables()[table], ran
