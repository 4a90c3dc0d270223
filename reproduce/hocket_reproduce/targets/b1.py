"""B1: CASSINI and its rivals beside each other, on leaf-spine fabrics of several ratios and sizes and under
several loads. FIFO places the jobs; Crux, MLTCP, perfect routing, CASSINI and MonkeyTree do the rest.
"""

import json
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from statistics import mean

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from hocket.cluster.simulation import simulate_cluster
from hocket.cluster.trace import parse_trace
from hocket.results import Run
from hocket_reproduce.figures.lines import LinesPanel, lines_figure
from hocket_reproduce.targets.cluster import Estimate, estimate, percentile, row
from hocket_reproduce.targets.setting import NIC, Tables
from hocket_reproduce.targets.target import Progress, Reproduction, Row

SEEDS = (1, 2, 3)
_GPUS_PER_RACK, _GPUS_PER_SERVER = 16, 8


@dataclass(frozen=True)
class Setting:
    """A fabric and a load."""

    gpus: int = 1_024
    ratio: int = 4
    """The rate below a ToR ÷ the rate above it."""
    load: float = 0.8

    def __str__(self) -> str:
        return f"{self.gpus:,} GPUs, {self.ratio}:1, load {self.load:g}"

    @property
    def uncontended(self) -> "Setting":
        """The same jobs and GPUs without over-subscription."""
        return replace(self, ratio=1)

    def trace(self, seed: int) -> Tables:
        """Racks of two servers, with a NIC for each GPU and as many cables to spines as the ratio leaves."""
        clos = {
            "racks": self.gpus // _GPUS_PER_RACK,
            "servers_per_rack": _GPUS_PER_RACK // _GPUS_PER_SERVER,
            "gpus_per_server": _GPUS_PER_SERVER,
            "spines": _GPUS_PER_RACK // self.ratio,
            "cables_per_spine": 1,
            "nic": NIC,
            "uplink": NIC,
        }
        return {
            "fabric": {"scale_up": True, "clos": clos},
            # A row for each iteration would be millions; what stands between two decisions is repeated.
            "cluster": {"merge": 0.1, "skip_ahead": True, "marks": False},
            "poisson": {
                "load": self.load,
                # Twice as many as can run at a time, with 12.5 workers on average.
                "jobs": 4 * self.gpus // 25,
                "workers": [1, 24],
                "max_workers": 24,
                "run_time": ["20 min", "2 h"],
            },
            "seed": seed,
        }


FIFO, PERFECT, MONKEYTREE = "FIFO", "FIFO+perfect routing", "FIFO+MonkeyTree"
CASSINI, BOTH = "FIFO+CASSINI", "FIFO+MonkeyTree+CASSINI"
RANDOM, RANDOM_MONKEYTREE = "Random", "Random+MonkeyTree"
UNCONTENDED = "uncontended"
MIGRATING = (MONKEYTREE, BOTH, RANDOM_MONKEYTREE)

POLICIES: Mapping[str, str] = {
    FIFO: "fifo",
    "FIFO+Crux": "fifo+crux",
    "FIFO+MLTCP": "fifo+mltcp",
    CASSINI: "fifo+cassini",
    PERFECT: "fifo+perfect-routing",
    MONKEYTREE: "fifo+monkeytree",
    BOTH: "fifo+monkeytree+cassini",
    RANDOM: "random",
    "Random+Crux": "random+crux",
    "Random+perfect routing": "random+perfect-routing",
    RANDOM_MONKEYTREE: "random+monkeytree",
    # On fabrics without over-subscription, no two jobs contend: the ideal with the same queue of jobs.
    UNCONTENDED: "fifo+perfect-routing",
}
"""Schedulers as `hocket cluster --scheduler` takes them, by the names in rows and figures."""

BASE = Setting()
RATIOS = tuple(replace(BASE, ratio=ratio) for ratio in (1, 2, 4, 8, 16))
LOADS = tuple(replace(BASE, load=load) for load in (0.5, 0.7, 0.8, 1.0))
SIZES = tuple(replace(BASE, gpus=gpus) for gpus in (256, 512, 1_024, 2_048))
SMALLEST = SIZES[0]
LARGEST = Setting(2_048, 16)
"""That of the paper's 99th percentile."""


@dataclass(frozen=True)
class Outcome:
    """What rows and figures need of a run."""

    slowdown: float
    """The total time of all iterations ÷ their total time on an idle network."""
    p99_slowdown: float
    completions_s: tuple[float, ...]
    """From arrival to end, by job in the order of the trace."""
    contending: float
    """The share of jobs that another job ever delayed."""
    migrated: int
    """The workers that MonkeyTree moved while they ran."""
    unproven: int
    """The steps of MonkeyTree that may not be optimal."""

    @classmethod
    def of(cls, run: Run) -> "Outcome":
        """The outcome of a run in which all jobs are done."""
        iterations, jobs = run.tables["iterations"], run.tables["jobs"]
        count = iterations["count"].to_numpy()
        iteration_s, ideal_s = iterations["iteration_s"].to_numpy(), iterations["ideal_s"].to_numpy()
        plans = [plan for why in run.tables["decisions"]["why"] if (plan := json.loads(why)["monkeytree"])]
        delayed = run.tables["delays"].filter(pl.col("delay_s") > 0)["job"].n_unique()
        return cls(
            slowdown=float((iteration_s * count).sum() / (ideal_s * count).sum()),
            p99_slowdown=percentile(iteration_s / ideal_s, weights=count.astype(np.float64)),
            completions_s=tuple(jobs["completion_s"].to_list()),
            contending=delayed / jobs.height,
            migrated=sum(plan["migrated workers"] for plan in plans),
            unproven=sum(not step["proven"] for plan in plans for step in plan["steps"]),
        )


@dataclass(frozen=True)
class Case:
    """One run."""

    setting: Setting
    scheduler: str
    seed: int

    def run(self) -> Outcome:
        """Simulate it."""
        trace = parse_trace(self.setting.trace(self.seed))
        return Outcome.of(simulate_cluster(trace, POLICIES[self.scheduler]))


Outcomes = Mapping[Case, Outcome]


class Measured:
    """Outcomes by setting and scheduler, with those of uncontended runs to compare them with."""

    def __init__(self, outcomes: Outcomes, seeds: Sequence[int]) -> None:
        self._outcomes = outcomes
        self._seeds = seeds

    def of(self, setting: Setting, scheduler: str, quantity: Callable[[Outcome], float]) -> Estimate:
        """`quantity` over all seeds."""
        return estimate([quantity(self._outcomes[Case(setting, scheduler, seed)]) for seed in self._seeds])

    def completions(
        self, setting: Setting, scheduler: str, over: Callable[[Sequence[float]], float]
    ) -> list[float]:
        """By seed: `over` the completion times of all jobs ÷ the same in the uncontended run."""
        return [
            over(self._outcomes[Case(setting, scheduler, seed)].completions_s)
            / over(self._outcomes[Case(setting.uncontended, UNCONTENDED, seed)].completions_s)
            for seed in self._seeds
        ]

    def completion(
        self, setting: Setting, scheduler: str, over: Callable[[Sequence[float]], float] = mean
    ) -> Estimate:
        """The mean of `completions` over all seeds."""
        return estimate(self.completions(setting, scheduler, over))

    def schedulers(self, setting: Setting) -> list[str]:
        """Those that ran in `setting`, in the order of `POLICIES`; not the uncontended one."""
        first = self._seeds[0]
        return [
            name for name in POLICIES if name != UNCONTENDED and Case(setting, name, first) in self._outcomes
        ]


def p99(values: Sequence[float]) -> float:
    """The 99th percentile."""
    return percentile(np.array(values))


Grid = Mapping[Setting, Sequence[str]]
"""The schedulers that run in each setting."""


def grid() -> Grid:
    """All schedulers in `SMALLEST`, those that take seconds for packed jobs in `BASE`, and elsewhere
    those that show the effect of migration.
    """
    every = tuple(name for name in POLICIES if name != UNCONTENDED)
    quick = tuple(name for name in every if name.startswith(FIFO) and name not in (CASSINI, BOTH))
    return {
        **dict.fromkeys((*RATIOS, *LOADS, *SIZES, LARGEST), (FIFO, MONKEYTREE)),
        BASE: quick,
        SMALLEST: every,
    }


def cases(compared: Grid, seeds: Sequence[int]) -> list[Case]:
    """All runs, and the uncontended ones to compare them with, each once."""
    every = (
        Case(*each, seed)
        for setting, names in compared.items()
        for each in (*((setting, name) for name in names), (setting.uncontended, UNCONTENDED))
        for seed in seeds
    )
    return list(dict.fromkeys(every))


def measured(runs: Sequence[Case], progress: Progress) -> Outcomes:
    """The outcomes of `runs`, in as many processes as there are cores."""
    # Processes of their own: the libraries have threads, which a fork does not survive.
    context = multiprocessing.get_context("spawn")
    found: dict[Case, Outcome] = {}
    with ProcessPoolExecutor(mp_context=context) as pool:
        # The largest first, so that none is left for the end.
        ordered = sorted(runs, key=lambda each: -each.setting.gpus)
        waiting = {pool.submit(each.run): each for each in ordered}
        for done in as_completed(waiting):
            case = waiting[done]
            found[case] = done.result()
            progress(f"{len(found)} of {len(runs)}: {case.setting}: {case.scheduler}, seed {case.seed}")
    return found


def over_next_best(found: Measured, setting: Setting, placed: str, migrating: str) -> tuple[str, Estimate]:
    """Of the schedulers without migration whose names begin with `placed`, the one under which jobs complete
    first; and its mean completion ÷ that under `migrating`.
    """
    others = [name for name in found.schedulers(setting) if name.startswith(placed) and name not in MIGRATING]
    best = min(others, key=lambda name: found.completion(setting, name).mean)
    # The uncontended runs cancel out.
    pairs = zip(*(found.completions(setting, name, mean) for name in (best, migrating)), strict=True)
    return best, estimate([over / under for over, under in pairs])


def claimed_rows(found: Measured) -> Iterator[Row]:
    """The papers' values beside ours."""
    best, gain = over_next_best(found, BASE, FIFO, MONKEYTREE)
    yield row(
        "packed, next best ÷ MonkeyTree: mean completion",
        1.14,
        gain,
        "×",
        f"{BASE}; next best: {best}; packed jobs hardly contend, so there is little to gain",
    )
    best, gain = over_next_best(found, SMALLEST, RANDOM, RANDOM_MONKEYTREE)
    yield row(
        "at random, next best ÷ MonkeyTree: mean completion",
        1.14,
        gain,
        "×",
        f"{SMALLEST}; next best: {best}; most jobs contend, and migration packs them",
    )
    yield row(
        "packed, MonkeyTree: 99th percentile of completions",
        1.05,
        found.completion(LARGEST, MONKEYTREE, p99),
        "×",
        f"{LARGEST}; FIFO alone {found.completion(LARGEST, FIFO, p99).factor}; the paper: within 5% of ideal",
    )
    for load, paper in ((0.7, 1.08), (0.8, 1.53), (1.0, 1.61)):
        yield row(
            f"packed, ECMP and max-min: slowdown at load {load:g}",
            paper,
            found.of(replace(BASE, load=load), FIFO, lambda each: each.slowdown),
            "×",
            "a packed ring of at most 24 workers crosses the uplinks of few racks, as do few others",
        )
    yield row(
        "at random, ECMP and max-min: slowdown at load 0.8",
        1.53,
        found.of(SMALLEST, RANDOM, lambda each: each.slowdown),
        "×",
        f"{SMALLEST}; rings cross the uplinks of nearly as many racks as they have workers",
    )
    for placed, setting, name in (("packed", BASE, FIFO), ("at random", SMALLEST, RANDOM)):
        yield row(
            f"{placed}, ECMP: jobs that contend",
            36.3,
            found.of(setting, name, lambda each: each.contending),
            "%",
            f"{setting}; Crux's is of a production cluster; ours are jobs that another one ever delayed",
            scale=100,
        )


def setting_rows(found: Measured, settings: Iterable[Setting]) -> Iterator[Row]:
    """Each scheduler in each setting."""
    for setting in settings:
        for name in found.schedulers(setting):
            notes = [
                f"99th percentile {found.completion(setting, name, p99).mean:.4g}×",
                f"slowdown of iterations {found.of(setting, name, lambda each: each.slowdown).factor}, "
                f"99th percentile {found.of(setting, name, lambda each: each.p99_slowdown).mean:.4g}×",
                f"{found.of(setting, name, lambda each: each.contending).mean:.1%} of jobs contend",
            ]
            if name in MIGRATING:
                migrated = found.of(setting, name, lambda each: float(each.migrated)).mean
                unproven = found.of(setting, name, lambda each: float(each.unproven)).mean
                notes.append(f"{migrated:.3g} workers migrate; {unproven:.2g} steps not proven")
            quantity = f"{setting}: {name}: mean completion"
            yield row(quantity, None, found.completion(setting, name), "×", "; ".join(notes))


def reproduce(progress: Progress) -> Reproduction:
    """The bake-off, with one of ratio, load and size varied at a time."""
    return reproduction(measured(cases(grid(), SEEDS), progress), SEEDS)


def reproduction(outcomes: Outcomes, seeds: Sequence[int]) -> Reproduction:
    """Rows and figure of these runs."""
    found = Measured(outcomes, seeds)
    settings = dict.fromkeys((*RATIOS, *LOADS, *SIZES, LARGEST))
    return Reproduction(
        "B1",
        "Rivals of CASSINI, and migration (MonkeyTree, arXiv 2602.08296)",
        (*claimed_rows(found), *setting_rows(found, settings)),
        partial(_figure, found),
        (
            "Leaf-spine fabrics: racks of two servers with eight GPUs, a NIC of 50 Gbps for each GPU, and "
            "as many cables of 50 Gbps to spines as the ratio leaves: 16 at 1:1, and one at 16:1. One of "
            f"ratio, load and size is varied at a time, around {BASE}. All schedulers run on {SMALLEST.gpus} "
            f"GPUs, those without CASSINI on {BASE.gpus:,} GPUs, and FIFO and MonkeyTree elsewhere.",
            "Jobs: Poisson arrivals, all models of the catalogue, 1 to 24 workers, 20 min to 2 h alone; "
            f"twice as many as can run at a time. {len(seeds)} seeds, and intervals of 95%. FIFO keeps the "
            "order of arrival, and packs each job into as few servers and racks as are free; Random draws "
            "the GPUs of each job. A job that has just been placed moves at no price.",
            "Completions are from arrival to end, waiting included, and relative to those of the same jobs "
            "under FIFO with perfect routing at 1:1, where no two jobs contend. A job contends if another "
            "one ever delays it.",
            "The abstract of MonkeyTree was at hand, but neither the workload nor the racks and placements "
            "of its simulations: settings are Hocket's own. The values by load and that of Crux are as "
            "quoted from these papers.",
        ),
    )


def _figure(found: Measured) -> Figure:
    return lines_figure(
        [
            _panel(found, "over-subscription", "ratio", {each: each.ratio for each in RATIOS}),
            _panel(found, "load", "load", {each: each.load for each in LOADS}),
            _panel(found, "size", "GPUs", {each: each.gpus for each in SIZES}),
        ],
        "Jobs that FIFO places",
    )


def _panel(found: Measured, title: str, label: str, settings: Mapping[Setting, float]) -> LinesPanel:
    """A line for each scheduler that ran in all `settings`, which are given with their places on the axis."""
    ran = [found.schedulers(setting) for setting in settings]
    everywhere = [name for name in POLICIES if all(name in names for names in ran)]
    return LinesPanel(
        title,
        label,
        "mean completion (% above uncontended)",
        list(settings.values()),
        {name: [100 * (found.completion(each, name).mean - 1) for each in settings] for name in everywhere},
        log_x=label != "load",
    )
