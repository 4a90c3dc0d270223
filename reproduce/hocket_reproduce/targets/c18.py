"""C18: DLRM arrives at six servers of two GPUs each (NSDI'24 §5.6 and Fig 16)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import mean

from matplotlib.figure import Figure

from hocket_reproduce.figures.scheduler_comparison import scheduler_comparison_figure
from hocket_reproduce.targets.cluster import (
    BY_TIME_NOTE,
    DRAWN,
    IDEAL,
    PACKED,
    RANDOM,
    RANDOM_CASSINI,
    RANDOM_FABRIC,
    SEEDS,
    TH_CASSINI,
    TH_FABRIC,
    THEMIS,
    Outcomes,
    Published,
    Readings,
    SchedulerRun,
    Sensitivities,
    factor_rows,
    idle_rows,
    iteration_distribution,
    mechanism_rows,
    outcome,
    outcomes,
    percentile,
    ratio,
    reading_rows,
    row,
    sensitivity_rows,
    themis_over_time,
)
from hocket_reproduce.targets.setting import Tables
from hocket_reproduce.targets.target import Progress, Reproduction, Row

SCHEDULERS = (THEMIS, TH_CASSINI, TH_FABRIC, RANDOM, RANDOM_CASSINI, RANDOM_FABRIC, IDEAL)
_DRAWN = (THEMIS, TH_CASSINI, RANDOM, RANDOM_FABRIC, IDEAL)


def _servers(racks: int, servers_per_rack: int) -> Tables:
    """Servers with one NIC each, in racks below one switch."""
    return {
        "clos": {
            "racks": racks,
            "servers_per_rack": servers_per_rack,
            "gpus_per_server": 1,
            "spines": 1,
            "cables_per_spine": 1,
            "nic": "50 Gbps",
            "uplink": "50 Gbps",
        }
    }


def _of_three(*models: str) -> list[Tables]:
    return [{"model": model, "workers": 3} for model in models]


TWO_GPUS: Tables = {
    "fabric": _servers(3, 2),
    "cluster": {"gpus_per_host": 2},
    "until": "20 min",
    **DRAWN,
    "dynamic": {
        # Work for 20 min alone, in a run of 20 min: no job departs before the end.
        "run_time": ["20 min", "20 min"],
        "running": _of_three("XLM", "ResNet50", "VGG16"),
        "arriving": _of_three("DLRM"),
    },
}
"""NSDI'24 §5.6 names XLM, ResNet50 and DLRM on three GPUs each; with VGG16 all twelve are in use. Fig 16(a)
draws the network; this one is 2:1 over-subscribed as the testbed is."""

_FIXED: Tables = {"max_workers": 3}
_TOGETHER: Tables = {"running": _of_three("XLM", "ResNet50"), "arriving": _of_three("DLRM", "VGG16")}

SENSITIVITIES: Sensitivities = {
    "packed places": (PACKED, (THEMIS, TH_CASSINI)),
    "three workers each throughout": ({"dynamic": _FIXED}, (THEMIS, TH_CASSINI)),
    "no VGG16": (
        {"dynamic": {**_FIXED, "running": _of_three("XLM", "ResNet50")}},
        (THEMIS, TH_CASSINI),
    ),
    "VGG16 arrives with DLRM, three workers each throughout": (
        {"dynamic": {**_FIXED, **_TOGETHER}},
        (THEMIS, TH_CASSINI),
    ),
    "VGG16 arrives with DLRM, three workers each throughout, two racks of three": (
        {"fabric": _servers(2, 3), "dynamic": {**_FIXED, **_TOGETHER}},
        (THEMIS, TH_CASSINI),
    ),
    "100 candidates of Random": ({"cassini": {"candidates": 100}}, (RANDOM, RANDOM_FABRIC)),
}
"""Changes to the trace that might explain the paper's factors, each with the schedulers to compare."""

READINGS: Readings = {
    "VGG16 arrives with DLRM": {"dynamic": _TOGETHER},
    "VGG16 arrives with DLRM, the testbed's goodput": {
        "dynamic": _TOGETHER,
        "fabric": {**_servers(3, 2), "contended_goodput": "testbed"},
    },
}
"""NSDI'24 §5.6 does not say which other jobs there are, nor when they arrive."""

# Below the lease of 10 min: no auction moves a job, so all stay where they were placed.
_INSTANT = "9 min"


def instant(dlrm_shares: str) -> Tables:
    """The instant of NSDI'24 §5.6: XLM and ResNet50 have three GPUs each, and DLRM, with three more, shares a
    server with `dlrm_shares`, one of the two."""
    free = {"XLM": "s1:1", "ResNet50": "s3:1"}[dlrm_shares]
    placed = {
        "XLM": (12, ["s0:0", "s0:1", "s1:0"]),
        "ResNet50": (1600, ["s2:0", "s2:1", "s3:0"]),
        "DLRM": (2000, [free, "s4:0", "s4:1"]),
    }
    return {
        "fabric": _servers(3, 2),
        "cluster": {"gpus_per_host": 2},
        "until": _INSTANT,
        "jobs": [
            {
                "name": model,
                "model": model,
                # The batch sizes at which the catalogue is calibrated.
                "batch_size": batch_size,
                "workers": 3,
                "min_workers": 3,
                "iterations": 10_000,
                "placement": gpus,
            }
            for model, (batch_size, gpus) in placed.items()
        ],
    }


_LAST_GPUS = "DLRM gets the only GPUs that are free"


def reproduce(progress: Progress, seeds: Sequence[int] = SEEDS) -> Reproduction:
    """The trace under Themis and Random with and without CASSINI, the instant of §5.6, and sensitivities."""
    measured = outcomes(TWO_GPUS, SCHEDULERS, progress, seeds=seeds)
    published = Published(1.4, 1.9)
    rows = [
        *factor_rows(measured, THEMIS, TH_CASSINI, published, _LAST_GPUS),
        *factor_rows(measured, THEMIS, TH_FABRIC, published, _LAST_GPUS),
        *factor_rows(measured, RANDOM, RANDOM_CASSINI),
        *factor_rows(measured, RANDOM, RANDOM_FABRIC),
        *idle_rows(measured),
        *mechanism_rows(measured, TH_CASSINI),
        *mechanism_rows(measured, RANDOM_CASSINI),
        *reading_rows(TWO_GPUS, READINGS, published, progress, seeds),
        *_instant_rows(progress, seeds),
        *sensitivity_rows(TWO_GPUS, SENSITIVITIES, measured, progress, seeds),
    ]
    return Reproduction(
        "C18",
        "Six servers of two GPUs (NSDI'24 Fig 16)",
        tuple(rows),
        partial(_figure, measured),
        (
            f"Means and 95% intervals (Student's t) over seeds {SEEDS[0]} to {SEEDS[-1]}, which draw ties, "
            "jitter and placements of Random.",
            BY_TIME_NOTE,
            "When DLRM comes, three GPUs are free, one in each rack: Themis moves no job whose lease is "
            "running, so there is one candidate. With GPUs to spare it gives DLRM a rack of its own. "
            "Neither is the instant of §5.6, which is therefore placed by hand. If VGG16 arrives with DLRM, "
            "six GPUs are free, and most decisions have several candidates.",
            "The trace is that of examples/cluster; that instant, the readings and the sensitivities were "
            "chosen with these results known.",
        ),
    )


def _instant_rows(progress: Progress, seeds: Sequence[int]) -> Iterator[Row]:
    """The gain of §5.6's choice, DLRM beside ResNet50 instead of XLM, with all jobs placed by hand."""
    progress("DLRM beside XLM and beside ResNet50")
    beside = {
        model: [outcome(instant(model), TH_CASSINI, seed) for seed in seeds] for model in ("XLM", "ResNet50")
    }
    xlm, resnet50 = beside["XLM"], beside["ResNet50"]
    quantities: Mapping[str, tuple[float | None, Callable[[SchedulerRun], float]]] = {
        "mean iteration": (1.4, lambda each: each.mean_s),
        "99th percentile of iterations": (1.9, lambda each: percentile(each.iteration_s)),
        "mean slowdown": (None, lambda each: each.slowdown),
        "99th percentile of slowdowns": (None, lambda each: each.p99_slowdown),
    }
    scores = [float(each.link_scores["after"].drop_nulls().to_numpy().min()) for each in xlm]
    for quantity, (paper, value) in quantities.items():
        why = (
            "the paper's factor is of its whole trace; here only DLRM and XLM are slowed"
            if paper is not None
            else f"the link that DLRM and XLM share scores {mean(scores):.2f}; what DLRM and ResNet50 share "
            "is never full"
        )
        yield row(
            f"the paper's instant: DLRM beside XLM ÷ beside ResNet50, {quantity}",
            paper,
            ratio(xlm, resnet50, value),
            "×",
            why,
        )
    marks = [mean(each.marks("DLRM") for each in runs) for runs in (xlm, resnet50)]
    yield Row(
        "the paper's instant: ECN marks per iteration of DLRM, beside XLM",
        None,
        marks[0],
        "",
        f"beside ResNet50 {marks[1]:,.0f}",
    )


def _figure(measured: Outcomes) -> Figure:
    return scheduler_comparison_figure(
        themis_over_time(measured),
        (iteration_distribution(measured, _DRAWN),),
        "DLRM arrives at six servers of two GPUs",
    )
