"""The tables of a cluster run: their columns, with units in the names, and what a row is."""

import polars as pl

ITERATIONS = pl.Schema(
    {
        "job": pl.String,
        "model": pl.String,
        "workers": pl.Int64,
        "batch_size": pl.Int64,
        "iteration": pl.Int64,
        "count": pl.Int64,
        "start_s": pl.Float64,
        "end_s": pl.Float64,
        "iteration_s": pl.Float64,
        "ideal_s": pl.Float64,
        "communication_s": pl.Float64,
        "delayed_s": pl.Float64,
        "marks": pl.Float64,
    }
)
"""A row is `count` iterations of a job one after another, from number `iteration` on, counted from 0.
`start_s` is when the first of them began to compute, `end_s` when the last ended. Other times are means:
`iteration_s` is what one took, with `delayed_s` that it waited for its slot before, and `ideal_s` the same
on an idle network. `marks` are those of all of them, null where they are not counted."""

PLACEMENTS = pl.Schema(
    {
        "job": pl.String(),
        "given_s": pl.Float64(),
        "start_s": pl.Float64(),
        "until_s": pl.Float64(),
        "workers": pl.Int64(),
        "batch_size": pl.Int64(),
        "iterations": pl.Int64(),
        "gpus": pl.List(pl.String),
        "links": pl.List(pl.String),
    }
)
"""A row per stint, a job's stay on the same GPUs: it had them from `given_s` to `until_s`, and computed from
`start_s`."""

DECISIONS = pl.Schema(
    {
        "decision": pl.Int64(),
        "at_s": pl.Float64(),
        "reason": pl.String(),
        "jobs": pl.Int64(),
        "waiting": pl.Int64(),
        "candidates": pl.Int64(),
        "discarded": pl.Int64(),
        "chosen": pl.Int64(),
        "own_score": pl.Float64(),
        "score": pl.Float64(),
        "moved": pl.List(pl.String),
        "why": pl.String(),
    }
)
"""A row per time that the scheduler was asked. `own_score` is that of its own choice, and `score` that of
the one taken, as CASSINI ranks them; null without it. `why` is JSON: what scheduler and CASSINI say for
themselves."""

LINK_SCORES = pl.Schema(
    {
        "decision": pl.Int64(),
        "link": pl.String(),
        "jobs_before": pl.List(pl.String),
        "before": pl.Float64(),
        "jobs": pl.List(pl.String),
        "after": pl.Float64(),
    }
)
"""A row per decision of CASSINI and link that jobs share: its score under the scheduler's own choice without
shifts (`before`), and under the one taken with its shifts (`after`)."""

DELAYS = pl.Schema(
    {
        "decision": pl.Int64,
        "link": pl.String,
        "job": pl.String,
        "other": pl.String,
        "delay_s": pl.Float64,
    }
)
"""A row per decision, link and pair of jobs that met there while it held: time that `job` lost to `other`, as
it sent more slowly than on an idle network. What it lost is shared out by what the others sent."""

ADJUSTMENTS = pl.Schema(
    {"job": pl.String, "at_s": pl.Float64, "deviation_s": pl.Float64, "delay_s": pl.Float64}
)
"""A row per time that a job that had drifted was brought back to its slot."""

JOBS = pl.Schema(
    {
        "job": pl.String,
        "model": pl.String,
        "strategy": pl.String,
        "batch_size": pl.Int64,
        "workers": pl.Int64,
        "mean_workers": pl.Float64,
        "status": pl.String,
        "arrival_s": pl.Float64,
        "first_start_s": pl.Float64,
        "end_s": pl.Float64,
        "completion_s": pl.Float64,
        "waiting_s": pl.Float64,
        "restarts": pl.Int64,
        "gpu_hours": pl.Float64,
        "iterations": pl.Int64,
        "mean_iteration_s": pl.Float64,
        "p50_iteration_s": pl.Float64,
        "p99_iteration_s": pl.Float64,
        "mean_ideal_s": pl.Float64,
        "slowdown": pl.Float64,
        "mean_communication_s": pl.Float64,
        "mean_delayed_s": pl.Float64,
        "rho": pl.Float64,
        "marks": pl.Float64,
        "adjustments": pl.Int64,
    }
)
"""A row per job that arrived. `workers` as submitted; `completion_s` from arrival to end; `waiting_s`
without GPUs; `slowdown` is the mean iteration ÷ that on an idle network; `rho` is `completion_s` ÷ the time
that the job would have taken alone, on the workers that it was submitted with."""

LINKS = pl.Schema(
    {
        "link": pl.String,
        "rate_bps": pl.Int64,
        "job": pl.String,
        "bytes": pl.Int64,
        "utilisation": pl.Float64,
        "busy_s": pl.Float64,
        "contended_s": pl.Float64,
        "marks": pl.Float64,
    }
)
"""A row per link and job that crossed it: what share of the link's capacity over the run it used, how long
it sent, and how long of that it met other flows there and the link was full."""


STREAMED = {
    "iterations": ITERATIONS,
    "placements": PLACEMENTS,
    "decisions": DECISIONS,
    "link_scores": LINK_SCORES,
    "delays": DELAYS,
    "adjustments": ADJUSTMENTS,
}
"""Tables that are written while a run goes on; the others are of what happened in all."""
