"""Which TCP congestion control stands for a job's share on real links."""

from collections.abc import Iterable
from typing import Final

from hocket.errors import InputError
from hocket.plan import Job
from hocket.plan.job import Share
from hocket.testbed import machine

FAIR: Final = "reno"
"""Of jobs that share fairly, unless another is asked for: RFC 5681's, which every kernel lets namespaces
use."""

_UNFAIR = {"weighted": "hocket_weighted", "adaptive": "hocket_adaptive"}


def control_of(share: Share, fair: str = FAIR) -> str:
    """The congestion control, by its name in the kernel, of a job with `share`.

    >>> control_of(Share()), control_of(Share("adaptive"))
    ('reno', 'hocket_adaptive')
    """
    return _UNFAIR.get(share.kind, fair)


def check_controls(jobs: Iterable[Job], fair: str = FAIR) -> None:
    """That the namespaces of this machine may have the congestion control that each job's share asks for.

    The factors of `hocket tcp load` must be those of the shares. Raises `InputError` that says how to get
    what is missing.
    """
    allowed = machine.congestion_controls()
    for job in jobs:
        control = control_of(job.share, fair)
        if control not in allowed:
            how = "it may not be there, or net.ipv4.tcp_allowed_congestion_control not name it"
            if control != fair:
                how = "`hocket tcp load` loads it"
            raise InputError(
                f"job {job.name!r}: its share, {job.share.kind}, is the congestion control {control!r} here, "
                f"and namespaces of this machine have {', '.join(sorted(allowed))}; {how}"
            )
        if control != fair:
            _check_factor(job)


def _check_factor(job: Job) -> None:
    """One factor is loaded for all jobs of the machine; that of an adaptive share is the paper's."""
    from hocket.tcp.control import current

    loaded = current()
    factor = 1.0 if job.share.kind == "adaptive" or loaded is None else loaded.factor
    if job.share.weight != factor:
        raise InputError(
            f"job {job.name!r}: {job.share.kind} = {job.share.weight:g}, and the congestion control that is "
            f"loaded has {factor:g}; `hocket tcp load --factor` sets that of weighted shares"
        )
