"""X1: the same plans on both engines, and the error of the flow engine against the packet engine."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from hocket.engines.run import simulate
from hocket.results import Run
from hocket_reproduce.figures.lines import LinesPanel, lines_figure
from hocket_reproduce.targets.h1 import DOWN_S, UP_S, fig_2_job
from hocket_reproduce.targets.measure import iteration_times_s
from hocket_reproduce.targets.setting import (
    Tables,
    each_with,
    link_plan,
    shifted,
)
from hocket_reproduce.targets.target import Progress, Reproduction, Row
from hocket_reproduce.targets.testbed import (
    ITERATIONS,
    T_AGGRESSIVE_US,
    T_US,
    run_packets,
    with_timers,
)


@dataclass(frozen=True)
class Scenario:
    """Jobs of a plan: the flow engine reads their `share`, the packet engine their `congestion`.

    `why` names the effect that the flow engine leaves out where the engines differ.
    """

    name: str
    jobs: list[Tables]
    why: str = ""


@dataclass(frozen=True)
class Both:
    """One scenario on both engines."""

    flow: Run
    packet: Run

    def times_ms(self, job: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Each iteration of `job` on the flow engine, and on the packet engine."""
        return 1e3 * iteration_times_s(self.flow, job), 1e3 * iteration_times_s(self.packet, job)


def scenarios() -> list[Scenario]:
    """Every policy that both engines have, on the two VGG19 jobs of HotNets'22 Fig 2."""
    one, two = fig_2_job("J1"), fig_2_job("J2")
    pair = [one, two]
    slide = (
        "they slide apart on packets: chance starts it, then the job behind recovers by only 0.4 Gbps per ms "
        "(R_HAI every T), while the job ahead starts at line rate"
    )
    unequal = with_timers(pair, (T_AGGRESSIVE_US, T_US))
    # The flow engine's counterpart of unequal timers: DCQCN increases a rate once per T.
    unequal[0]["share"] = {"weighted": T_US / T_AGGRESSIVE_US}
    return [
        Scenario("one job", [one]),
        Scenario("two jobs, equal timers", with_timers(pair, (T_US, T_US)), slide),
        Scenario(
            f"two jobs, T of {T_AGGRESSIVE_US} and {T_US} µs, weight {T_US / T_AGGRESSIVE_US:g}",
            unequal,
            "the ratio of rates is only about that of the timers, and grows while they slide apart",
        ),
        Scenario(
            "two jobs, adaptive",
            each_with(with_timers(pair, (T_US, T_US), adaptive=True), share={"adaptive": 1.0}),
            "an R_AI of 5 Mbps decides little, doubled or not: they slide apart as with equal timers",
        ),
        Scenario(
            "two jobs, own priorities",
            [one, {**two, "priority": 1}],
            "DCQCN cuts the waiting job as if the link were full; once its turn comes, R_AI and R_HAI of 5 "
            "and 50 Mbps take long to bring it back to line rate",
        ),
        Scenario("two jobs, shifted by half a period", shifted(pair, {"J1": 0.0, "J2": (DOWN_S + UP_S) / 2})),
    ]


def measure(scenario: Scenario, iterations: int = ITERATIONS) -> Both:
    """Runs `scenario` on both engines."""
    return Both(
        simulate(link_plan(scenario.name, scenario.jobs, iterations=iterations)),
        run_packets(scenario.jobs, iterations=iterations),
    )


def reproduce(progress: Progress) -> Reproduction:
    """The first and the mean iteration of each job on both engines."""
    measured = {}
    for scenario in scenarios():
        progress(scenario.name)
        measured[scenario.name] = measure(scenario)
    rows = [row for scenario in scenarios() for row in _rows(scenario, measured[scenario.name])]
    return Reproduction(
        "X1",
        "Flow engine against packet engine",
        tuple(rows),
        partial(_figure, measured),
        (
            f"The VGG19 jobs of H2: {in_ms(DOWN_S)} Down, then 549 MB at up to 45 Gbps, on a link of 50 "
            f"Gbps, no jitter, {ITERATIONS} iterations. On packets: DCQCN as in H1, packets of 4,096 bytes "
            "with RoCEv2's headers, which take 2% of the link.",
            "Differences are of the packet engine from the flow engine; the flow engine's error has the "
            "opposite sign.",
        ),
        ("flow engine", "packet engine"),
    )


def in_ms(time_s: float) -> str:
    """A duration for readers."""
    return f"{1e3 * time_s:g} ms"


def _rows(scenario: Scenario, both: Both) -> Iterator[Row]:
    for job in (each["name"] for each in scenario.jobs):
        flow_ms, packet_ms = both.times_ms(job)
        here = f"{scenario.name}: {job}"
        yield Row(f"{here}, iteration 1", float(flow_ms[0]), float(packet_ms[0]), "ms", scenario.why)
        yield Row(f"{here}, mean", float(flow_ms.mean()), float(packet_ms.mean()), "ms", scenario.why)


def _figure(measured: Mapping[str, Both]) -> Figure:
    """The scenarios in which the engines differ."""
    panels = []
    for scenario in scenarios():
        if scenario.why:
            both = [measured[scenario.name].times_ms(each["name"]) for each in scenario.jobs]
            flow_ms, packet_ms = (np.mean(times, axis=0) for times in zip(*both, strict=True))
            panels.append((scenario.name.removeprefix("two jobs, "), flow_ms, packet_ms))
    limits = (
        0.97 * min(min(flow_ms.min(), packet_ms.min()) for _, flow_ms, packet_ms in panels),
        1.03 * max(max(flow_ms.max(), packet_ms.max()) for _, flow_ms, packet_ms in panels),
    )
    return lines_figure(
        [
            LinesPanel(
                name,
                "iteration",
                "mean iteration time (ms)",
                list(range(1, flow_ms.size + 1)),
                {"flow": flow_ms.tolist(), "packet": packet_ms.tolist()},
                y_limits=limits,
            )
            for name, flow_ms, packet_ms in panels
        ],
        "Two VGG19 jobs on both engines",
    )
