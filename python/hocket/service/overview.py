"""The state of jobs as text, for both `hocket jobs` and the service's page."""

from collections.abc import Callable, Iterator
from typing import Any

from pydantic import ValidationError

from hocket import __version__
from hocket.errors import InputError
from hocket.service.models import Jobs, JobView, SpeedupView, Times

_NS_PER_MS = 1_000_000
# Hocket: iterations longer than predicted by more than 5%, the tolerance of slots, are remarked upon.
_LONGER = 1.05


def views(jobs: Any) -> list[JobView]:
    """Jobs from the JSON of a service. Raises `InputError` if another version of Hocket wrote it."""
    try:
        return Jobs.model_validate({"jobs": jobs}).jobs
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise InputError(
            f"the service runs another version of Hocket than this command, {__version__}: "
            f"{key}: {first['msg']}; --json shows its answer"
        ) from None


def row(view: JobView, shown: Callable[[Times], str]) -> tuple[str, ...]:
    """The cells of a job: name, ranks that have reported, iterations, iteration without contention; then,
    predicted and measured, iterations without and in its slot, formatted by `shown`, and the verdict.
    """
    predicted, measured = view.predicted, view.measured
    # A measurement that the verdict does not use would seem to contradict it.
    without = None if measured.against == "predicted" else measured.without_slot
    return (
        view.job,
        f"{view.heard}/{'?' if view.ranks is None else view.ranks}",
        "–" if view.iteration is None else f"{view.iteration:,}",
        _ms(view.ideal_ns),
        *(
            _cells(predicted.without_slot, predicted.in_slot, predicted.speedup, shown)
            if predicted
            else _NONE
        ),
        *_cells(without, measured.in_slot, measured.speedup, shown),
    )


def mean(times: Times) -> str:
    """The mean, in ms."""
    return _ms(times.mean_ns)


def mean_and_p99(times: Times) -> str:
    """The mean and, in brackets, the 99th percentile, in ms."""
    return f"{_ms(times.mean_ns)} ({_ms(times.p99_ns)})"


def sentences(view: JobView) -> Iterator[str]:
    """Sentences about a job: its slot and whether it is followed, why it has one or none, and whether the
    measurements confirm the prediction.
    """
    yield _slot(view)
    yield view.reason
    measured = view.measured
    if measured.speedup is not None:
        speedup = measured.speedup
        yield (
            f"measured: taking turns {speedup.verdict}, speed-up {speedup.mean:.2f} on average, "
            f"{speedup.p99:.2f} at p99, against {_base(view)}"
        )
    if view.predicted is not None and measured.in_slot is not None:
        longer = measured.in_slot.mean_ns / max(1, view.predicted.in_slot.mean_ns)
        if longer > _LONGER:
            yield f"iterations in slots take {longer:.2f} times as long as predicted: profile the job again"


_NONE = ("–", "–", "")


def _cells(
    without: Times | None, within: Times | None, speedup: SpeedupView | None, shown: Callable[[Times], str]
) -> tuple[str, str, str]:
    return (
        "–" if without is None else shown(without),
        "–" if within is None else shown(within),
        "" if speedup is None else speedup.verdict,
    )


def _slot(view: JobView) -> str:
    if view.slot is None:
        return "no slot"
    if view.not_followed is not None:
        return f"slot {view.slot.version} is not followed: {view.not_followed}"
    off = "" if view.deviation_ns is None else f", off by {_ms(view.deviation_ns)} ms"
    noun = "adjustment" if view.adjustments == 1 else "adjustments"
    return f"slot {view.slot.version} is followed{off}, {view.adjustments:,} {noun}"


def _base(view: JobView) -> str:
    without = view.measured.without_slot
    if view.measured.against == "measured" and without is not None:
        return f"{without.iterations:,} iterations without its slot"
    return "the prediction without slots, as too few such iterations were measured"


def _ms(time_ns: int) -> str:
    return f"{time_ns / _NS_PER_MS:,.1f}"
