"""Writes the tables of a cluster run while it goes on: rows of the engine get the workers, the batch size and
the idle iteration of the stint that they are of.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from hocket import _hocket
from hocket.cluster.jobs import Measured, jobs_frame
from hocket.cluster.schemas import (
    ADJUSTMENTS,
    DECISIONS,
    DELAYS,
    ITERATIONS,
    LINK_SCORES,
    LINKS,
    PLACEMENTS,
    STREAMED,
)
from hocket.cluster.trace import Trace
from hocket.cluster.transitions import Member, Stint
from hocket.engines.network import Network
from hocket.results import frame
from hocket.results.sink import Sink
from hocket.schedulers import Decision
from hocket.schedulers.cassini import Chosen

_Columns = Mapping[str, "_hocket._Column"]

# So many decisions, and what happened between them, are handed on together.
_DECISIONS_AT_ONCE = 64

_INTEGERS = (
    "iteration",
    "count",
    "start_ps",
    "end_ps",
    "duration_ps",
    "communication_ps",
    "delayed_ps",
)
# A number of 64 bits.
_BYTES_PER_DELAY = 8

_OF_STINTS = pl.Schema(
    {
        "job": pl.String,
        "start_ps": pl.Int64,
        "model": pl.String,
        "workers": pl.Int64,
        "batch_size": pl.Int64,
        "ideal_ps": pl.Int64,
    }
)


@dataclass(frozen=True)
class Verdict:
    """One time that the scheduler was asked, and what came of it."""

    time_ps: int
    reason: str
    jobs: int
    waiting: int
    """Of the jobs, those that have no GPUs after it."""
    decision: Decision
    chosen: Chosen | None
    """By CASSINI, if it was asked."""
    moved: Sequence[str]


class Tables:
    """Takes what happens, and hands rows to a sink before they are many."""

    def __init__(self, sink: Sink, engine: _hocket.ClusterRun, trace: Trace, *, counts_marks: bool) -> None:
        self._sink = sink
        self._engine = engine
        self._network = trace.network
        self._gpus = trace.cluster.gpus
        self._shown = trace.network.display_names()
        # The engine numbers jobs as they arrive, which is the order of the trace.
        self._jobs = [job.name for job in trace.jobs]
        self._counts_marks = counts_marks
        self._stints: list[Stint] = []
        self._verdicts: list[Verdict] = []
        self._delays: list[tuple[int, _Columns]] = []
        self._measured = Measured()
        self._rows: Counter[str] = Counter()
        for name, schema in STREAMED.items():
            self._add(name, pl.DataFrame(schema=schema))

    @property
    def rows(self) -> dict[str, int]:
        """How many were handed on so far, by table."""
        return {name: self._rows[name] for name in STREAMED}

    def verdict(self, verdict: Verdict, running: Iterable[Stint]) -> None:
        """Takes a decision; `running` are the stints that are not over."""
        self._take_delays()
        self._verdicts.append(verdict)
        if len(self._verdicts) >= _DECISIONS_AT_ONCE:
            self._hand_on(running)

    def stint(self, stint: Stint) -> None:
        """Takes a stint that is over."""
        self._stints.append(stint)

    def finish(self, members: Iterable[Member], ended_ps: int) -> None:
        """Hands on what is left, and the tables of what happened in all."""
        self._take_delays()
        self._hand_on()
        self._sink.append_frame("jobs", jobs_frame(members, self._measured, ended_ps))
        self._sink.append_frame("links", _links(self._frame(self._engine.links()), self._network, ended_ps))

    def _take_delays(self) -> None:
        """What jobs did to each other since the last decision, which is the one that held."""
        held = self._rows["decisions"] + len(self._verdicts) - 1
        self._delays.append((held, self._engine.take_delays()))

    def _hand_on(self, running: Iterable[Stint] = ()) -> None:
        """Hands all rows on that there are by now."""
        taken = {name: self._frame(columns) for name, columns in self._engine.take_tables().items()}
        iterations = _with_stints(taken["iterations"], [*self._stints, *running])
        self._measured.add(iterations, taken["adjustments"])
        self._add("iterations", _iterations(iterations))
        self._add("adjustments", _adjustments(taken["adjustments"]))
        self._add("delays", self._joined_delays())
        self._add("placements", _placements(self._stints, self._gpus, self._network))
        self._add("link_scores", _link_scores(self._verdicts, self._rows["decisions"]))
        self._add("decisions", _decisions(self._verdicts, self._rows["decisions"]))
        for taken_over in (self._stints, self._verdicts, self._delays):
            taken_over.clear()

    def _joined_delays(self) -> pl.DataFrame:
        """Those of several decisions as one table, which is quicker than a table for each."""
        if not self._delays:
            return pl.DataFrame(schema=DELAYS)
        counts = [len(columns["delay_s"]["buffer"]) // _BYTES_PER_DELAY for _, columns in self._delays]
        decisions = np.repeat([held for held, _ in self._delays], counts)
        rows = self._frame(_joined([columns for _, columns in self._delays]))
        return rows.with_columns(decision=decisions).select(DELAYS.names()).cast(DELAYS)

    def _frame(self, columns: _Columns) -> pl.DataFrame:
        """Rows of the engine, with the names that jobs and links are shown by."""
        rows = frame({name: self._named(name, column) for name, column in columns.items()})
        if "marks" in rows.columns and not self._counts_marks:
            return rows.with_columns(marks=pl.lit(None, dtype=pl.Float64))
        return rows

    def _named(self, name: str, column: "_hocket._Column") -> "_hocket._Column":
        if name in ("job", "other"):
            return {**column, "dictionary": self._jobs}
        if column["dictionary"] is None:
            return column
        return {**column, "dictionary": [self._shown[link] for link in column["dictionary"]]}

    def _add(self, name: str, rows: pl.DataFrame) -> None:
        self._rows[name] += rows.height
        self._sink.append_frame(name, rows)


def _joined(tables: Sequence[_Columns]) -> _Columns:
    """Rows of `tables` one after another."""
    return {name: _joined_column([table[name] for table in tables]) for name in tables[0]}


def _joined_column(columns: Sequence["_hocket._Column"]) -> "_hocket._Column":
    """Each column of text has a dictionary of its own, which its codes count from."""
    dtype = columns[0]["dtype"]
    words: list[str] = []
    parts = []
    for column in columns:
        parts.append(np.frombuffer(column["buffer"], dtype) + np.dtype(dtype).type(len(words)))
        words.extend(column["dictionary"] or ())
    return {
        "dtype": dtype,
        "buffer": np.concatenate(parts).tobytes(),
        "dictionary": None if columns[0]["dictionary"] is None else words,
    }


def _seconds(column: str) -> pl.Expr:
    return pl.col(column) / 1e12


def _with_stints(rows: pl.DataFrame, stints: Sequence[Stint]) -> pl.DataFrame:
    """Rows of the engine, each with what there is to say of the stint that it is of."""
    known = pl.DataFrame(
        [
            {
                "job": stint.job.name,
                "start_ps": stint.given_ps,
                "model": stint.job.model,
                "workers": len(stint.gpus),
                "batch_size": stint.batch_size,
                "ideal_ps": stint.job.profile(len(stint.gpus), stint.batch_size).period_ps,
            }
            for stint in stints
        ],
        schema=_OF_STINTS,
    ).sort("start_ps", maintain_order=True)
    return (
        rows.with_columns(pl.col(_INTEGERS).cast(pl.Int64))
        .with_columns(iteration_ps=pl.col("duration_ps") + pl.col("delayed_ps"))
        .with_row_index("row")
        .sort("start_ps", maintain_order=True)
        .join_asof(known, on="start_ps", by="job", check_sortedness=False)
        .sort("row")
        .with_columns(mean_ps=pl.col("iteration_ps") / pl.col("count"))
    )


def _iterations(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(
        "job",
        "model",
        "workers",
        "batch_size",
        "iteration",
        "count",
        _seconds("start_ps").alias("start_s"),
        _seconds("end_ps").alias("end_s"),
        _seconds("mean_ps").alias("iteration_s"),
        _seconds("ideal_ps").alias("ideal_s"),
        (_seconds("communication_ps") / pl.col("count")).alias("communication_s"),
        (_seconds("delayed_ps") / pl.col("count")).alias("delayed_s"),
        "marks",
    ).cast(ITERATIONS)


def _adjustments(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(
        "job",
        _seconds("time_ps").alias("at_s"),
        _seconds("deviation_ps").alias("deviation_s"),
        _seconds("delay_ps").alias("delay_s"),
    ).cast(ADJUSTMENTS)


def _placements(stints: Iterable[Stint], gpus: Sequence[str], network: Network) -> pl.DataFrame:
    rows = [
        {
            "job": stint.job.name,
            "given_s": stint.given_ps / 1e12,
            "start_s": stint.start_ps / 1e12,
            "until_s": None if stint.until_ps is None else stint.until_ps / 1e12,
            "workers": len(stint.gpus),
            "batch_size": stint.batch_size,
            "iterations": stint.iterations,
            "gpus": [gpus[gpu] for gpu in stint.gpus],
            "links": [network.links[link][0] for link, _ in stint.crossings],
        }
        for stint in stints
    ]
    return pl.DataFrame(rows, schema=PLACEMENTS)


def _decisions(verdicts: Iterable[Verdict], first: int) -> pl.DataFrame:
    rows = []
    for number, verdict in enumerate(verdicts, first):
        chosen = verdict.chosen
        scores = None if chosen is None else chosen.candidates
        rows.append(
            {
                "decision": number,
                "at_s": verdict.time_ps / 1e12,
                "reason": verdict.reason,
                "jobs": verdict.jobs,
                "waiting": verdict.waiting,
                "candidates": len(verdict.decision.candidates),
                "discarded": None if scores is None else sum(each.score is None for each in scores),
                "chosen": 0 if chosen is None else chosen.candidate,
                "own_score": None if scores is None else scores[0].score,
                "score": None if chosen is None or scores is None else scores[chosen.candidate].score,
                "moved": list(verdict.moved),
                "why": _why(verdict.decision.why, chosen),
            }
        )
    return pl.DataFrame(rows, schema=DECISIONS)


def _why(scheduler: Mapping[str, object], chosen: Chosen | None) -> str:
    """What scheduler and CASSINI say, as JSON. A scheduler's own class may say what JSON cannot hold."""
    said = {"scheduler": dict(scheduler), "cassini": None if chosen is None else chosen.why}
    return json.dumps(said, ensure_ascii=False, default=str)


def _link_scores(verdicts: Iterable[Verdict], first: int) -> pl.DataFrame:
    rows = [
        {
            "decision": number,
            "link": score.name,
            "jobs_before": list(score.jobs_before),
            "before": score.before,
            "jobs": list(score.jobs),
            "after": score.after,
        }
        for number, verdict in enumerate(verdicts, first)
        if verdict.chosen is not None
        for score in verdict.chosen.links
    ]
    return pl.DataFrame(rows, schema=LINK_SCORES)


def _links(rows: pl.DataFrame, network: Network, ended_ps: int) -> pl.DataFrame:
    """Links under the names that are shown, with how much of their capacity was used."""
    rates = pl.DataFrame(network.links, schema={"link": pl.String, "rate_bps": pl.Int64}, orient="row")
    share = 8 * pl.col("bytes") / pl.col("rate_bps") / (max(ended_ps, 1) / 1e12)
    return (
        rows.join(rates, on="link", how="left", maintain_order="left")
        .select(
            "link",
            "rate_bps",
            "job",
            "bytes",
            share.alias("utilisation"),
            _seconds("busy_ps").alias("busy_s"),
            _seconds("contended_ps").alias("contended_s"),
            "marks",
        )
        .cast(LINKS)
    )
