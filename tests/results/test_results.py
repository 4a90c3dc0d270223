"""The results of a run: tables with typed columns, a manifest that describes the run, and files read back."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import hocket
from hocket import InputError, Run, _hocket, parse_plan, simulate
from hocket.results import RunWriter

TEXT, COUNT, REAL = pl.String, pl.UInt64, pl.Float64
COLUMNS = {
    "iterations": {
        "job": TEXT,
        "iteration": COUNT,
        "start_s": REAL,
        "end_s": REAL,
        "iteration_s": REAL,
        "communication_s": REAL,
        "compute_s": REAL,
        "delayed_s": REAL,
    },
    "phases": {
        "job": TEXT,
        "iteration": COUNT,
        "phase": pl.UInt32,
        "start_s": REAL,
        "end_s": REAL,
        "bytes": COUNT,
        "mean_rate_bps": REAL,
    },
    "rates": {"job": TEXT, "start_s": REAL, "rate_bps": COUNT},
    "links": {"link": TEXT, "job": TEXT, "bytes": COUNT, "utilisation": REAL, "busy_s": REAL},
    "adjustments": {"job": TEXT, "at_s": REAL, "deviation_s": REAL, "delay_s": REAL},
    "jobs": {
        "job": TEXT,
        "iterations": COUNT,
        "mean_iteration_s": REAL,
        "p50_iteration_s": REAL,
        "p90_iteration_s": REAL,
        "p99_iteration_s": REAL,
        "mean_communication_s": REAL,
        "mean_delayed_s": REAL,
        "time_shift_s": REAL,
        "adjustments": COUNT,
        "policy_acted": COUNT,
    },
}

PLAN: dict[str, Any] = {
    "name": "two halves",
    "seed": 5,
    "link": {"capacity": "50 Gbps"},
    "run": {"iterations": 20, "record_rates_until": "1 s"},
    "jobs": [
        {
            "name": name,
            "period": "180 ms",
            "up": [{"start": "0 ms", "duration": "90 ms", "rate": "40 Gbps"}],
            "jitter": 0.1,
            "time_shift": "5 ms",
            "readjust": True,
        }
        for name in ("a", "b")
    ],
}


@pytest.fixture(scope="module")
def run() -> Run:
    return simulate(PLAN)


def test_every_table_has_its_columns_with_their_types_even_when_empty(run: Run) -> None:
    assert {name: dict(table.schema) for name, table in run.tables.items()} == COLUMNS
    empty = simulate({**PLAN, "run": {"until": "1 ps"}})
    assert empty.tables["iterations"].is_empty()
    assert empty.tables["jobs"]["p99_iteration_s"].to_list() == [None, None], (
        "nothing to take a percentile of"
    )
    assert {name: dict(table.schema) for name, table in empty.tables.items()} == COLUMNS


def test_tables_agree_with_each_other(run: Run) -> None:
    iterations, phases, jobs = (run.tables[name] for name in ("iterations", "phases", "jobs"))
    assert iterations.height == phases.height == jobs["iterations"].sum() == 40
    lasted_s = iterations["end_s"] - iterations["start_s"]
    assert (lasted_s - iterations["iteration_s"]).abs().max() == pytest.approx(0, abs=1e-12)
    mean_s = iterations.group_by("job", maintain_order=True).agg(pl.col("iteration_s").mean()).sort("job")
    assert mean_s["iteration_s"].to_list() == pytest.approx(jobs["mean_iteration_s"].to_list())
    assert run.tables["links"]["bytes"].sum() == phases["bytes"].sum() == 40 * 450_000_000
    assert max(run.tables["rates"]["start_s"]) <= 1.0


def test_tables_convert_to_pyarrow_with_the_same_values(run: Run) -> None:
    for table in run.tables.values():
        arrow = table.to_arrow()
        assert arrow.column_names == table.columns
        assert arrow.to_pylist() == table.to_dicts()


def test_the_manifest_describes_the_run_with_all_defaults_and_their_sources(run: Run) -> None:
    manifest = run.manifest
    assert set(manifest) == {
        "hocket_version",
        "ignored",
        "not_recorded",
        "jobs_per_queue",
        "engine",
        "plan_sha256",
        "status",
        "seed",
        "candidate",
        "simulated_s",
        "run_s",
        "peak_rss_mb",
        "counts",
        "plan",
    }
    assert (manifest["hocket_version"], manifest["engine"]) == (hocket.__version__, "flow")
    assert (manifest["status"], manifest["seed"], manifest["candidate"]) == ("complete", 5, None)
    assert manifest["simulated_s"] == max(run.tables["iterations"]["end_s"])
    assert 0 < manifest["run_s"] < 60
    assert manifest["peak_rss_mb"] > 10
    counts = manifest["counts"]
    assert counts["iterations"] == 40
    assert counts["events"] >= counts["reallocations"] > 0
    assert counts["rates"] >= run.tables["rates"].height
    assert counts["time_shift_adjustments"] == run.tables["adjustments"].height
    defaults = {each["key"]: each for each in manifest["plan"]["defaults"]}
    assert defaults["link.priority_queues"]["value"] == 8
    assert all(each["source"] for each in defaults.values())


def test_the_resolved_plan_of_the_manifest_runs_with_the_same_results(run: Run) -> None:
    resolved = json.loads(json.dumps(run.manifest["plan"]))
    del resolved["defaults"]
    for job in resolved["jobs"]:
        del job["profiles"]
    again = simulate(parse_plan(resolved))
    assert all(again.tables[name].equals(run.tables[name]) for name in run.tables)


def test_a_run_that_is_written_and_read_back_is_the_same(run: Run, tmp_path: Path) -> None:
    directory = run.write(tmp_path / "deep" / "down")
    again = Run.read(str(directory))
    assert again.manifest == run.manifest
    assert set(again.tables) == set(run.tables)
    assert all(again.tables[name].equals(run.tables[name]) for name in run.tables)
    assert not again.interrupted


def test_writing_again_into_the_same_directory_replaces_the_run(run: Run, tmp_path: Path) -> None:
    run.write(tmp_path)
    shorter = simulate({**PLAN, "run": {"iterations": 2}})
    assert Run.read(shorter.write(tmp_path)).tables["iterations"].height == 4


@pytest.mark.parametrize("manifest", [None, "", "{", "[]", "3", "{}", "\x00"])
def test_a_directory_without_a_complete_manifest_is_not_a_run(
    run: Run, tmp_path: Path, manifest: str | None
) -> None:
    run.write(tmp_path)
    (tmp_path / "manifest.json").unlink()
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest, encoding="utf-8")
    with pytest.raises(InputError, match="is not a run"):
        Run.read(tmp_path)


def test_a_directory_with_a_damaged_or_missing_table_is_not_a_run(run: Run, tmp_path: Path) -> None:
    run.write(tmp_path)
    (tmp_path / "phases.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(InputError, match="is not a run"):
        Run.read(tmp_path)
    (tmp_path / "phases.parquet").unlink()
    with pytest.raises(InputError, match=r"is not a run.*phases"):
        Run.read(tmp_path)


def test_a_directory_that_cannot_be_created_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file/below: cannot be written: Not a directory"):
        run.write(tmp_path / "file" / "below")


def batch(*values: int) -> "dict[str, _hocket._Column]":
    codes = np.arange(len(values), dtype="<u4").tobytes()
    sizes = np.array(values, dtype="<u8").tobytes()
    return {
        "link": {"dtype": "<u4", "buffer": codes, "dictionary": [f"port {value}" for value in values]},
        "bytes": {"dtype": "<u8", "buffer": sizes, "dictionary": None},
    }


def test_batches_of_rows_become_one_table(tmp_path: Path) -> None:
    with RunWriter(tmp_path) as writer:
        writer.append("ports", batch(3, 1))
        writer.append("pauses", batch(7))
        writer.append("ports", batch(2))
        run = writer.finish({"status": "complete"})
    assert list(run.tables) == ["ports", "pauses"]
    assert run.tables["ports"].schema == {"link": TEXT, "bytes": COUNT}
    assert run.tables["ports"].rows() == [("port 3", 3), ("port 1", 1), ("port 2", 2)]
    assert run.manifest == {"status": "complete"}
    assert json.loads((tmp_path / "manifest.json").read_text())["tables"] == {"ports": 3, "pauses": 1}


def test_an_unfinished_run_is_not_a_run_but_its_rows_can_be_read(tmp_path: Path, run: Run) -> None:
    run.write(tmp_path)

    def stopped() -> None:
        with RunWriter(tmp_path) as writer:
            writer.append("ports", batch(5))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    with pytest.raises(InputError, match="is not a run"):
        Run.read(tmp_path)
    assert pl.read_parquet(tmp_path / "ports.parquet")["bytes"].to_list() == [5]
    assert not (tmp_path / "iterations.parquet").exists()


def test_a_run_with_an_older_format_of_tables_is_refused(tmp_path: Path, run: Run) -> None:
    run.write(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest.pop("format") == 2
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "hocket_version": "0.1.0"}))
    said = f"{tmp_path}: is not a run: its tables have format 1, of Hocket 0.1.0; this version reads format 2"
    with pytest.raises(InputError, match=re.escape(said)):
        Run.read(tmp_path)


@pytest.mark.parametrize("tables", [None, [], 3, {"../secret": 1}])
def test_a_manifest_without_names_of_tables_is_not_that_of_a_run(
    run: Run, tmp_path: Path, tables: object
) -> None:
    run.write(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps({"status": "complete", "tables": tables}))
    with pytest.raises(InputError, match="does not list the tables"):
        Run.read(tmp_path)
