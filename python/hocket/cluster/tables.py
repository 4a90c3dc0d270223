"""Writes the tables of a cluster run during the run, before they fill their part of the memory. Each
iteration of the engine is joined with the workers, the batch size and the idle iteration time of its stint.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from hocket import _hocket
from hocket.cluster.deciders import Verdict
from hocket.cluster.jobs import jobs_frame
from hocket.cluster.recording import check_kept
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
from hocket.cluster.summaries import Summaries
from hocket.cluster.trace import Trace
from hocket.cluster.transitions import Member, Stint
from hocket.engines.network import Network
from hocket.results import frame
from hocket.results.sink import Sink

_Columns = Mapping[str, "_hocket._Column"]

# Rows are passed on for this number of decisions at once, which is quicker than a table for each decision.
_DECISIONS_PER_FLUSH = 64
# An iteration takes a hundred bytes in the engine, and several times as many while it is joined and written.
BYTES_PER_ITERATION = 1_000

# A delay is a number of 64 bits.
_BYTES_PER_DELAY = 8

_STINT_COLUMNS = pl.Schema(
    {
        "stint": pl.UInt64,
        "model": pl.String,
        "workers": pl.Int64,
        "batch_size": pl.Int64,
        "ideal_ps": pl.Int64,
    }
)


@dataclass(frozen=True)
class DecisionRecord:
    """One decision, and what triggered it."""

    time_ps: int
    reason: str
    jobs: int
    waiting: int
    """The number of jobs without GPUs after it."""
    verdict: Verdict
    moved: Sequence[str]


class Tables:
    """Collects the events of a run, and passes their rows to a sink in groups.

    What is collected is passed on when it fills half of `table_memory`; the other half is for what the engine
    adds in one step, which its option `most_iterations` limits.
    """

    def __init__(
        self,
        sink: Sink,
        engine: _hocket.ClusterRun,
        trace: Trace,
        *,
        counts_marks: bool,
        records_iterations: bool,
    ) -> None:
        self._sink = sink
        self._engine = engine
        self._network = trace.network
        self._gpus = trace.cluster.gpus
        self._shown = trace.network.display_names()
        # The engine numbers jobs as they arrive, which is the order of the trace.
        self._jobs = [job.name for job in trace.jobs]
        self._model_of = {job.name: job.model for job in trace.jobs}
        self._memory_bytes = trace.settings.table_memory_bytes
        self._records_iterations = records_iterations
        self._counts_marks = counts_marks
        self._stints: list[Stint] = []
        self._decisions: list[dict[str, Any]] = []
        self._link_scores: list[dict[str, Any]] = []
        self._delays: list[tuple[int, _Columns]] = []
        self._collected_bytes = 0
        self._adjusted: Counter[str] = Counter()
        self._rows: Counter[str] = Counter()
        # Every table is in the run, even if it never gets a row.
        self._streamed = {
            name: STREAMED[name] for name in STREAMED if records_iterations or name != "iterations"
        }
        for name, schema in self._streamed.items():
            self._add(name, pl.DataFrame(schema=schema))

    @property
    def rows(self) -> dict[str, int]:
        """The number of rows passed on so far, by table."""
        return {name: self._rows[name] for name in self._streamed}

    def add_decision(self, record: DecisionRecord, running: Iterable[Stint]) -> None:
        """Add a decision; `running` are the stints that have not ended."""
        self._take_delays()
        number = self._rows["decisions"] + len(self._decisions)
        row = _decision(number, record)
        self._decisions.append(row)
        self._link_scores.extend(_link_scores(number, record))
        self._collected_bytes += len(row["why"])
        if len(self._decisions) >= _DECISIONS_PER_FLUSH:
            self._flush(running)

    def add_stint(self, stint: Stint) -> None:
        """Add a stint that has ended."""
        self._stints.append(stint)

    def pass_on_if_full(self, running: Iterable[Stint]) -> None:
        """Pass on what is collected if it fills half of the memory; `running` are stints that have not ended.

        Raises `InputError` if a sink that keeps rows in memory has no room for more.
        """
        check_kept(self._sink.held_bytes, self._memory_bytes)
        if 2 * self.collected_bytes >= self._memory_bytes:
            self._flush(running)

    @property
    def collected_bytes(self) -> int:
        """About the memory that rows need until they are passed on."""
        return self._engine.rows() * BYTES_PER_ITERATION + self._collected_bytes

    def finish(self, members: Iterable[Member], ended_ps: int, models: Sequence[str]) -> Summaries:
        """Pass on the remaining rows, and the tables over the whole run. Returns the summaries.

        `models` are by their number in the engine.
        """
        self._take_delays()
        self._flush()
        summaries = Summaries(self._engine, self._jobs, counts_marks=self._counts_marks)
        self._sink.append_frame("jobs", jobs_frame(members, summaries.by_job, self._adjusted, ended_ps))
        self._sink.append_frame("links", _links(self._frame(self._engine.links()), self._network, ended_ps))
        self._sink.append_frame("summaries", summaries.table(models, self._model_of))
        return summaries

    def _take_delays(self) -> None:
        """Collect the delays since the last decision, and attribute them to that decision."""
        in_force = self._rows["decisions"] + len(self._decisions) - 1
        delays = self._engine.take_delays()
        self._delays.append((in_force, delays))
        self._collected_bytes += sum(len(column["buffer"]) for column in delays.values())

    def _flush(self, running: Iterable[Stint] = ()) -> None:
        """Pass on all rows collected so far."""
        taken = {name: self._frame(columns) for name, columns in self._engine.take_tables().items()}
        if self._records_iterations:
            self._add("iterations", _iterations(taken["iterations"], [*self._stints, *running]))
        adjustments = taken["adjustments"]
        self._adjusted.update(dict(adjustments.group_by("job").len().rows()))
        self._add("adjustments", _adjustments(adjustments))
        self._add("delays", self._joined_delays())
        self._add("placements", _placements(self._stints, self._gpus, self._network))
        self._add("link_scores", pl.DataFrame(self._link_scores, schema=LINK_SCORES))
        self._add("decisions", pl.DataFrame(self._decisions, schema=DECISIONS))
        for passed_on in (self._stints, self._decisions, self._link_scores, self._delays):
            passed_on.clear()
        self._collected_bytes = 0

    def _joined_delays(self) -> pl.DataFrame:
        """The delays of several decisions as one table, which is quicker than a table for each."""
        if not self._delays:
            return pl.DataFrame(schema=DELAYS)
        counts = [len(columns["delay_s"]["buffer"]) // _BYTES_PER_DELAY for _, columns in self._delays]
        decisions = np.repeat([in_force for in_force, _ in self._delays], counts)
        rows = self._frame(_joined([columns for _, columns in self._delays]))
        return rows.with_columns(decision=decisions).select(DELAYS.names()).cast(DELAYS)

    def _frame(self, columns: _Columns) -> pl.DataFrame:
        """Rows of the engine, with the display names of jobs and links."""
        rows = frame({name: self._named(name, column) for name, column in columns.items()})
        # Without a model the engine reports 0, which would mean that no packet was marked.
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
    """The rows of `tables`, concatenated."""
    return {name: _joined_column([table[name] for table in tables]) for name in tables[0]}


def _joined_column(columns: Sequence["_hocket._Column"]) -> "_hocket._Column":
    """The concatenation of `columns`. Each text column has its own dictionary, so its codes are shifted."""
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


def _iterations(rows: pl.DataFrame, stints: Sequence[Stint]) -> pl.DataFrame:
    """Rows of the engine, each joined with the columns of its stint."""
    known = pl.DataFrame(
        [
            {
                "stint": stint.number,
                "model": stint.job.model,
                "workers": len(stint.gpus),
                "batch_size": stint.batch_size,
                "ideal_ps": stint.job.profile(len(stint.gpus), stint.batch_size).period_ps,
            }
            for stint in stints
        ],
        schema=_STINT_COLUMNS,
    )
    count = pl.col("count")
    return (
        rows.join(known, on="stint", how="left", maintain_order="left")
        .select(
            "job",
            "model",
            "workers",
            "batch_size",
            "iteration",
            "count",
            _seconds("start_ps").alias("start_s"),
            _seconds("end_ps").alias("end_s"),
            ((pl.col("duration_ps") + pl.col("delayed_ps")) / count / 1e12).alias("iteration_s"),
            _seconds("ideal_ps").alias("ideal_s"),
            (_seconds("communication_ps") / count).alias("communication_s"),
            (_seconds("delayed_ps") / count).alias("delayed_s"),
            "marks",
        )
        .cast(ITERATIONS)
    )


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


def _decision(number: int, record: DecisionRecord) -> dict[str, Any]:
    chosen = record.verdict.chosen
    scores = None if chosen is None else chosen.candidates
    return {
        "decision": number,
        "at_s": record.time_ps / 1e12,
        "reason": record.reason,
        "jobs": record.jobs,
        "waiting": record.waiting,
        "candidates": len(record.verdict.decision.candidates),
        "discarded": None if scores is None else sum(each.score is None for each in scores),
        "chosen": 0 if chosen is None else chosen.candidate,
        "own_score": None if scores is None else scores[0].score,
        "score": None if chosen is None or scores is None else scores[chosen.candidate].score,
        "moved": list(record.moved),
        "why": _why(record),
    }


def _why(record: DecisionRecord) -> str:
    """The notes of the scheduler and of what its suffixes add, as JSON.

    A user's own class may note values that JSON cannot represent; they are written as text.
    """
    verdict = record.verdict
    notes = {
        "scheduler": dict(verdict.decision.why),
        "cassini": None if verdict.chosen is None else verdict.chosen.why,
        "crux": None if verdict.routed is None else verdict.routed.why,
        "monkeytree": None if verdict.migrations is None else verdict.migrations.why,
    }
    return json.dumps(notes, ensure_ascii=False, default=str)


def _link_scores(number: int, record: DecisionRecord) -> list[dict[str, Any]]:
    return [
        {
            "decision": number,
            "link": score.name,
            "jobs_before": list(score.jobs_before),
            "before": score.before,
            "jobs": list(score.jobs),
            "after": score.after,
        }
        for score in (() if record.verdict.chosen is None else record.verdict.chosen.links)
    ]


def _links(rows: pl.DataFrame, network: Network, ended_ps: int) -> pl.DataFrame:
    """The links by display name, with their utilisation."""
    rates = pl.DataFrame(network.links, schema={"link": pl.String, "rate_bps": pl.Int64}, orient="row")
    # Ctrl-C may end a run at time 0.
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
