"""The catalogue: names, the DLRM of HOTI'22 to the byte, and the papers' measured iteration times."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hocket.errors import InputError
from hocket.training.catalogue import ENTRIES, catalogue_frame, find_entry, workload
from hocket.training.degrees import Parallel
from hocket.training.workload import Operation
from hocket.workloads import CATALOGUE, profile

MIB = 2**20
PS_PER_BYTE_AT_50_GBPS = 160  # 8 bits at 20 ps each

MEASURED = [entry for entry in ENTRIES.values() if entry.measured is not None]


DOCUMENT = Path(__file__).parents[2] / "docs" / "model.md"


def total(program: tuple[Operation, ...], kind: str) -> int:
    return sum(each.bytes for each in program if each.kind == kind)


def test_all_13_models_of_nsdi24_table_3_are_there() -> None:
    assert {find_entry(name).name.replace("-", "") for name in CATALOGUE} == set(CATALOGUE)


def test_the_documented_table_is_the_catalogue() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    for row in catalogue_frame().iter_rows(named=True):
        compute_ms = row["compute_ms"]
        shown = (
            row["model"],
            f"{row['parameters'] / 1e6:,.1f}",
            row["batch_size"],
            row["gpu"],
            f"{compute_ms:,.1f}" if compute_ms >= 1 else f"{compute_ms:.3f}",
            f"{row['all_reduce_bytes'] / 1e6:,.1f}",
            f"{row['all_to_all_bytes'] / 1e6:,.1f}",
        )
        assert f"| {' | '.join(map(str, shown))} |" in document


@pytest.mark.parametrize("name", ENTRIES)
def test_every_model_has_a_workload_without_further_settings(name: str) -> None:
    found = workload(name, gpus=8)
    assert len(found.ranks) == 8
    assert all(each.duration_ps >= 0 and each.bytes >= 0 for each in found.programs[0])


def test_dlrm_of_hoti22_reduces_109_5_mb_and_exchanges_8_mb() -> None:
    (program,) = workload("DLRM (HOTI'22)", gpus=128).programs
    assert total(program, "all-reduce") == 57_411_584 * 2 == pytest.approx(109.5 * MIB, rel=1e-4)
    exchanged = [each.bytes for each in program if each.kind == "all-to-all"]
    # 512 samples × 64 tables × 64 values × 2 bytes, forward and backward.
    assert exchanged == [4 * MIB, 4 * MIB]


def test_the_all_to_all_of_dlrm_overlaps_with_the_bottom_mlp(replay: Callable[..., list[Any]]) -> None:
    executed = replay(workload("DLRM (HOTI'22)", gpus=2))
    starts = {each.operation.name: each.start_ps for each in executed}
    ends = {each.operation.name: each.end_ps for each in executed}
    assert starts["embedding forward all-to-all"] == ends["embedding forward"] == starts["bottom1 forward"]
    assert starts["interaction forward"] == ends["bottom7 forward"]
    assert starts["embedding backward all-to-all"] == starts["bottom7 input gradient"]


def test_all_to_alls_and_all_reduces_of_dlrm_do_not_queue_behind_each_other() -> None:
    found = workload("DLRM (HOTI'22)", gpus=4)
    slots = {each.kind: each.communicator for each in found.programs[0] if each.kind != "compute"}
    assert slots["all-to-all"] != slots["all-reduce"]
    assert found.groups == ((0, 1, 2, 3), (0, 1, 2, 3))


@pytest.mark.parametrize("gpus", [1, 2, 5])
@pytest.mark.parametrize("name", ["DLRM", "DLRM (HOTI'22)"])
def test_every_gpu_of_a_dlrm_finishes_its_iteration(
    replay: Callable[..., list[Any]], name: str, gpus: int
) -> None:
    found = workload(name, gpus=gpus)
    executed = replay(found, ps_per_byte=1)
    assert len(executed) == gpus * len(found.programs[0])
    # All iterations take the same time: every GPU has as many rows to look up, however many tables there are.
    assert len({each.end_ps for each in executed if each.operation.name == "update"}) == 1


def test_products_take_most_of_dlrms_compute_on_a_v100() -> None:
    (program,) = workload("DLRM (HOTI'22)", gpus=128).programs
    computing_ms = sum(each.duration_ps for each in program) / 1e9
    # 3 × 2 × 57.4 · 10⁶ weights × 512 samples at 40% of 125 TFLOP/s are 3.53 ms; tables of 4 MiB × 60 rows
    # are read once forward and read and written backward at 5/6 of 900 GB/s, 1.0 ms; activations and weights
    # the rest.
    products_ms = 6 * 57_411_584 * 512 / (0.4 * 125e12) * 1e3
    rows_ms = 3 * 60 * 4 * MIB / (900e9 * 5 / 6) * 1e3
    assert products_ms + rows_ms < computing_ms < 1.2 * (products_ms + rows_ms)


@pytest.mark.parametrize("entry", MEASURED, ids=lambda entry: entry.name)
def test_a_measured_models_iteration_is_as_long_as_its_profile(
    replay: Callable[..., list[Any]], entry: Any
) -> None:
    # Two workers on an idle network: a ring all-reduce sends its buffer once. Of BERT and RoBERTa gradients
    # of the first block are still under way when those of the embedding are ready.
    executed = replay(workload(entry.name, gpus=2), PS_PER_BYTE_AT_50_GBPS)
    end_ps = max(each.end_ps for each in executed)
    period_ps = profile(entry.measured, entry.batch_size, 2).period_ps
    assert end_ps == pytest.approx(period_ps, rel=0.03)


def test_a_measured_model_computes_longer_with_a_larger_batch() -> None:
    computed = [
        sum(each.duration_ps for each in workload("VGG16 (NSDI'24)", gpus=2, batch_size=size).programs[0])
        for size in (1200, 1300, 1400, 1700)
    ]
    assert all(before < after for before, after in pairwise(computed))


def test_a_faster_gpu_computes_in_less_time() -> None:
    times = [
        sum(each.duration_ps for each in workload("GPT-2", gpus=1, gpu=gpu).programs[0])
        for gpu in ("V100", "A100", "H100")
    ]
    assert times[0] > times[1] > times[2]


def test_data_is_loaded_before_the_first_layer() -> None:
    halves = Parallel(tensor=2)
    (program,) = workload("GPT-3 (NSDI'24 Fig 1c)", gpus=2, parallel=halves, loading_ps=7).programs
    assert (program[0].name, program[0].duration_ps, program[1].after) == ("data loading", 7, (0,))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("VGG-17", {}, "'VGG-17' is not a model of the catalogue; did you mean VGG19 or VGG16 or VGG11?"),
        ("VGG16", {"gpu": "P100"}, "gpu: 'P100' is not a GPU of the catalogue; known: V100, A100, H100"),
        ("VGG16 (NSDI'24)", {"gpu": "V100"}, "gpu: VGG16 (NSDI'24) was measured on A100, not on V100"),
        (
            "VGG16 (NSDI'24)",
            {"loading_ps": 1},
            "loading: the measured iterations of VGG16 (NSDI'24) include their wait for input",
        ),
        (
            "VGG16 (NSDI'24)",
            {"batch_size": 4},
            "4 is outside the catalogue's batch sizes for VGG16, 512 to 1800",
        ),
        (
            "VGG16 (NSDI'24)",
            {"parallel": Parallel(pipeline=2)},
            "parallel: VGG16 (NSDI'24) was measured data parallel, without tensor or pipeline",
        ),
        ("GPT-2", {"microbatches": 5}, "microbatches: a batch of 32 does not divide into 5"),
        (
            "DLRM",
            {"parallel": Parallel(tensor=2)},
            "parallel: tensor = 2: must be 1, as DLRM only splits its tables over all GPUs",
        ),
        ("DLRM", {"parallel": Parallel(data=2)}, "parallel: data = 2: must be 4, all GPUs, for DLRM"),
        (
            "DLRM",
            {"microbatches": 2},
            "microbatches = 2: must be 1, as DLRM only splits its tables over all GPUs",
        ),
        ("DLRM", {"batch_size": 0}, "batch_size: 0 is below 1"),
    ],
)
def test_an_impossible_training_is_refused_with_the_reason(
    name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        workload(name, gpus=4, **options)
    assert str(caught.value) == message
