"""The workload catalogue: the 13 models of NSDI'24 Table 3 by name, with the profile of an iteration of each.

It is for jobs that cannot be measured; a profile from counters of the real job is more accurate."""

from collections.abc import Mapping
from difflib import get_close_matches
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING

from hocket.errors import InputError
from hocket.profiles import BITS_PER_BYTE, PS_PER_MS, WorkloadProfile
from hocket.units import format_rate, shown
from hocket.workloads.model import Model
from hocket.workloads.strategies import (
    LINE_RATE_BPS,
    DataParallel,
    Strategy,
    in_sequence,
    ring_all_reduce_share,
)
from hocket.workloads.table_3 import MODELS

if TYPE_CHECKING:
    import polars as pl

CATALOGUE: Mapping[str, Model] = MappingProxyType({model.name: model for model in MODELS})
"""The models by name, in the order of NSDI'24 Table 3."""


# HotNets'22 Table 1 calls WideResNet101 by its family's name.
_ALIASES = {"wideresnet": "WideResNet101"}


def find_model(name: str, models: Mapping[str, Model] = CATALOGUE) -> Model:
    """The model called `name`, in any case, with or without hyphens, underscores and spaces.

    Raises `InputError` with the closest names if there is none.

    >>> find_model("gpt-3").name
    'GPT3'
    """
    # A user's model may be called like an alias: names come after aliases, so that they override them.
    names = _ALIASES | {plain_name(known): known for known in models}
    plain = plain_name(name)
    if plain in names:
        return models[names[plain]]
    # Spellings are compared in the plain form, and suggested in the catalogue's.
    close = [names[each] for each in get_close_matches(plain, list(names), n=3)]
    hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(models)}"
    elsewhere = "" if models.keys() == CATALOGUE.keys() else " or of [[models]]"
    raise InputError(f"{shown(name)} is not a workload of the catalogue{elsewhere}; {hint}")


def plain_name(name: str) -> str:
    """The name of a model in the form in which names are compared.

    >>> plain_name("GPT-3")
    'gpt3'
    """
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


def profile(
    name: str,
    batch_size: int,
    workers: int,
    strategy: str | None = None,
    nic_bps: int = LINE_RATE_BPS.value,
) -> WorkloadProfile:
    """One iteration of the model `name` at `batch_size` per GPU on `workers` servers of one GPU each.

    Without a `strategy`, the model's first one that runs on this number of workers is used. A NIC of another
    rate than the catalogue's sends the same bytes in another time (see `with_nic`).

    Raises `InputError` for an unknown name or strategy and for values outside the catalogue's range.

    >>> vgg16 = profile("VGG16", 1400, 2)
    >>> vgg16.period_ps, vgg16.phases
    (274000000000, (PhaseSpec(start_ps=126000000000, duration_ps=148000000000, rate_bps=29000000000),))
    """
    model = find_model(name)
    model.check_batch_size(batch_size)
    return model.behind(nic_bps).profile(batch_size, workers, strategy)


def calibrated_workers(name: str, batch_size: int) -> int:
    """The number of workers of the papers' job that the model `name` is calibrated with, at the nearest batch
    size.

    Raises `InputError` for an unknown name.

    >>> calibrated_workers("VGG16", 1400), calibrated_workers("VGG16", 1700)
    (2, 3)
    """
    first = next(iter(find_model(name).strategies.values()))
    if isinstance(first, DataParallel):
        return first.nearest_point(batch_size).workers.value
    return find_model(name).reference[1]


def figure_3_profile() -> WorkloadProfile:
    """The VGG16 job of HotNets'22 Fig 3 and NSDI'24 Fig 3: 255 ms, the first 141 ms of them Down.

    >>> figure_3_profile().up_ps
    114000000000
    """
    size_bytes = 528 * 10**6 * ring_all_reduce_share(2)
    up_ms = Fraction(255 - 141)
    sources = (
        "paper: HotNets'22 Fig 3: an iteration of 255 ms whose first 141 ms are pure computation",
        "calculation: a ring all-reduce of 528 MB (NSDI'24 Table 3) between two workers, "
        "spread over the 114 ms of Up",
    )
    rate_gbps = size_bytes * BITS_PER_BYTE / up_ms / 10**6
    return in_sequence([(Fraction(141), Fraction(0)), (up_ms, rate_gbps)], sources)


def catalogue_frame() -> "pl.DataFrame":
    """The catalogue as a table: one row per model and strategy, with its iteration at the reference point.

    >>> import polars as pl
    >>> catalogue_frame().filter(pl.col("model") == "VGG16")["period_ms"].item()
    274.0
    """
    import polars as pl

    return pl.DataFrame([_row(model, each) for model in MODELS for each in model.strategies.values()])


def _row(model: Model, strategy: Strategy) -> dict[str, str | int | float]:
    batch_size, workers = model.reference
    # Strategies of one model may need different numbers of workers, as those of GPT3 do: 2, and 8 or more.
    workers = workers if workers in strategy.workers.value else strategy.workers.value[0]
    each = strategy.profile(batch_size, workers)
    smallest, largest = model.batch_size_limits()
    return {
        "model": model.name,
        "type": model.field_of_use.value,
        "parallelisation": model.parallelisation.value,
        "memory_mb_min": model.memory_mb.value[0],
        "memory_mb_max": model.memory_mb.value[1],
        "batch_size_min": smallest,
        "batch_size_max": largest,
        "strategy": strategy.name,
        "batch_size": batch_size,
        "workers": workers,
        "period_ms": each.period_ps / PS_PER_MS,
        "up_ms": each.up_ps / PS_PER_MS,
        "up_phases": len(each.phases),
        "highest_rate": format_rate(max(phase.rate_bps for phase in each.phases)),
        "bytes_per_iteration": each.size_bytes,
        "source": each.sources[0],
    }
