"""The numbers of the catalogue: the 13 models of NSDI'24 Table 3, calibrated against Table 2.

Each number carries its source."""

from fractions import Fraction
from types import MappingProxyType

from hocket.workloads.model import Model
from hocket.workloads.sourced import Sourced
from hocket.workloads.strategies import (
    REFERENCE_WORKERS,
    STATE_BYTES_PER_PARAMETER,
    DataParallel,
    EmbeddingExchange,
    GptData,
    GptHybrid,
    GptPipeline,
    GptTensor,
    Point,
    Strategy,
    Transformer,
    ring_all_reduce_share,
)


# Snapshots 1 to 3 are compatible enough that jobs do not slow each other down under Th+CASSINI: their
# communication times there are Up phases (ResNet50: the shorter one under Themis). Periods are the shorter
# times of HotNets'22 Table 1, to 1 ms, for the jobs that it has.
def _workers(count: int, job: str, size_mb: int, gradients_mb: int) -> Sourced[int]:
    """The number of workers on which a job sends about `size_mb` in a ring all-reduce of `gradients_mb`."""
    share = float(ring_all_reduce_share(count))
    return Sourced(
        count,
        "calibration",
        f"the papers do not say how many workers {job} has; it sends {size_mb} MB, and on {count} workers a "
        f"ring all-reduce of {gradients_mb} MB (NSDI'24 Table 3) sends {share * gradients_mb:.0f} MB",
    )


def _table_2(
    snapshot: int,
    batch_size: int,
    period_ms: int,
    up_ms: int,
    rate_gbps: int,
    workers: Sourced[int] = REFERENCE_WORKERS,
) -> Point:
    source = Sourced(
        f"snapshot {snapshot}",
        "calibration",
        f"the consistent reading of NSDI'24 Table 2, snapshot {snapshot}, and HotNets'22 Table 1 "
        f"at batch size {batch_size}: {period_ms} ms with {up_ms} ms Up at {rate_gbps} Gbps",
    )
    return Point(
        batch_size, Fraction(period_ms - up_ms), Fraction(up_ms), Fraction(rate_gbps), source, workers
    )


def _scaled(point: Point, compute: Fraction, size: Fraction, why: str) -> DataParallel:
    source = Sourced(point.source.value, "calculation", f"{why}; from {point.source.source}")
    scaled = Point(point.batch_size, point.down_ms * compute, point.up_ms * size, point.rate_gbps, source)
    return DataParallel((scaled,))


_VGG16 = (
    _table_2(3, 1200, 270, 168, 35, _workers(3, "VGG16 (1200)", 735, 528)),
    _table_2(1, 1400, 274, 148, 29),
    _table_2(2, 1700, 330, 163, 33, _workers(3, "VGG16 (1700)", 672, 528)),
)


_VGG19 = (
    _table_2(3, 1024, 270, 166, 35, _workers(3, "VGG19 (1024)", 726, 549)),
    _table_2(2, 1400, 330, 168, 33, _workers(3, "VGG19 (1400)", 693, 549)),
)


_ROBERTA = (_table_2(4, 12, 200, 160, 32),)


# Multiply-adds of one forward pass in 10⁷, as torchvision's model table lists them.
_VGG11_WORK, _VGG16_WORK = 761, 1547


_VGG11 = _scaled(
    _VGG16[1],
    Fraction(_VGG11_WORK, _VGG16_WORK),
    Fraction(507, 528),
    "VGG16 (1400) with Down by multiply-adds (7.61 against 15.47 GMAC, torchvision) "
    "and Up by model size (507 against 528 MB)",
)


_BERT = (
    Point(
        8,
        Fraction(157 - 135),
        Fraction(135),
        Fraction(40),
        Sourced(
            "snapshot 5",
            "calibration",
            "157 ms, HotNets'22 Table 1 as the most aggressive of its group; 135 ms Up at 40 Gbps, which "
            "gives snapshot 5 of NSDI'24 Table 2 a score near its 0.6",
        ),
    ),
)


_WIDE_RESNET = (_table_2(1, 800, 274, 138, 29),)


_RESNET50 = (_table_2(2, 1600, 165, 55, 6),)


_DLRM = Point(
    2000,
    Fraction(500),
    Fraction(500),
    Fraction(40),
    Sourced(
        "group 2",
        "calibration",
        "HotNets'22 Table 1: two alike take 1001 ms in turn, so Up is at most half of 1000 ms, and 1301 ms "
        "when sharing 50 Gbps fairly: 500 ms at 40 Gbps stretch to 800 ms",
    ),
)


# No paper measures CamemBERT or XLM. Both are encoders like RoBERTa, so compute and bytes are assumed to grow
# with the size of the model.
def _by_size(name: str, memory_mb: int) -> DataParallel:
    scale = Fraction(memory_mb, 800)
    why = f"RoBERTa with Down and Up by model size ({memory_mb} against 800 MB): {name} is an encoder too"
    return _scaled(_ROBERTA[0], scale, scale, why)


def _gpt(layers: int, hidden: int, vocabulary: int, memory: str, figure: str) -> Transformer:
    source = Sourced(
        figure,
        "calculation",
        f"NSDI'24 {figure}: {layers} layers and {memory}; a hidden size of {hidden} gives that memory at "
        f"{STATE_BYTES_PER_PARAMETER.value} bytes a parameter",
    )
    return Transformer(layers, hidden, vocabulary, source)


_GPT_VOCABULARY, _GPT2_VOCABULARY = 40_478, 50_257  # tokens of the published models; GPT-3 uses GPT-2's


_GPT1 = _gpt(12, 1856, _GPT_VOCABULARY, "9 GB", "Fig 1(a)")


_GPT2 = _gpt(24, 2304, _GPT2_VOCABULARY, "27 GB", "Fig 1(b)")


_GPT3_TENSOR = _gpt(96, 1344, _GPT2_VOCABULARY, "35 GB", "Fig 1(c)")


_GPT3_HYBRID = _gpt(96, 2048, _GPT2_VOCABULARY, "155 GB in two replicas", "Fig 1(d)")


def _model(
    name: str,
    memory_mb: tuple[int, int],
    batch_sizes: tuple[int, int],
    labels: tuple[str, str],
    strategies: list[Strategy],
    reference: tuple[int, int],
    *more_batch_sizes: Sourced[int],
) -> Model:
    table = f"NSDI'24 Table 3, row {name}"
    return Model(
        name,
        Sourced(memory_mb, "paper", table),
        Sourced(batch_sizes, "paper", table),
        Sourced(labels[0], "paper", table),
        Sourced(labels[1], "paper", table),
        MappingProxyType({strategy.name: strategy for strategy in strategies}),
        reference,
        more_batch_sizes,
    )


_VISION = ("data parallel", "vision")


_LANGUAGE = ("data parallel", "language")


_MODEL_PARALLEL = ("model parallel", "language")


MODELS = (
    _model("VGG11", (507, 507), (512, 1800), _VISION, [_VGG11], (1400, 2)),
    _model("VGG16", (528, 528), (512, 1800), _VISION, [DataParallel(_VGG16)], (1400, 2)),
    _model("VGG19", (549, 549), (512, 1800), _VISION, [DataParallel(_VGG19)], (1400, 3)),
    _model("WideResNet101", (243, 243), (256, 1200), _VISION, [DataParallel(_WIDE_RESNET)], (800, 2)),
    _model("ResNet50", (98, 98), (256, 1800), _VISION, [DataParallel(_RESNET50)], (1600, 2)),
    _model("BERT", (450, 450), (8, 32), _LANGUAGE, [DataParallel(_BERT)], (8, 2)),
    _model("RoBERTa", (800, 800), (8, 32), _LANGUAGE, [DataParallel(_ROBERTA)], (12, 2)),
    _model("CamemBERT", (266, 266), (8, 32), _LANGUAGE, [_by_size("CamemBERT", 266)], (12, 2)),
    _model("XLM", (1116, 1116), (4, 32), _LANGUAGE, [_by_size("XLM", 1116)], (12, 2)),
    _model("GPT1", (650, 9000), (32, 80), _MODEL_PARALLEL, [GptData(_GPT1)], (32, 4)),
    _model(
        "GPT2",
        (1623, 27000),
        (32, 80),
        _MODEL_PARALLEL,
        [GptPipeline(_GPT2)],
        (48, 2),
        Sourced(24, "paper", "NSDI'24 §5.2: GPT2-A has a batch size of 24"),
    ),
    _model(
        "GPT3",
        (1952, 155000),
        (16, 48),
        _MODEL_PARALLEL,
        [GptTensor(_GPT3_TENSOR), GptHybrid(_GPT3_HYBRID)],
        (16, 2),
    ),
    _model(
        "DLRM",
        (890, 1962),
        (16, 1024),
        ("model parallel", "recommendation"),
        [EmbeddingExchange(_DLRM)],
        (2000, 2),
        Sourced(2000, "paper", "HotNets'22 Table 1: DLRM (2000)"),
    ),
)
