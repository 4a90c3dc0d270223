"""The catalogue of models by name, and the workload of a job that trains one of them.

It has the 13 models of NSDI'24 Table 3 as published; those of them that the papers measured once more, with
compute times from the measurements; the GPTs of NSDI'24 Fig 1; and the DLRM of HOTI'22.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING

from hocket.errors import InputError
from hocket.training.degrees import Parallel
from hocket.training.embedding_tables import split_tables
from hocket.training.gpu import A100, GPUS, V100, Gpu
from hocket.training.layers import Buckets
from hocket.training.models import language, vision
from hocket.training.models.model import Model
from hocket.training.models.recommendation import DLRM, DLRM_HOTI22, Dlrm
from hocket.training.parallel import DATA_PARALLEL, DDP_BUCKETS, ONE_BUCKET, Recipe, parallelise
from hocket.training.pipeline import Schedule
from hocket.training.workload import Workload
from hocket.units import shown
from hocket.workloads import CATALOGUE, profile
from hocket.workloads.strategies import LINE_RATE_BPS, REFERENCE_WORKERS, ring_all_reduce_share

if TYPE_CHECKING:
    import polars as pl

_PS_PER_S = 10**12
_PS_PER_MS = 10**9
_BITS_PER_BYTE = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """A model of the catalogue with its defaults for training.

    `measured` is the name in `hocket.workloads` of the job whose iterations set the compute times.
    """

    name: str
    model: Model | Dlrm
    batch_size: int
    gpu: Gpu = A100
    buckets: Buckets | None = DDP_BUCKETS
    measured: str | None = None


def _published() -> list[Entry]:
    """The models of NSDI'24 Table 3, at the smallest batch size given there."""
    models: list[tuple[Model | Dlrm, str]] = [
        (vision.VGG11, "VGG11"),
        (vision.VGG16, "VGG16"),
        (vision.VGG19, "VGG19"),
        (vision.WIDE_RESNET101, "WideResNet101"),
        (vision.RESNET50, "ResNet50"),
        (language.BERT, "BERT"),
        (language.ROBERTA, "RoBERTa"),
        (language.CAMEMBERT, "CamemBERT"),
        (language.XLM, "XLM"),
        (language.GPT1, "GPT1"),
        (language.GPT2, "GPT2"),
        (language.GPT3, "GPT3"),
        (DLRM, "DLRM"),
    ]
    return [Entry(model.name, model, CATALOGUE[name].batch_sizes.value[0]) for model, name in models]


def _measured() -> list[Entry]:
    """The models whose iteration times `hocket.workloads` took from the papers' tables.

    VGG11, CamemBERT and XLM are left out, since their times there are scaled from other models; so is its
    DLRM, which exchanges more than published tables explain.
    """
    models = [
        vision.VGG16,
        vision.VGG19,
        vision.WIDE_RESNET101,
        vision.RESNET50,
        language.BERT,
        language.ROBERTA,
    ]
    return [
        Entry(f"{model.name} (NSDI'24)", model, CATALOGUE[model.name].reference[0], measured=model.name)
        for model in models
    ]


# NSDI'24 Fig 1 prints no batch sizes, so these are the ones `hocket.workloads` uses for it. In Fig 1(d) the
# all-reduce is a phase of its own, apart from backpropagation (§2.1), so gradients do not overlap with it.
_FIGURE_1 = [
    Entry(language.GPT1_FIGURE_1A.name, language.GPT1_FIGURE_1A, 32),
    Entry(language.GPT2_FIGURE_1B.name, language.GPT2_FIGURE_1B, 48),
    Entry(language.GPT3_FIGURE_1C.name, language.GPT3_FIGURE_1C, 16),
    Entry(language.GPT3_FIGURE_1D.name, language.GPT3_FIGURE_1D, 16, buckets=ONE_BUCKET),
]

# 512 samples of 64 tables of 64 values of 2 bytes are 4 MiB, forward and backward: the 8 MB of HOTI'22 §IV-D.
# Its simulator all-reduces layer by layer.
_HOTI22 = Entry(DLRM_HOTI22.name, DLRM_HOTI22, 512, V100, buckets=None)

ENTRIES: Mapping[str, Entry] = MappingProxyType(
    {entry.name: entry for entry in (*_published(), *_measured(), *_FIGURE_1, _HOTI22)}
)
"""The catalogue by name."""


def find_entry(name: str) -> Entry:
    """The entry called `name`, in any case; only letters and digits are compared.

    Raises `InputError` with the closest names if there is none.

    >>> find_entry("gpt3").name
    'GPT-3'
    """
    names = {_plain(known): known for known in ENTRIES}
    plain = _plain(name)
    if plain in names:
        return ENTRIES[names[plain]]
    close = [names[each] for each in get_close_matches(plain, list(names), n=3)]
    hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(ENTRIES)}"
    raise InputError(f"{shown(name)} is not a model of the catalogue; {hint}")


def _plain(name: str) -> str:
    # Brackets and quotes too, since "GPT-3 (NSDI'24 Fig 1c)" is awkward to quote in a shell.
    return "".join(character for character in name.lower() if character.isalnum())


def workload(
    name: str,
    *,
    gpus: int,
    batch_size: int | None = None,
    parallel: Parallel | None = None,
    microbatches: int = 1,
    schedule: Schedule = "1f1b",
    gpu: str | None = None,
    loading_ps: int = 0,
) -> Workload:
    """One iteration of training the model `name` on `gpus` GPUs.

    `batch_size` is that of a replica: of each GPU in data parallelism, of the `tensor` × `pipeline` GPUs that
    share a model otherwise; it is divided into `microbatches`. `gpu` is `"V100"`, `"A100"` or `"H100"`. The
    defaults of both are the paper's, or else the smallest batch of NSDI'24 Table 3 on A100s. By default all
    GPUs are data parallel. `loading_ps` is a wait for input at the start of an iteration.

    Raises `InputError` for an unknown name or GPU, sizes that do not divide, and a model that cannot be split
    that way; for models with measured times also for another GPU, a wait for input, and batch sizes outside
    the papers' range.

    >>> parallel = Parallel(tensor=4, pipeline=2)
    >>> found = workload("GPT-3", gpus=16, batch_size=16, parallel=parallel, microbatches=4)
    >>> len(found.programs), len(found.ranks), found.groups[0], found.groups[1]
    (2, 16, (0, 1, 2, 3), (4, 5, 6, 7))
    """
    entry = find_entry(name)
    recipe = Recipe(
        gpus=gpus,
        batch_size=entry.batch_size if batch_size is None else batch_size,
        gpu=entry.gpu if gpu is None else _find_gpu(gpu),
        parallel=parallel or DATA_PARALLEL,
        microbatches=microbatches,
        schedule=schedule,
        loading_ps=loading_ps,
        buckets=entry.buckets,
    )
    if isinstance(entry.model, Dlrm):
        return split_tables(entry.model, recipe)
    if entry.measured is None:
        return parallelise(entry.model, recipe)
    return _as_measured(entry, entry.model, entry.measured, recipe)


def catalogue_frame() -> "pl.DataFrame":
    """The catalogue as a table: one row per entry, with a GPU's compute time and traffic in one iteration.

    All are data parallel on two GPUs (a DLRM with its tables split), at the entry's own batch size.

    >>> import polars as pl
    >>> catalogue_frame().filter(pl.col("model") == "DLRM (HOTI'22)")["all_to_all_bytes"].item()
    8388608
    """
    import polars as pl

    return pl.DataFrame([_row(entry) for entry in ENTRIES.values()])


def _row(entry: Entry) -> dict[str, str | int | float]:
    (program,) = workload(entry.name, gpus=REFERENCE_WORKERS.value).programs
    return {
        "model": entry.name,
        "parameters": entry.model.parameters,
        "batch_size": entry.batch_size,
        "gpu": entry.gpu.name,
        "compute_ms": sum(each.duration_ps for each in program) / _PS_PER_MS,
        "all_reduce_bytes": sum(each.bytes for each in program if each.kind == "all-reduce"),
        "all_to_all_bytes": sum(each.bytes for each in program if each.kind == "all-to-all"),
        "source": entry.model.source,
    }


def _find_gpu(name: str) -> Gpu:
    if name not in GPUS:
        raise InputError(f"gpu: {shown(name)} is not a GPU of the catalogue; known: {', '.join(GPUS)}")
    return GPUS[name]


# One factor for all layers: the papers give only the length of whole iterations.
def _as_measured(entry: Entry, model: Model, measured: str, recipe: Recipe) -> Workload:
    """The workload with all compute times scaled by one factor.

    The factor makes an iteration on two A100s with an idle network as long as `hocket.workloads` gives it.
    """
    if recipe.gpu is not A100:
        raise InputError(f"gpu: {entry.name} was measured on A100, not on {recipe.gpu.name}")
    if recipe.parallel.tensor != 1 or recipe.parallel.pipeline != 1:
        raise InputError(f"parallel: {entry.name} was measured data parallel, without tensor or pipeline")
    if recipe.loading_ps:
        raise InputError(f"loading: the measured iterations of {entry.name} include their wait for input")
    CATALOGUE[measured].check_batch_size(recipe.batch_size)
    # The factor is that of two GPUs on any number of them: more GPUs lengthen the exchanges, not the compute.
    pair = replace(recipe, gpus=REFERENCE_WORKERS.value, parallel=DATA_PARALLEL)
    (reference,) = parallelise(model, pair).programs
    # Only the last gradients are exposed: all others overlap with the backward pass.
    last = [operation.bytes for operation in reference if operation.kind == "all-reduce"][-1]
    sent_bits = last * ring_all_reduce_share(REFERENCE_WORKERS.value) * _BITS_PER_BYTE
    exposed_ps = sent_bits * _PS_PER_S / LINE_RATE_BPS.value
    period_ps = profile(measured, recipe.batch_size, REFERENCE_WORKERS.value).period_ps
    computed_ps = sum(operation.duration_ps for operation in reference)
    factor = Fraction(period_ps - exposed_ps) / computed_ps
    unscaled = parallelise(model, recipe)
    programs = tuple(
        tuple(replace(each, duration_ps=round(each.duration_ps * factor)) for each in program)
        for program in unscaled.programs
    )
    return replace(unscaled, programs=programs)
