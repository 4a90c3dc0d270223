"""The TCP congestion control that represents a job's share on real links."""

from collections.abc import Iterable
from typing import Final

from hocket.errors import InputError
from hocket.plan import Job
from hocket.plan.job import Share
from hocket.testbed import machine

FAIR: Final = "reno"
"""The default of jobs that share fairly: RFC 5681's, which every kernel allows in namespaces."""

# As `congestion.bpf.c` registers them in the kernel.
_UNFAIR = {"weighted": "hocket_weighted", "adaptive": "hocket_adaptive"}


def control_of(share: Share, fair: str = FAIR) -> str:
    """The kernel's name of the congestion control for `share`.

    >>> control_of(Share()), control_of(Share("adaptive"))
    ('reno', 'hocket_adaptive')
    """
    return _UNFAIR.get(share.kind, fair)


def check_controls(jobs: Iterable[Job], fair: str = FAIR) -> None:
    """Checks that namespaces of this machine may use the congestion control of each job's share, and that the
    factors of `hocket tcp load` equal those of the shares.

    Raises `InputError` with what to do.
    """
    allowed = machine.congestion_controls()
    for job in jobs:
        control = control_of(job.share, fair)
        if control not in allowed:
            how = "it is not loaded, or net.ipv4.tcp_allowed_congestion_control does not list it"
            if control != fair:
                how = "`hocket tcp load` loads it"
            raise InputError(
                f"job {job.name!r}: its share, {job.share.kind}, requires the congestion control "
                f"{control!r}, but namespaces of this machine have {', '.join(sorted(allowed))}; {how}"
            )
        if control != fair:
            _check_factor(job)


def _check_factor(job: Job) -> None:
    """Only one factor is loaded for the whole machine; that of an adaptive share is fixed by the paper."""
    from hocket.tcp.control import current

    loaded = current()
    factor = 1.0 if job.share.kind == "adaptive" or loaded is None else loaded.factor
    if job.share.weight != factor:
        raise InputError(
            f"job {job.name!r}: {job.share.kind} = {job.share.weight:g}, but the loaded congestion "
            f"control has {factor:g}; `hocket tcp load --factor` sets the factor of weighted shares"
        )
