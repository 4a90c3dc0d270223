"""Sets of jobs that share links in the traces of C13 to C16, and their iterations in a run of their own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from hocket import _hocket
from hocket.cluster.simulation import simulate_cluster
from hocket.cluster.trace import Trace, parse_trace
from hocket.engines.network import Crossings, Network
from hocket.engines.specs import native_profile
from hocket.schedulers import Decision, Gpus, State
from hocket.schedulers.cassini import Cassini, CassiniOptions, Choice, Slot
from hocket.schedulers.cassini.components import Layout, Member, Part, layout
from hocket_reproduce.targets.cluster import TH_FABRIC
from hocket_reproduce.targets.setting import JITTER, Tables

_PS_PER_S = 10**12


@dataclass
class Frozen:
    """Jobs that share links, as CASSINI placed them."""

    part: Part
    seed: int
    """Of the trace that they are from."""
    in_force_ps: int
    """For how long the placement was in force."""


class _Recording(Cassini):
    """CASSINI that remembers the layout of each choice."""

    layouts: list[tuple[int, Layout]]

    def __init__(
        self,
        options: CassiniOptions,
        network: Network,
        crossings: Callable[[str, Gpus], Crossings],
        **settings: Any,
    ) -> None:
        super().__init__(options, network, crossings, **settings)
        self._crossed = crossings
        self._rates_bps = [rate_bps for _, rate_bps in network.links]

    def choose(self, state: State, decision: Decision, started_ps: Callable[[str], int | None]) -> Choice:
        choice = super().choose(state, decision, started_ps)
        placement = decision.candidates[choice.candidate].placement
        batch_sizes = decision.candidates[choice.candidate].batch_sizes
        members = []
        for each in state.jobs:
            name, gpus = each.job.name, tuple(placement.get(each.job.name, ()))
            batch_size = batch_sizes.get(name, each.batch_size)
            if gpus:
                profile = each.job.profile(len(gpus), batch_size)
                members.append(Member(name, gpus, batch_size, profile, self._crossed(name, gpus)))
        self.layouts.append((state.now_ps, layout(members, self._rates_bps)))
        return choice


def frozen(tables: Tables, seed: int) -> tuple[Trace, list[Frozen]]:
    """The trace in `tables` with this seed, and the components in a run of it under Themis and CASSINI."""
    trace = parse_trace(TH_FABRIC.trace(tables, seed))
    _Recording.layouts = []
    with patch("hocket.cluster.simulation.Cassini", _Recording):
        run = simulate_cluster(trace, TH_FABRIC.policy)
    end_ps = round(run.manifest["simulated_s"] * _PS_PER_S)
    times_ps = [at_ps for at_ps, _ in _Recording.layouts]
    found: dict[object, Frozen] = {}
    for (at_ps, shared), until_ps in zip(_Recording.layouts, [*times_ps[1:], end_ps], strict=True):
        for part in shared.parts:
            found.setdefault(part.key, Frozen(part, seed, 0)).in_force_ps += until_ps - at_ps
    return trace, list(found.values())


@dataclass(frozen=True)
class Way:
    """How jobs share their links."""

    slots: Mapping[int, Slot] | None = None
    """By place, relative to the time at which they are given."""
    again_ps: int | None = None
    """If jobs are in their slots for one turn only, and run as they like until the next: its time after."""
    share: "_hocket._Share" = ("fair", 1.0)


def slowdowns(trace: Trace, part: Part, way: Way, for_ps: int, draw: int) -> npt.NDArray[np.float64]:
    """By job, its mean iteration in `for_ps` ÷ that on an idle network.

    Jobs start at random times and run as they like for two of the longest iterations before they get slots,
    so the time that it takes to align them counts. `draw` selects random starts and compute times.
    """
    longest_ps = max(member.profile.period_ps for member in part.members)
    starts = Random(f"{draw} {part.names}")
    run = _hocket.ClusterRun(
        trace.network.fabric,
        {"seed": draw, "priority_queues": 1, "goodput": trace.goodput, "merge": 0.0, "marks": None},
    )
    jobs = []
    for member in part.members:
        job = run.add(member.name)
        jobs.append(job)
        run.start(
            job,
            {
                "profile": native_profile(member.profile),
                "crossings": member.crossings,
                "inputs": [],
                "at_ps": starts.randrange(member.profile.period_ps),
                # More than can fit, whatever jitter is drawn.
                "iterations": 10 + 2 * (for_ps + 3 * longest_ps) // member.profile.period_ps,
                "share": way.share,
                "priority": 0,
                "jitter": JITTER,
            },
        )
    begin_ps = 2 * longest_ps
    run.advance(begin_ps)
    run.take_tables()
    end_ps = begin_ps + for_ps
    _let_run(run, jobs, way, longest_ps, end_ps)
    rows = {
        name: np.frombuffer(each["buffer"], each["dtype"]).astype(np.float64)
        for name, each in run.take_tables()["iterations"].items()
    }
    means = []
    for job, member in zip(jobs, part.members, strict=True):
        mine = rows["job"] == job
        total_ps = (rows["duration_ps"] + rows["delayed_ps"])[mine].sum()
        # A job that finishes none has waited all the time.
        mean_ps = total_ps / rows["count"][mine].sum() if mine.any() else float(for_ps)
        means.append(mean_ps / member.profile.period_ps)
    return np.array(means)


def _let_run(run: _hocket.ClusterRun, jobs: list[int], way: Way, longest_ps: int, end_ps: int) -> None:
    slots = way.slots or {}
    while True:
        now_ps = run.now_ps
        for place, slot in slots.items():
            run.align(jobs[place], now_ps + slot.origin_ps, slot.period_ps, way.again_ps is None)
        if way.again_ps is None or now_ps >= end_ps:
            break
        run.advance(min(end_ps, now_ps + longest_ps * 6 // 5))
        for job in jobs:
            run.release(job)
        run.advance(min(end_ps, now_ps + way.again_ps))
    run.advance(end_ps)
