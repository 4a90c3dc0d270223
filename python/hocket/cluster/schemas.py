"""The tables of a cluster run: their columns, with units in the names, and the meaning of a row."""

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
"""A row is `count` consecutive iterations of a job, from number `iteration` on, counted from 0. `start_s` is
when the first of them began to compute, `end_s` when the last ended. Other times are means per iteration:
`iteration_s` includes the wait for the slot, `delayed_s`; `ideal_s` is the duration on an idle network.
`marks` is the total over the `count` iterations, null where marks are not counted."""

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
"""A row per stint, a job's stay on the same GPUs: they were allocated to it from `given_s` to `until_s`, and
its first iteration there began at `start_s`. With Crux, `links` are the last ones that it used."""

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
"""A row per decision of the scheduler. `own_score` is CASSINI's score of the scheduler's own choice, `score`
that of the chosen candidate; null without CASSINI. `why` is JSON: the notes of the scheduler, of CASSINI and
of Crux."""

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
"""A row per decision of CASSINI and shared link: its score under the scheduler's own choice without
time-shifts (`before`), and under the chosen candidate with its time-shifts (`after`)."""

DELAYS = pl.Schema(
    {
        "decision": pl.Int64,
        "link": pl.String,
        "job": pl.String,
        "other": pl.String,
        "delay_s": pl.Float64,
    }
)
"""A row per decision, link and pair of jobs that contended there while it was in force: the time by which
`other` delayed `job`, compared with an idle network. A job's delay is divided among the others in proportion
to what they sent."""

ADJUSTMENTS = pl.Schema(
    {"job": pl.String, "at_s": pl.Float64, "deviation_s": pl.Float64, "delay_s": pl.Float64}
)
"""A row per adjustment: a job that had drifted was moved back into its slot."""

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
"""A row per job that arrived. `workers` is as submitted; `completion_s` is the time from arrival to end;
`waiting_s` the time without GPUs; `slowdown` the mean iteration ÷ that on an idle network; `rho` is
`completion_s` ÷ the run time of the job alone, on the workers that it was submitted with."""

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
"""A row per link and job that crossed it: `utilisation` is the job's share of the link's capacity over the
whole run, `busy_s` the time that it sent, and `contended_s` the part of that in which other flows crossed the
link and it was full."""


SUMMARIES = pl.Schema(
    {
        "model": pl.String,
        "iterations": pl.Int64,
        "mean_iteration_s": pl.Float64,
        "p50_iteration_s": pl.Float64,
        "p99_iteration_s": pl.Float64,
        "mean_ideal_s": pl.Float64,
        "slowdown": pl.Float64,
        "p50_slowdown": pl.Float64,
        "p99_slowdown": pl.Float64,
        "mean_communication_s": pl.Float64,
        "mean_delayed_s": pl.Float64,
        "marks": pl.Float64,
    }
)
"""A row per model whose jobs finished an iteration, and a last one, without a model, for all jobs together.
Every iteration counts, whatever `record` is: `slowdown` is their total duration ÷ that on an idle network,
`p50_slowdown` and `p99_slowdown` are percentiles over slowdowns of single iterations. The manifest states the
largest relative error of percentiles, `percentile_error`."""

STREAMED = {
    "iterations": ITERATIONS,
    "placements": PLACEMENTS,
    "decisions": DECISIONS,
    "link_scores": LINK_SCORES,
    "delays": DELAYS,
    "adjustments": ADJUSTMENTS,
}
"""Tables written during a run; the others summarise the whole run and are written at its end."""
