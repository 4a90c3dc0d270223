"""Runs a study on the packet engine; writes its simulator's output files, and our tables and manifest."""

import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import polars as pl

from hocket import _hocket
from hocket.errors import InputError, SelfCheckError, located
from hocket.hpcc.config import QueueMonitor
from hocket.hpcc.outputs import write_completions, write_pauses
from hocket.hpcc.parameters import (
    REFERENCE,
    Fidelity,
    Parameters,
    model_parameters,
    policy_parameters,
    window_parameters,
)
from hocket.hpcc.study import Study
from hocket.hpcc.topology import IntArray, Topology
from hocket.plan.parameters import described, values
from hocket.results import Run, RunWriter, frame, peak_rss_mb
from hocket.results.run import MANIFEST
from hocket.results.times import in_ps
from hocket.text_inputs import NANOSECOND_PS
from hocket.units import LARGEST

Progress = Callable[[float, int, int], object]
"""Progress callback, called from time to time with simulated seconds, flows completed, and flows in total."""


def run_study(
    study: Study,
    directory: str | Path,
    *,
    seed: int = 1,
    fidelity: Fidelity = REFERENCE,
    progress: Progress | None = None,
) -> Run:
    """Runs `study`. Writes to `directory` the completion times and the PFC frames, in files named by the
    settings, one Parquet file per table, and the manifest.

    Tables are written during the run. Ctrl-C ends the run early and keeps the recorded rows. The manifest's
    `status` is `complete`, `interrupted` by Ctrl-C, or `stopped` if SIMULATOR_STOP_TIME ended the run before
    all flows were complete. The same study, fidelity and seed always give the same tables.

    Raises `InputError` for a study that the engine cannot run, and `SelfCheckError` if a self-check fails:
    the rows recorded by then are kept, with the status `failed`.
    """
    config = study.config
    # Before the run, which may take hours.
    _check_names(study)
    with located(config.path):
        policy, window = policy_parameters(config), window_parameters(config)
    parameters = [*policy, *window, *model_parameters(config, fidelity)]
    with RunWriter(directory) as writer:
        recorder = _Recorder(writer, config.queue_monitor)
        started = time.perf_counter()
        ran, failure = _simulate(study, fidelity, parameters, seed, recorder, progress)
        run_s = time.perf_counter() - started
        recorder.add_empty()
        manifest = _manifest(study, fidelity, seed, parameters, run_s)
        run = writer.finish({**manifest, **_outcome(ran, failure, values(policy)["policy"])})
    _write_outputs(study, run, Path(directory))
    if failure is not None:
        raise SelfCheckError(f"{config.path}: {failure}")
    return run


def peak_queue_bytes(study: Study, run: Run) -> int:
    """The longest queue of any switch port during `run`; 0 if nothing was sent."""
    ports = run.tables["ports"]
    sender = ports["link"].str.split("->").list.first().cast(pl.Int64)
    of_switches = ports.filter(sender.is_in(study.switch_ids))
    return max(of_switches["peak_bytes"].to_list(), default=0)


class _Recorder:
    """Writes the rows of a run to its files, those of sampled queues only until the monitor's end.

    The engine samples queues until the end of the run.
    """

    def __init__(self, writer: RunWriter, monitor: QueueMonitor | None) -> None:
        self._writer = writer
        sampled = {} if monitor is None else _hocket.table_schemas("packet", ["queues"])
        self._sampled = frozenset(sampled)
        self._missing = _hocket.table_schemas("packet", ["events"]) | sampled
        self._end_ps = LARGEST if monitor is None else monitor.end_ps

    def add(self, name: str, columns: "Mapping[str, _hocket._Column]") -> None:
        if name in self._sampled:
            times = frame({"at_s": columns["at_s"]}).select(in_ps("at_s"))["at_s"].to_numpy()
            columns = _first_rows(columns, int(np.searchsorted(times, self._end_ps, side="right")))
        self._missing.pop(name, None)
        self._writer.append(name, columns)

    def add_empty(self) -> None:
        """Writes empty files for the tables without rows, so that readers always find them."""
        for name, columns in self._missing.items():
            self._writer.append_frame(name, frame(columns))


def _first_rows(columns: "Mapping[str, _hocket._Column]", rows: int) -> "dict[str, _hocket._Column]":
    return {
        name: {**column, "buffer": column["buffer"][: rows * np.dtype(column["dtype"]).itemsize]}
        for name, column in columns.items()
    }


def _simulate(
    study: Study,
    fidelity: Fidelity,
    parameters: Parameters,
    seed: int,
    recorder: _Recorder,
    progress: Progress | None,
) -> tuple["_hocket._PacketRunResult | None", str | None]:
    """The counts of the run, or the message of the self-check that failed: one of the two is `None`."""
    chosen = values(parameters)
    with located(study.config.path):
        try:
            ran = _hocket.simulate_packets(
                _fabric(study.topology),
                chosen,
                [chosen],
                [(chosen["window"], 0)],
                _flow_columns(study),
                _message_columns(study, fidelity),
                _failures(study),
                _options(study, chosen["longest_rtt_for_all"], seed),
                recorder.add,
                _in_seconds(progress),
            )
        except _hocket.SelfCheckError as error:
            return None, str(error)
    return ran, None


def _check_names(study: Study) -> None:
    """Refuses output names that are names of Hocket's own files."""
    config = study.config
    for key, name in (("FCT_OUTPUT_FILE", config.fct_file), ("PFC_OUTPUT_FILE", config.pfc_file)):
        if name == PurePosixPath(MANIFEST) or name.suffix == ".parquet":
            raise InputError(f"{config.path}: {key}: {str(name)!r} is the name of one of Hocket's own files")


def _fabric(topology: Topology) -> _hocket.Fabric:
    """The fabric, with nodes named by their numbers, so that links are named `8->0`."""
    nodes: list[tuple[str, _hocket._NodeKind]] = [
        (str(node), "switch" if is_switch else "host")
        for node, is_switch in enumerate(topology.is_switch.tolist())
    ]
    columns = (topology.a, topology.b, topology.rate_bps, topology.delay_ps)
    cables: list[_hocket._Cable] = [
        {"a": a, "b": b, "rate_bps": rate_bps, "delay_ps": delay_ps}
        for a, b, rate_bps, delay_ps in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return _hocket.Fabric(nodes, cables)


def _flow_columns(study: Study) -> "_hocket._FlowColumns":
    flows = study.flows
    # All flows have the only policy and the only window that `_simulate` passes.
    index = np.zeros(len(flows), dtype=np.int64)
    return {
        "from_node": _buffer(flows.src),
        "to_node": _buffer(flows.dst),
        # The simulators hash the ports as one word, with source and destination swapped on the reverse path.
        "forward_label": _buffer(flows.sport | flows.dport << 16),
        "reverse_label": _buffer(flows.dport | flows.sport << 16),
        "priority": _buffer(flows.priority),
        "policy": _buffer(index),
        "window": _buffer(index),
    }


def _message_columns(study: Study, fidelity: Fidelity) -> "_hocket._MessageColumns":
    flows = study.flows
    start_ps = flows.start_ps
    # The simulators' clock has whole nanoseconds.
    if fidelity.arithmetic == "reference":
        start_ps = (start_ps + NANOSECOND_PS // 2) // NANOSECOND_PS * NANOSECOND_PS
    return {
        "flow": _buffer(np.arange(len(flows), dtype=np.int64)),
        "bytes": _buffer(flows.bytes),
        "start_ps": _buffer(start_ps),
    }


def _buffer(column: IntArray) -> bytes:
    return column.astype("<i8").tobytes()


def _options(study: Study, longest_rtt_for_all: bool, seed: int) -> "_hocket._PacketOptions":
    stop_ps, monitor = study.config.stop_ps, study.config.queue_monitor
    return {
        "seed": seed,
        "until_ps": None if stop_ps >= LARGEST else stop_ps,
        "sample_every_ps": None if monitor is None else monitor.interval_ps,
        # The simulators' ECMP hash: with another, flows would take other paths than in the recorded runs.
        "hash": "murmur3",
        "longest_rtt_for_all": longest_rtt_for_all,
        # The monitor records queues only.
        "record_rates": False,
        "record_utilisation": False,
    }


def _in_seconds(progress: Progress | None) -> Callable[[int, int, int | None], object]:
    def report(time_ps: int, done: int, total: int | None) -> None:
        if progress is not None and total is not None:
            progress(time_ps / 1e12, done, total)

    return report


def _failures(study: Study) -> list[tuple[int, int]]:
    """(time in ps, link) of each cable that fails; the engine also fails the link of the other direction."""
    down, topology = study.config.link_down, study.topology
    if down is None:
        return []
    ends = ((topology.a == down.a) & (topology.b == down.b)) | (
        (topology.a == down.b) & (topology.b == down.a)
    )
    # The links of cable k are 2 k, from `a` to `b`, and 2 k + 1 back.
    return [(down.time_ps, 2 * cable) for cable in np.flatnonzero(ends).tolist()]


def _manifest(
    study: Study, fidelity: Fidelity, seed: int, parameters: Parameters, run_s: float
) -> dict[str, Any]:
    return {
        "hocket_version": version("hocket"),
        "engine": "packet",
        "study": str(study.config.path),
        "fidelity": fidelity.name,
        "seed": seed,
        "run_s": run_s,
        "peak_rss_mb": peak_rss_mb(),
        "flows": len(study.flows),
        "ignored": [each._asdict() for each in study.ignored],
        "parameters": described(parameters),
    }


def _outcome(ran: "_hocket._PacketRunResult | None", failure: str | None, policy: str) -> dict[str, Any]:
    if ran is None:
        return {"status": "failed", "failure": failure}
    counters = dict(ran["counters"])
    return {
        "status": ran["status"],
        "simulated_s": ran["ended_ps"] / 1e12,
        # The time of the engine alone replaces that of `_manifest`, which includes writing tables.
        "run_s": ran["run_s"],
        "packet_hops": counters.pop("packet_hops"),
        "events": counters.pop("events"),
        "counts": counters | {"rate_cuts": {policy: sum(ran["counters"]["rate_cuts"])}},
    }


def _write_outputs(study: Study, run: Run, directory: Path) -> None:
    """Writes the output files of the study's simulator."""
    config = study.config
    completions = run.tables["flows"].select("flow", fct_ps=in_ps("end_s") - in_ps("start_s"))
    # A PAUSE for a link stops the link's sender, so the sender is the node that receives it.
    node, interface = _ends(study.topology)
    link = run.tables["pauses"]["link"]
    received = run.tables["pauses"].select(
        time_ps=in_ps("at_s"),
        node=link.replace_strict(node, return_dtype=pl.Int64),
        interface=link.replace_strict(interface, return_dtype=pl.Int64),
        is_pause=pl.col("pause"),
    )
    try:
        for name in (config.fct_file, config.pfc_file):
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
        write_completions(directory / config.fct_file, study, completions.cast(pl.Int64))
        write_pauses(directory / config.pfc_file, study.topology, received.cast(pl.Int64))
    except OSError as error:
        raise InputError(f"{directory}: cannot be written: {error.strerror}") from None


def _ends(topology: Topology) -> tuple[dict[str, int], dict[str, int]]:
    """The sending node of each directed link, by name, and the number of its interface there."""
    nodes = np.column_stack((topology.a, topology.b)).ravel().tolist()
    interfaces = np.column_stack(topology.interfaces).ravel().tolist()
    names = [name for name, _ in _fabric(topology).links()]
    return dict(zip(names, nodes, strict=True)), dict(zip(names, interfaces, strict=True))
