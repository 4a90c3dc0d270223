"""The selection of paths (Crux, SIGCOMM'24 §4.1): each flow takes the least congested of its shortest paths,
and jobs choose in order of GPU intensity.
"""

from collections import Counter
from collections.abc import Sequence

from hocket.profiles import BITS_PER_BYTE, PS_PER_S
from hocket.schedulers.crux.intensity import Communication
from hocket.schedulers.job_routes import Path, Routes


def route(jobs: Sequence[Communication], routes: Routes, rates_bps: Sequence[int]) -> list[Communication]:
    """`jobs` in the same order, over the paths that they choose.

    The congestion of a path is the use of its links, the most used first, by the mean rates of the flows that
    have chosen before. Of equally congested paths, a flow keeps that of ECMP if it can.
    """
    load_bps = [0.0] * len(rates_bps)
    routed: dict[str, Communication] = {}
    for job in sorted(jobs, key=lambda each: -each.intensity):
        mean_bps = BITS_PER_BYTE * job.profile.size_bytes / (job.profile.period_ps / PS_PER_S)
        crossed: Counter[int] = Counter()
        for paths in routes.paths(job.name, job.gpus):
            # The first of equals, which is the path of ECMP if that is among them.
            chosen = min(paths, key=lambda path: _congestion(path, load_bps, rates_bps))
            for link in chosen:
                load_bps[link] += mean_bps
            crossed.update(chosen)
        routed[job.name] = Communication.of(
            job.name, job.gpus, job.profile, sorted(crossed.items()), rates_bps
        )
    return [routed[job.name] for job in jobs]


def _congestion(path: Path, load_bps: Sequence[float], rates_bps: Sequence[int]) -> list[float]:
    """The use of the links of a path, descending: a path is better if its most used link is less used."""
    return sorted((load_bps[link] / rates_bps[link] for link in path), reverse=True)
