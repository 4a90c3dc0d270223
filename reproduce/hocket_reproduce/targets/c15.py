"""C15, C16 and C20: jobs that arrive on a busy testbed under Themis and Pollux, with and without CASSINI, and
their ECN marks (NSDI'24 Fig 13, 14 and 19).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import mean

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from hocket.cluster.replay import replay
from hocket.cluster.simulation import simulate_cluster
from hocket.cluster.trace import parse_trace
from hocket.units import parse_duration
from hocket_reproduce.figures.scheduler_comparison import Distribution, scheduler_comparison_figure
from hocket_reproduce.targets.cluster import (
    BY_TIME_NOTE,
    DRAWN,
    FROM_PROFILES,
    IDEAL,
    LOSSY,
    PACKED,
    PO_CASSINI,
    PO_FABRIC,
    POLLUX,
    RANDOM,
    RANDOM_CASSINI,
    RANDOM_FABRIC,
    SEEDS,
    TH_CASSINI,
    TH_FABRIC,
    THEMIS,
    ConfiguredScheduler,
    Outcomes,
    Published,
    Readings,
    SchedulerRun,
    Sensitivities,
    estimate,
    factor_rows,
    idle_rows,
    iteration_distribution,
    mechanism_rows,
    outcomes,
    overlaid,
    pair_rows,
    pooled,
    reading_rows,
    scores,
    sensitivity_rows,
    themis_over_time,
)
from hocket_reproduce.targets.setting import (
    CONTENDED_CAPACITY,
    SNAPSHOTS,
    Tables,
)
from hocket_reproduce.targets.target import Progress, Reproduction, Row

SCHEDULERS = (THEMIS, TH_CASSINI, TH_FABRIC, POLLUX, PO_CASSINI, PO_FABRIC, IDEAL)
_PAPER_SCHEDULERS = (THEMIS, TH_CASSINI, POLLUX, PO_CASSINI)
_THEMIS_PAIRS = ((THEMIS, TH_CASSINI), (THEMIS, TH_FABRIC))
_POLLUX_PAIRS = ((POLLUX, PO_CASSINI), (POLLUX, PO_FABRIC))

_BUSY: Tables = {"fabric": {"testbed": "cassini"}, "until": "20 min", **DRAWN}
# Work for 20 min alone, in runs of 20 min: no job departs before the end.
_RUN_TIME = ["20 min", "20 min"]

MIXED: Tables = {
    **_BUSY,
    "dynamic": {
        "run_time": _RUN_TIME,
        "running": [
            {"model": "VGG16"},
            {"model": "VGG19"},
            {"model": "WideResNet101"},
            {"model": "RoBERTa"},
            {"model": "CamemBERT"},
        ],
        "arriving": [{"model": "DLRM"}, {"model": "ResNet50"}],
    },
}
"""The trace of C15 and C20. NSDI'24 §5.3 names only the arriving jobs; numbers of workers are drawn."""

MODEL_PARALLEL: Tables = {
    **_BUSY,
    "dynamic": {
        "run_time": _RUN_TIME,
        "running": [
            {"model": "GPT3"},
            {"model": "GPT1"},
            # The batch sizes of NSDI'24 §5.2.
            {"model": "GPT2", "name": "GPT2-A", "batch_size": 24},
            {"model": "GPT2", "name": "GPT2-B", "batch_size": 70},
        ],
        "arriving": [{"model": "DLRM"}, {"model": "GPT1"}, {"model": "GPT3"}],
    },
}
"""The trace of C16: models of NSDI'24 §5.4."""


def _tree(uplink: str) -> Tables:
    """Twelve racks of two servers below one switch: 13 switches and 2:1 as on the testbed, with 36 links."""
    return {
        "clos": {
            "racks": 12,
            "servers_per_rack": 2,
            "gpus_per_server": 1,
            "spines": 1,
            "cables_per_spine": 1,
            "nic": "50 Gbps",
            "uplink": uplink,
        }
    }


_THREE_EACH: Tables = {"workers": [3, 3], "max_workers": 3}

SENSITIVITIES: Sensitivities = {
    "packed places": (PACKED, (THEMIS, TH_CASSINI)),
    "the testbed's goodput": (LOSSY, (THEMIS, TH_CASSINI, TH_FABRIC)),
    "workers as submitted": ({"themis": {"workers": "requested"}}, (THEMIS, TH_CASSINI)),
    "leases and epochs of 2 min": ({"themis": {"lease": "2 min", "epoch": "2 min"}}, (THEMIS, TH_CASSINI)),
    "batch sizes uniform in Table 3": ({"dynamic": {"batch_sizes": "uniform"}}, (THEMIS, TH_CASSINI)),
    "three workers each": ({"dynamic": _THREE_EACH}, (THEMIS, TH_CASSINI)),
    "racks of two": ({"fabric": _tree("50 Gbps")}, (THEMIS, TH_CASSINI)),
    "racks of two, three workers each": (
        {"fabric": _tree("50 Gbps"), "dynamic": _THREE_EACH},
        (THEMIS, TH_CASSINI),
    ),
    f"racks of two with uplinks of {CONTENDED_CAPACITY}, three workers each": (
        {"fabric": _tree(CONTENDED_CAPACITY), "dynamic": _THREE_EACH},
        (THEMIS, TH_CASSINI),
    ),
    "100 candidates of Pollux": ({"cassini": {"candidates": 100}}, (POLLUX, PO_FABRIC)),
    "Pollux may grow jobs at once": ({"pollux": {"scale_up": "any"}}, (POLLUX, PO_CASSINI)),
    "Pollux leaves batch sizes alone": ({"pollux": {"tune_batch_size": False}}, (POLLUX, PO_CASSINI)),
}
"""Changes to C15's trace that might explain the paper's factors, each with the schedulers to compare."""

MIXED_READINGS: Readings = {
    "S from profiles": FROM_PROFILES,
    "S from profiles, the testbed's goodput": {**FROM_PROFILES, **LOSSY},
}
# No model of C16 has a published S: all are from profiles anyway.
MODEL_PARALLEL_READINGS: Readings = {"the testbed's goodput": LOSSY}

FULL: Tables = {
    **_BUSY,
    "dynamic": {
        "run_time": _RUN_TIME,
        "max_workers": 3,
        "running": [
            {"model": model, "batch_size": batch_size, "workers": 2}
            for number in (1, 2, 3, 4)
            for _, model, batch_size in SNAPSHOTS[number]
        ],
        "arriving": [{"model": "DLRM", "workers": 3}, {"model": "ResNet50", "workers": 3}],
    },
}
"""A cluster with no GPU to spare: the jobs of snapshots 1 to 4 of NSDI'24 Table 2, and those of §5.3 with
equal numbers of workers, so that their placements can be flipped as §5.3 describes."""


def _with_100_candidates(scheduler: ConfiguredScheduler, name: str) -> ConfiguredScheduler:
    settings = overlaid(scheduler.settings, {"cassini": {"candidates": 100}})
    return ConfiguredScheduler(name, scheduler.policy, settings)


_TH_100 = _with_100_candidates(TH_FABRIC, "Th+CASSINI (fabric, 100 candidates)")
_RANDOM_100 = _with_100_candidates(RANDOM_FABRIC, "Random+CASSINI (fabric, 100 candidates)")
_FULL_NAME = "a full cluster of Table 2's jobs"
_FULL_SCHEDULERS = (
    THEMIS,
    TH_CASSINI,
    TH_FABRIC,
    _TH_100,
    RANDOM,
    RANDOM_CASSINI,
    RANDOM_FABRIC,
    _RANDOM_100,
)
_FULL_PAIRS = (
    *((THEMIS, augmented) for augmented in (TH_CASSINI, TH_FABRIC, _TH_100)),
    *((RANDOM, augmented) for augmented in (RANDOM_CASSINI, RANDOM_FABRIC, _RANDOM_100)),
)

_MODEL_PARALLEL_SENSITIVITIES: Sensitivities = {
    name: SENSITIVITIES[name]
    for name in (
        "workers as submitted",
        "racks of two",
        "100 candidates of Pollux",
        "Pollux may grow jobs at once",
    )
}

# After DLRM's first start: by then all jobs that its arrival moved have restarted, which takes 30 s each.
_REPLAY_AFTER_S = 120
# Two or more iterations of DLRM, which take 1.4 to 1.8 s.
_REPLAY_FOR = "5 s"
_REPLAYED = "DLRM"

_ONE_WORKER = (
    "on two workers DLRM is no faster than on one in the catalogue, so Pollux, which doubles at most, leaves "
    "it one, and that sends nothing"
)


def reproduce_c15(progress: Progress, seeds: Sequence[int] = SEEDS) -> Reproduction:
    """The mixed trace with its marks, a window of it on packets, and what decides its factors."""
    measured = outcomes(MIXED, SCHEDULERS, progress, seeds=seeds)
    themis = Published(1.5, 2.2)
    rows = [
        *_factor_rows(measured, themis, Published(1.6, 2.5)),
        *reading_rows(MIXED, MIXED_READINGS, themis, progress, seeds),
        *_mark_rows(
            measured,
            {
                ("DLRM", THEMIS.name): (27, _seeds_without_marks(measured)),
                ("DLRM", POLLUX.name): (33, _ONE_WORKER),
            },
        ),
        *_replay_rows(progress, seeds[0]),
        *_full_rows(progress, seeds),
        *sensitivity_rows(MIXED, SENSITIVITIES, measured, progress, seeds),
    ]
    return Reproduction(
        "C15",
        "DLRM and ResNet50 arrive (NSDI'24 Fig 13)",
        tuple(rows),
        partial(
            _figure, measured, ("DLRM", "CamemBERT", "RoBERTa"), "DLRM and ResNet50 arrive on a busy testbed"
        ),
        (*_NOTES, *_READING_NOTES),
    )


def reproduce_c16(progress: Progress, seeds: Sequence[int] = SEEDS) -> Reproduction:
    """The trace of model-parallel jobs with its marks."""
    measured = outcomes(MODEL_PARALLEL, SCHEDULERS, progress, seeds=seeds)
    themis = Published(1.2, 1.6)
    which = "the text does not say of which model the paper's factor is (Fig 14d)"
    rows = [
        *_factor_rows(measured, themis),
        *reading_rows(MODEL_PARALLEL, MODEL_PARALLEL_READINGS, themis, progress, seeds),
        *_mark_rows(measured, {(_ALL, THEMIS.name): (29, which)}),
        *sensitivity_rows(MODEL_PARALLEL, _MODEL_PARALLEL_SENSITIVITIES, measured, progress, seeds),
    ]
    return Reproduction(
        "C16",
        "Model-parallel jobs arrive (NSDI'24 Fig 14)",
        tuple(rows),
        partial(_figure, measured, ("GPT1", "GPT3", "DLRM"), "Model-parallel jobs arrive on a busy testbed"),
        (*_NOTES, *_READING_NOTES),
    )


def reproduce_c20(progress: Progress, seeds: Sequence[int] = SEEDS) -> Reproduction:
    """Marks of ResNet50 and CamemBERT in the runs of C15."""
    measured = outcomes(MIXED, _PAPER_SCHEDULERS, progress, seeds=seeds)
    rows = [
        *(_resnet50_row(measured, scheduler) for scheduler in _PAPER_SCHEDULERS),
        *(each for model in _FIG_19 for each in _count_rows(measured, model)),
    ]
    return Reproduction(
        "C20",
        "ECN marks of ResNet50 and CamemBERT (NSDI'24 Fig 19)",
        tuple(rows),
        partial(_marks_figure, measured),
        _NOTES,
    )


_FIG_19 = ("ResNet50", "CamemBERT")
_ALL = "all models"


def _factor_rows(
    measured: Outcomes, themis: Published | None = None, pollux: Published | None = None
) -> Iterator[Row]:
    for pairs, published in ((_THEMIS_PAIRS, themis), (_POLLUX_PAIRS, pollux)):
        for baseline, augmented in pairs:
            yield from factor_rows(measured, baseline, augmented, published, "numbers of workers differ too")
    yield from idle_rows(measured)
    for augmented in (TH_CASSINI, TH_FABRIC, PO_CASSINI, PO_FABRIC):
        yield from mechanism_rows(measured, augmented)


def _seeds_without_marks(measured: Outcomes) -> str:
    """In how many seeds DLRM has no marks with CASSINI, as its factor depends on the others alone."""
    marks = _marks_by_seed(measured[TH_CASSINI.name], "DLRM")
    return f"with CASSINI DLRM has no marks in {marks.count(0)} of {len(marks)} seeds"


def _mark_rows(measured: Outcomes, published: Mapping[tuple[str, str], tuple[float, str]]) -> Iterator[Row]:
    """By scheduler and model: how many times fewer packets are marked with CASSINI.

    `published` gives the paper's factor by model and scheduler, with the reason why ours differs.
    """
    models = measured[THEMIS.name][0].iterations["model"].unique().sort().to_list()
    for baseline, augmented in ((THEMIS, TH_CASSINI), (POLLUX, PO_CASSINI)):
        for model in (_ALL, *models):
            paper, why = published.get((model, baseline.name), (None, ""))
            yield marks_row(measured, baseline, augmented, model, paper, why)
    for baseline, augmented in ((THEMIS, TH_FABRIC), (POLLUX, PO_FABRIC)):
        yield marks_row(measured, baseline, augmented, _ALL)


def marks_row(
    measured: Outcomes,
    baseline: ConfiguredScheduler,
    augmented: ConfiguredScheduler,
    model: str,
    paper: float | None = None,
    why: str = "",
    prefix: str = "",
) -> Row:
    """How many times fewer packets of a model are marked per iteration, with both counts in the comment.

    The quantity starts with `prefix`.
    """
    # A factor of mean counts, not a mean of factors: in some seeds no marks are left, which has no factor.
    over, under = (_marks_by_seed(measured[each.name], model) for each in (baseline, augmented))
    change = estimate([less - more for more, less in zip(over, under, strict=True)])
    counts = (
        f"{mean(over):,.0f} and {mean(under):,.0f} per iteration, a change of {change.mean:,.0f} ({change})"
    )
    quantity = f"{prefix}{model}: ECN marks, {baseline.name} ÷ {augmented.name}"
    comment = f"{counts}; {why}" if why else counts
    if mean(under) > 0:
        return Row(quantity, paper, mean(over) / mean(under), "×", comment)
    printed = None if paper is None else f"{paper:g}×"
    return Row(quantity, printed, "none left" if mean(over) > 0 else "none in either", "", comment)


def _marks_by_seed(runs: Sequence[SchedulerRun], model: str) -> list[float]:
    """Marks per iteration of jobs of `model`, by seed."""
    return [each.marks(None if model == _ALL else model) for each in runs]


def _count_rows(measured: Outcomes, model: str) -> Iterator[Row]:
    for scheduler in _PAPER_SCHEDULERS:
        counts = estimate(_marks_by_seed(measured[scheduler.name], model))
        yield Row(f"{model}: ECN marks per iteration, {scheduler.name}", None, counts.mean, "", str(counts))


def _resnet50_row(measured: Outcomes, scheduler: ConfiguredScheduler) -> Row:
    """Whether ResNet50 has fewer marks than other models have on average."""
    runs = measured[scheduler.name]
    # A mean of models' means: among all iterations, DLRM's few long ones would hardly count.
    others = sorted(set(runs[0].iterations["model"]) - {"ResNet50"})
    ours = mean(_marks_by_seed(runs, "ResNet50"))
    theirs = mean(mean(_marks_by_seed(runs, model)) for model in others)
    return Row(
        f"{scheduler.name}: ResNet50 against the mean of the other models",
        "fewer marks",
        "fewer marks" if ours < theirs else "no fewer marks",
        "",
        f"{ours:,.0f} and {theirs:,.0f} per iteration",
    )


def _full_rows(progress: Progress, seeds: Sequence[int]) -> Iterator[Row]:
    """Slowdowns and DLRM's marks on a full cluster, where jobs have to share links."""
    prefix = f"{_FULL_NAME}: "
    measured = outcomes(FULL, _FULL_SCHEDULERS, progress, seeds=seeds, prefix=prefix)
    for pair in _FULL_PAIRS:
        yield from pair_rows(_FULL_NAME, measured, *pair)
        yield marks_row(measured, *pair, "DLRM", prefix=prefix)


def _replay_rows(progress: Progress, seed: int) -> Iterator[Row]:
    """A window with DLRM rerun on packets, where marks are counted in queues instead of modelled."""
    for scheduler in (THEMIS, TH_CASSINI):
        progress(f"packets, {scheduler.name}, seed {seed}")
        run = simulate_cluster(parse_trace(scheduler.trace(MIXED, seed)), scheduler.policy)
        jobs = {each["job"]: each["first_start_s"] for each in run.tables["jobs"].iter_rows(named=True)}
        # Whole seconds, so that the row's comment names the very instant that was replayed.
        at_s = round(jobs[_REPLAYED] + _REPLAY_AFTER_S)
        compared = replay(run, at_s, parse_duration(_REPLAY_FOR) / 1e12).comparison().to_dicts()
        (dlrm,) = (each for each in compared if each["job"] == _REPLAYED)
        others = ", ".join(
            f"{each['job']} {each['marks_replayed']:,.0f} ({each['marks']:,.0f})"
            for each in compared
            if each is not dlrm and max(each["marks"], each["marks_replayed"]) > 0
        )
        yield Row(
            f"on packets, {scheduler.name}: ECN marks per iteration of {_REPLAYED}",
            None,
            dlrm["marks_replayed"],
            "",
            f"{dlrm['marks']:,.0f} on flows; iterations of {1e3 * dlrm['iteration_s_replayed']:,.0f} ms, on "
            f"flows {1e3 * dlrm['iteration_s']:,.0f} ms; {dlrm['iterations_replayed']} iterations within "
            f"{_REPLAY_FOR} from {at_s} s on, seed {seed}; other jobs (on flows): {others or 'no marks'}",
        )


_NOTES = (
    f"Means and 95% intervals (Student's t) over seeds {SEEDS[0]} to {SEEDS[-1]}, which draw workers, ties "
    "and jitter. Factors of iterations are means of the factors of each seed.",
    "Jobs run for 20 min and the others arrive after 2. The mean and the 99th percentile of all iterations "
    "also reflect which job has how many workers: on an idle network an iteration of DLRM on 11 takes 1.4 "
    "s, and one of CamemBERT 0.1 s. Where DLRM speeds up, it has more than 1% of all iterations, so the "
    "99th percentile becomes one of its own, and by the paper's measure iterations get slower. So "
    "slowdowns compare each iteration with the same one, on as many workers, on an idle network.",
    "Themis draws the GPUs of a winner within the region that it won, as in C13. Packed, jobs of up to four "
    "workers fit into a rack, share no link there, and hardly contend (a sensitivity of C15). Gains come "
    "mostly from the choice of placements.",
    "Marks of the flow engine are a fit to the packet engine (X3); a window of C15 is rerun on packets.",
    f"{TH_CASSINI.name} and {PO_CASSINI.name} rank candidates as Algorithm 2 does; (fabric) counts all "
    "links, unshared ones with a score of 1, and solves loops.",
)

_READING_NOTES = (
    BY_TIME_NOTE,
    "Themis's S of VGG and ResNet is that which NSDI'20 published, from another cluster. NSDI'24 "
    "§5.1 profiles models on its testbed, where idle paths are alike: 'S from profiles' is that reading. The "
    "models of C16 have no published S.",
    "The trace is that of examples/cluster. Causes were sought afterwards: readings, sensitivities, the full "
    "cluster, its 100 candidates and drawn places were chosen with the first results known, which had packed "
    "places.",
)


def marks_per_iteration(model: str) -> Callable[[SchedulerRun], npt.NDArray[np.float64]]:
    """For `pooled`: the marks of each iteration of jobs of `model`."""

    def of_run(each: SchedulerRun) -> npt.NDArray[np.float64]:
        rows = each.iterations if model == _ALL else each.of_model(model)
        counts = rows["count"].to_numpy()
        # `marks` is the sum over the `count` iterations of a row.
        return np.repeat(rows["marks"].to_numpy() / counts, counts)

    return of_run


def _marks_panel(measured: Outcomes, model: str) -> Distribution:
    return Distribution(
        model,
        "ECN marks per iteration",
        pooled(measured, _PAPER_SCHEDULERS, marks_per_iteration(model)),
        log=True,
    )


def _figure(measured: Outcomes, models: Sequence[str], title: str) -> Figure:
    shown = (*_PAPER_SCHEDULERS, IDEAL)
    return scheduler_comparison_figure(
        themis_over_time(measured),
        (
            iteration_distribution(measured, shown),
            Distribution(
                "Po+CASSINI against Pollux's choice",
                "score of shared links",
                scores(measured, PO_CASSINI),
                "links",
                legend="upper left",
            ),
            *(_marks_panel(measured, model) for model in models),
        ),
        title,
    )


def _marks_figure(measured: Outcomes) -> Figure:
    return scheduler_comparison_figure(
        [], [_marks_panel(measured, model) for model in _FIG_19], "ECN marks while DLRM and ResNet50 arrive"
    )
