"""C13 and C14: Poisson arrivals on the testbed under Themis, Pollux and Random, each with and without
CASSINI, and under Ideal (NSDI'24 Fig 11 and 12).
"""

from collections.abc import Iterator, Sequence
from functools import partial

from matplotlib.figure import Figure

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
    Outcomes,
    Published,
    Readings,
    Sensitivities,
    factor_rows,
    idle_rows,
    iteration_distribution,
    mechanism_rows,
    outcomes,
    pair_rows,
    reading_rows,
    scores,
    sensitivity_rows,
    themis_over_time,
)
from hocket_reproduce.targets.setting import CONTENDED_CAPACITY, Tables
from hocket_reproduce.targets.target import Progress, Reproduction, Row

SCHEDULERS = (
    THEMIS,
    TH_CASSINI,
    TH_FABRIC,
    POLLUX,
    PO_CASSINI,
    PO_FABRIC,
    RANDOM,
    RANDOM_CASSINI,
    RANDOM_FABRIC,
    IDEAL,
)
_PAIRS = (
    (THEMIS, TH_CASSINI),
    (THEMIS, TH_FABRIC),
    (POLLUX, PO_CASSINI),
    (POLLUX, PO_FABRIC),
    (RANDOM, RANDOM_CASSINI),
    (RANDOM, RANDOM_FABRIC),
)
_DRAWN = (THEMIS, TH_CASSINI, TH_FABRIC, POLLUX, PO_CASSINI, RANDOM, IDEAL)

TESTBED: Tables = {"fabric": {"testbed": "cassini"}, **DRAWN}

MIXED: Tables = {
    **TESTBED,
    "poisson": {
        "load": 0.9,
        "duration": "100 min",
        # NSDI'24 §5.2: all but DLRM are data parallel, which GPT2 and GPT3 of the catalogue cannot be.
        "models": ["data-parallel", "GPT1", "DLRM"],
    },
}
"""The trace of C13: the middle of the loads of NSDI'24 §5.1, over the minutes that Figure 11 shows."""

MODEL_PARALLEL: Tables = {
    **TESTBED,
    "poisson": {"models": "model-parallel", "load": 0.9, "duration": "100 min"},
}
"""The trace of C14."""

LONG_JOBS: Tables = {"poisson": {"iterations": [2_000, 10_000], "duration": "1000 min"}}
"""Jobs ten times as long as those of C13, arriving over ten times as long: their number stays about the same.

NSDI'24 §5.1 has jobs of 200 to 1,000 iterations, and most end within an epoch of 10 min. But their number of
workers changes as the experiment progresses (§5.1), during scheduling epochs (Appendix B), which takes jobs
that live through several."""

ONE_WORKER: Tables = {
    **TESTBED,
    "poisson": {
        "load": 0.9,
        "duration": "10 min",
        "models": "data-parallel",
        "workers": [1, 1],
        "max_workers": 1,
    },
}
"""Jobs of one worker, which cross no link: CASSINI must not change anything."""

_BERT: Tables = {
    "model": "BERT",
    "batch_size": 8,
    "workers": 3,
    "min_workers": 3,
    "iterations": 1_000,
}
NO_WAY_OUT: Tables = {
    "fabric": {
        "clos": {
            "racks": 3,
            "servers_per_rack": 2,
            "gpus_per_server": 1,
            "spines": 1,
            "cables_per_spine": 1,
            "nic": "50 Gbps",
            "uplink": "50 Gbps",
        }
    },
    "jobs": [{"name": "left", **_BERT}, {"name": "right", **_BERT}],
}
"""Two jobs that share an uplink wherever they are placed, and exceed it nearly all the time."""


def _tree(uplinks: int, uplink: str) -> Tables:
    """Racks like the testbed's below one tier of spines, with `uplinks` uplinks each."""
    return {
        "fabric": {
            "clos": {
                "racks": 6,
                "servers_per_rack": 4,
                "gpus_per_server": 1,
                "spines": uplinks,
                "cables_per_spine": 1,
                "nic": "50 Gbps",
                "uplink": uplink,
            }
        }
    }


_WITH_THEMIS = (THEMIS, TH_CASSINI)
_WITH_BOTH = (THEMIS, TH_CASSINI, TH_FABRIC)

# Ten times the candidates of NSDI'24 §5.1.
_MANY: Tables = {"candidates": 100}
# No score exceeds 1, so no jobs get slots, and CASSINI's choice among placements remains.
_NO_SLOTS: Tables = {"shift_threshold": 1.1}


def _dlrm(workers: int) -> Tables:
    """Jobs of one model and size: all have the same iteration time alone, so they could take turns."""
    return {"models": "DLRM", "workers": [workers, workers], "max_workers": workers}


# With one uplink per rack jobs have to share it; among many candidates are some where no more than two do.
_TRIPLES: Tables = {**_tree(1, "50 Gbps"), "poisson": _dlrm(3), "cassini": _MANY}
# DLRM on two workers sends for half of its iteration (500 of 1,000 ms), so any two jobs are compatible.
_PAIRS_OF_WORKERS: Tables = {**_tree(1, "50 Gbps"), "poisson": _dlrm(2)}
_AT_RANDOM = (RANDOM, RANDOM_FABRIC)

# ToRs, aggregation switches and cores of the other trees with 13 switches and 48 links.
_TREES = ("6-3-4", "6-6-1", "8-4-1")

SENSITIVITIES: Sensitivities = {
    "packed places": (PACKED, _WITH_THEMIS),
    "the testbed's goodput": (LOSSY, _WITH_BOTH),
    "S from profiles": (FROM_PROFILES, _WITH_BOTH),
    **{f"a tree of {tree}": ({"fabric": {"testbed": f"cassini-{tree}"}}, _WITH_BOTH) for tree in _TREES},
    "the testbed's goodput, packed places": ({**LOSSY, **PACKED}, _WITH_THEMIS),
    "no slots": ({"cassini": _NO_SLOTS}, _WITH_THEMIS),
    "100 candidates": ({"cassini": _MANY}, _WITH_THEMIS),
    "workers as submitted": ({"themis": {"workers": "requested"}}, _WITH_THEMIS),
    "batch sizes uniform in Table 3": ({"poisson": {"batch_sizes": "uniform"}}, _WITH_THEMIS),
    "only DLRM on 3 workers": ({"poisson": _dlrm(3)}, _WITH_THEMIS),
    f"uplinks of {CONTENDED_CAPACITY}": (_tree(2, CONTENDED_CAPACITY), _WITH_THEMIS),
    "one uplink per rack (4:1)": (_tree(1, "50 Gbps"), _WITH_THEMIS),
    "one uplink of 25 Gbps per rack (8:1)": (_tree(1, "25 Gbps"), _WITH_THEMIS),
    f"one uplink of {CONTENDED_CAPACITY} per rack, 100 candidates": (
        {**_tree(1, CONTENDED_CAPACITY), "cassini": _MANY},
        (THEMIS, TH_FABRIC),
    ),
    "100 candidates, random places": ({"cassini": _MANY}, _AT_RANDOM),
    "only DLRM on 3 workers, one uplink, 100 candidates": (_TRIPLES, (THEMIS, TH_FABRIC)),
    "only DLRM on 3 workers, one uplink, 100 candidates, random places": (_TRIPLES, _AT_RANDOM),
    "only DLRM on 2 workers, one uplink, random places": (_PAIRS_OF_WORKERS, _AT_RANDOM),
    "only DLRM on 2 workers, one uplink, random places, no slots": (
        {**_PAIRS_OF_WORKERS, "cassini": _NO_SLOTS},
        _AT_RANDOM,
    ),
}
"""Changes to C13's trace that might explain the paper's factors, each with the schedulers to compare."""

READINGS: Readings = {
    "jobs of several epochs": LONG_JOBS,
    "jobs of several epochs, the testbed's goodput": {**LONG_JOBS, **LOSSY},
}


def reproduce_c13(progress: Progress, seeds: Sequence[int] = SEEDS) -> Reproduction:
    """The mixed trace, its sensitivities, and two cases in which CASSINI cannot help."""
    measured = outcomes(MIXED, SCHEDULERS, progress, seeds=seeds)
    published = Published(1.6, 1.8)
    rows = [
        *_rows(measured, published),
        *reading_rows(MIXED, READINGS, published, progress, seeds),
        *sensitivity_rows(MIXED, SENSITIVITIES, measured, progress, seeds),
        *_no_help_rows(progress, seeds),
    ]
    return Reproduction(
        "C13",
        "Poisson arrivals, mixed models (NSDI'24 Fig 11)",
        tuple(rows),
        partial(_figure, measured, "Jobs arriving on the testbed, mixed models"),
        (*_NOTES, _LONG_JOBS_NOTE, *_MIXED_NOTES),
    )


def reproduce_c14(progress: Progress, seeds: Sequence[int] = SEEDS) -> Reproduction:
    """The trace of model-parallel jobs."""
    measured = outcomes(MODEL_PARALLEL, SCHEDULERS, progress, seeds=seeds)
    published = Published(1.2, 1.6)
    rows = [
        *_rows(measured, published),
        *reading_rows(MODEL_PARALLEL, READINGS, published, progress, seeds),
    ]
    return Reproduction(
        "C14",
        "Poisson arrivals, model parallel (NSDI'24 Fig 12)",
        tuple(rows),
        partial(_figure, measured, "Jobs arriving on the testbed, model parallel"),
        (*_NOTES, _LONG_JOBS_NOTE),
    )


def _rows(measured: Outcomes, published: Published) -> Iterator[Row]:
    for baseline, augmented in _PAIRS:
        # NSDI'24 has no factors for Random, and "similar gains" for Pollux.
        compared = published if baseline in (THEMIS, POLLUX) else None
        yield from factor_rows(measured, baseline, augmented, compared)
    yield from idle_rows(measured)
    for augmented in (TH_CASSINI, TH_FABRIC, PO_CASSINI, RANDOM_CASSINI):
        yield from mechanism_rows(measured, augmented)


def _no_help_rows(progress: Progress, seeds: Sequence[int]) -> Iterator[Row]:
    for name, tables in (
        ("jobs of one worker", ONE_WORKER),
        ("two jobs that no placement keeps apart", NO_WAY_OUT),
    ):
        measured = outcomes(tables, _WITH_THEMIS, progress, seeds=seeds, prefix=f"{name}: ")
        yield from pair_rows(f"no help and no harm, {name}", measured, *_WITH_THEMIS)


_NOTES = (
    f"Means and 95% intervals (Student's t) over seeds {SEEDS[0]} to {SEEDS[-1]}, which draw jobs, arrivals, "
    "ties and jitter; a factor is the mean of each seed's factor.",
    "Schedulers change how many workers a job has (Pollux its batch size too), so means of all iterations "
    "compare different work. A slowdown compares each iteration with the same one, on as many workers, on "
    "an idle network: neither placements nor slots can gain more than the scheduler's own slowdown.",
    BY_TIME_NOTE,
    "Th+CASSINI ranks as NSDI'24 Algorithm 2: the mean over shared links, loops discarded. '(fabric)' is "
    "Hocket's default: all links count, unshared ones with a score of 1, and loops are solved.",
    "Why the gains are smaller: many iterations under Themis, and most under Pollux, share no link with "
    "another job, and where jobs share one, most demand 30 to 40 of 50 Gbps for part of their time. In the "
    "paper's own Table 2 the job that gains most, WideResNet101 of snapshot 1, communicates for 138 "
    "instead of 205 ms; of an iteration of 274 ms without contention that is 1.24×. A mean of 1.6× needs "
    "more jobs per link than our reading of Fig 10 puts there. Links that lose goodput to contention come "
    "nearer to it; rows that do not name them have links that lose none.",
    "Themis draws the GPUs of a winner within the region that it won. NSDI'20 does not place them, as its S "
    "knows servers and racks only; to pack them, as a sensitivity does, is Hocket's own. Drawn places were "
    "chosen after packed ones had shown hardly any contention.",
    "Why slots are rare: jobs that share links come in sets of two to six whose iteration times fit on no "
    "common circle unless they are made longer, which is predicted to cost more than taking turns gains. "
    "Here CASSINI gains by placement; without slots there is nothing to adjust.",
)

_LONG_JOBS_NOTE = (
    "Jobs of several epochs are a second reading of the text. NSDI'24 §5.1 has jobs of 200 to 1,000 "
    "iterations, and most end within one epoch of 10 min; but it tunes their workers as the experiment "
    "progresses, and by Appendix B these change during epochs. So these jobs have ten times as many "
    "iterations, and arrive over ten times as long, so that about as many come."
)

_MIXED_NOTES = (
    "The trees have the 24 servers, 13 switches and 48 links of NSDI'24 §5.1, as the testbed of the other "
    "rows has (6-4-3). They are named by their ToRs, aggregation switches and cores: the text does not say "
    "which one Fig 10 draws. Each is 2:1 at its ToRs except 8-4-1, which is 1.5:1 there and 2:1 above.",
    "Readings, trees and other sensitivities were chosen with the first results known.",
    "Each sensitivity changes what its name says. Trees of other uplinks have as many racks and servers as "
    "the testbed, below one or two spines instead of two pods. They show what matters: how scattered the "
    "baseline's placements are, how alike iteration times are, how scarce uplinks are, and among how many "
    "candidates CASSINI may choose. None of them alone yields the paper's factor; all together do, but "
    "over Random, not over Themis. Slots help where jobs are compatible, as DLRM on two workers is; most "
    "of the gain is due to placement.",
)


def _figure(measured: Outcomes, title: str) -> Figure:
    return scheduler_comparison_figure(
        themis_over_time(measured),
        (
            iteration_distribution(measured, _DRAWN),
            Distribution(
                "Th+CASSINI against Themis's choice",
                "score of shared links",
                scores(measured, TH_CASSINI),
                "links",
                legend="upper left",
            ),
        ),
        title,
    )
