"""H8: compatibility across a cluster, on shared GPUs, and through batch sizes (HotNets'22 §5)."""

from functools import partial
from math import lcm

from hocket.compat import Compatibility, compatibility
from hocket.errors import InputError
from hocket.figures.circles import compatibility_figure
from hocket_reproduce.targets.fabrics import job, triangle
from hocket_reproduce.targets.setting import Tables, link_plan, workload
from hocket_reproduce.targets.target import Progress, Reproduction, Row

# Three different periods, each two with a common divisor of at least 60 ms that has room for both Up phases.
CLUSTER_JOBS = (("j1", 180, 30), ("j2", 240, 30), ("j3", 360, 60))
BATCH_SIZES = (1200, 1400, 1700)


def reproduce(progress: Progress) -> Reproduction:
    """One circle for a whole cluster, jobs that share a GPU, and the batch size with the best score."""
    progress("cluster-wide circle")
    cluster = compatibility(triangle([job(*each) for each in CLUSTER_JOBS], "solve"))
    rows = [
        Row(
            "perimeter over all jobs that share a link anywhere",
            lcm(*(period_ms for _, period_ms, _ in CLUSTER_JOBS)),
            1e3 * cluster.perimeter_s,
            "ms",
            "the paper: the least common multiple of their periods",
        ),
        Row("score of that cluster with one shift per job", None, cluster.score),
    ]
    progress("shared GPU")
    rows += _gpu_rows()
    progress("batch sizes")
    chosen = compatibility(link_plan("choice", _with_batch_size(list(BATCH_SIZES))))
    rows += _batch_rows(chosen)
    return Reproduction(
        "H8",
        "Cluster-wide compatibility, shared GPUs, batch sizes (HotNets'22 §5)",
        tuple(rows),
        partial(compatibility_figure, chosen),
        (
            "§5 proposes these and gives no numbers. The cluster: three jobs of 180, 240 and 360 ms, every "
            "two of them sharing a link. The GPU: two jobs of 240 ms that compute for 90 ms, then send.",
            f"The choice: WideResNet101 (800) beside VGG16 at {', '.join(map(str, BATCH_SIZES))}.",
        ),
    )


def _gpu_rows() -> list[Row]:
    apart, together = (compatibility(_gpu_plan(150, shared)) for shared in (False, True))
    return [
        Row("compute overlap on GPUs of their own", None, compute_overlap_ms(apart), "ms"),
        Row(
            "compute overlap on a shared GPU",
            "none",
            f"{compute_overlap_ms(together) or 'none'}",
            "",
            f"score {apart.score:.2f} without and {together.score:.2f} with the constraint",
        ),
        Row(
            "two jobs that compute 180 of 240 ms on one GPU",
            None,
            _fate(_gpu_plan(60, shared=True)),
            "",
            "no shift keeps 180 + 180 ms apart in 240 ms",
        ),
    ]


def _gpu_plan(up_ms: int, shared: bool) -> Tables:
    """Two jobs whose demands fit the link together, so that only a shared GPU makes a shift necessary."""
    up = {"start": f"{240 - up_ms} ms", "duration": f"{up_ms} ms", "rate": "25 Gbps"}
    jobs = [
        {"name": name, "period": "240 ms", "up": [up], "gpus": ["s1:0"] if shared else [gpu]}
        for name, gpu in (("a", "s1:0"), ("b", "s1:1"))
    ]
    return link_plan("GPU", jobs)


def compute_overlap_ms(answer: Compatibility) -> float:
    """The time per period, in ms, in which two jobs of one period, each Up at its end, both compute."""
    first, second = answer.jobs
    period_ps = first.profile.period_ps
    down_ps = [each.profile.phases[0].start_ps for each in answer.jobs]
    late_ps = (second.time_shift_ps - first.time_shift_ps) % period_ps
    # The second starts within the first's compute phase, or the first within the second's.
    overlap_ps = max(0, min(down_ps[0] - late_ps, down_ps[1])) + max(
        0, min(down_ps[1] - (period_ps - late_ps), down_ps[0])
    )
    return overlap_ps / 1e9


def _fate(plan: Tables) -> str:
    try:
        compatibility(plan)
    except InputError:
        return "refused"
    return "accepted"


def _with_batch_size(batch_size: int | list[int]) -> list[Tables]:
    return [
        workload("wideresnet101", "WideResNet101", 800),
        {**workload("vgg16", "VGG16", 1400), "batch_size": batch_size},
    ]


def _batch_rows(chosen: Compatibility) -> list[Row]:
    scores = {size: compatibility(link_plan("one", _with_batch_size(size))).score for size in BATCH_SIZES}
    best = max(scores, key=lambda size: scores[size])
    choice = next(each.batch_size for each in chosen.jobs if each.name == "vgg16")
    assert choice is not None, "the plan gives several batch sizes"
    return [
        Row(
            "batch size of VGG16 with the best score",
            None,
            choice,
            "",
            f"trying each gives {best}: "
            + ", ".join(f"{score:.3f} at {size}" for size, score in scores.items()),
        ),
        Row("score at that batch size", None, chosen.score),
    ]
