"""C1: the traffic of data, pipeline, tensor and hybrid parallel jobs (NSDI'24 Fig 1)."""

from functools import partial

from hocket.figures.traffic import traffic_figure
from hocket.reproduce.target import Progress, Reproduction, Row
from hocket.workloads import WorkloadProfile, profile

# A peak counts as large next to another one if it sends at least twice as much.
_LARGE = 2


def jobs() -> dict[str, WorkloadProfile]:
    """The four jobs of Fig 1 at the smallest batch size of NSDI'24 Table 3 (GPT-2: 48)."""
    return {
        "GPT-1, data parallel, 4 servers": profile("GPT1", 32, 4),
        "GPT-2, pipeline parallel, 2 servers": profile("GPT2", 48, 2),
        "GPT-3, tensor parallel, 2 servers": profile("GPT3", 16, 2),
        "GPT-3, hybrid parallel, 8 servers": profile("GPT3", 16, 8),
    }


def reproduce(progress: Progress) -> Reproduction:
    """The number, height and order of the Up phases of the four patterns."""
    progress("four traffic patterns")
    data, pipeline, tensor, hybrid = jobs().values()
    *small, last = pipeline.phases
    large = all(last.size_bytes >= _LARGE * phase.size_bytes for phase in small)
    lengths = {phase.duration_ps for phase in hybrid.phases}
    heights = {phase.rate_bps for phase in hybrid.phases}
    down_share = 1 - tensor.up_ps / tensor.period_ps
    rows = (
        Row("GPT-1 (data): Up phases", 1, len(data.phases), "", "forward pass, then backpropagation"),
        Row("GPT-2 (pipeline): small peaks before the large one", 3, len(small)),
        Row("GPT-2 (pipeline): the last peak is the large one", "yes", "yes" if large else "no"),
        Row("GPT-3 (tensor): rate", 25, tensor.phases[0].rate_bps / 1e9, "Gbps", "an input of the catalogue"),
        Row("GPT-3 (tensor): share of time without traffic", None, down_share, "", "paper: a short period"),
        Row("GPT-3 (hybrid): Up-Down phases", 6, len(hybrid.phases)),
        Row(
            "GPT-3 (hybrid): phases differ in length and height",
            "yes",
            "yes" if len(lengths) > 1 and len(heights) > 1 else "no",
            "",
            f"{len(lengths)} lengths, {len(heights)} heights",
        ),
    )
    return Reproduction(
        "C1",
        "Traffic of four parallelisation strategies (NSDI'24 Fig 1)",
        rows,
        partial(traffic_figure, jobs(), "Three iterations alone on the network"),
        (
            "From the workload catalogue. Fig 1 prints neither batch sizes nor times; shapes are compared, "
            "and the catalogue says for each number whether it is printed, calculated or calibrated.",
        ),
    )
