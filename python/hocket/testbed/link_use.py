"""Who used a link of a testbed when, from the counters of its interfaces: for pictures."""

import polars as pl

from hocket.engines.link_use import LinkUse, four_iterations
from hocket.errors import InputError
from hocket.results import Run
from hocket.testbed.layout import Layout


def measured_use(layout: Layout, run: Run) -> LinkUse:
    """The use of a link by each job in four iterations of `run`, which was on the testbed of `layout`: of the
    link that most jobs share and, of several, that carried most.

    Counters of a link that jobs share do not tell them apart: what a job sends over it is what the NICs of
    those of its workers send whose paths cross it. Raises `InputError` if no job has finished an iteration.
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
        # As the engines call the one link of a plan.
        link="link" if link.startswith("link ") else link,
        capacity_bps=next(each.capacity_bps for each in layout.links if link in each.names),
        shared_links=loads.filter(pl.col("job") > 1).height,
        jobs=jobs,
        rates=rates,
        begin_s=begin_s,
        end_s=end_s,
    )
