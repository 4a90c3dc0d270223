"""The use of a testbed's link by each job over time, from the counters of its interfaces, for figures."""

import polars as pl

from hocket.engines.link_use import LinkUse, four_iterations
from hocket.errors import InputError
from hocket.results import Run
from hocket.testbed.layout import Layout


def measured_use(layout: Layout, run: Run) -> LinkUse:
    """The use of one link by each job in four iterations of `run`, which was on the testbed of `layout`. The
    link is the one that most jobs share and, of several, the one with the highest mean utilisation.

    The counters of a shared link do not tell jobs apart. The rate of a job is therefore the sum of the rates
    of those of its NICs whose paths cross the link.

    Raises `InputError` if no job has finished an iteration, or if no counters were read.
    """
    jobs = tuple(run.tables["jobs"]["job"])
    starts = run.tables["iterations"].group_by("job").agg(pl.col("start_s").min())
    begin_s, end_s = four_iterations(
        run.tables["jobs"]["mean_iteration_s"], starts["start_s"], float(run.manifest["measured_s"])
    )
    crossings = pl.DataFrame(
        [
            (link, job.name, worker.path[0])
            for job in layout.jobs
            if job.name in jobs
            for worker in job.workers
            for link in worker.path
        ],
        schema=["link", "job", "nic"],
        orient="row",
    )
    measured = run.tables["utilisation"]
    carried = measured.group_by("link").agg(pl.col("utilisation").mean())
    loads = (
        crossings.group_by("link")
        .agg(pl.col("job").n_unique())
        .join(carried, on="link")
        .sort("job", "utilisation", "link", descending=[True, True, False])
    )
    if loads.is_empty():
        raise InputError("figure: the counters of no link were read")
    link = loads["link"][0]
    rates = (
        crossings.filter(link=link)
        .join(measured.select("start_s", "rate_bps", nic="link"), on="nic")
        .group_by("job", "start_s")
        .agg(pl.col("rate_bps").sum())
        .sort("start_s", "job")
    )
    return LinkUse(
        # A figure names the one link of a plan as the engines do, without its direction.
        link="link" if link.startswith("link ") else link,
        capacity_bps=next(each.capacity_bps for each in layout.links if link in each.names),
        shared_links=loads.filter(pl.col("job") > 1).height,
        jobs=jobs,
        rates=rates,
        begin_s=begin_s,
        end_s=end_s,
    )
