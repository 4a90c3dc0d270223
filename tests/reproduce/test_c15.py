"""C15, C16, C18 and C20 at a smaller size."""

from pathlib import Path

import numpy as np
import pytest
from tests.reproduce.conftest import quiet

from hocket.cluster.trace import load_trace, parse_trace
from hocket_reproduce.targets import c15, c18
from hocket_reproduce.targets.cluster import (
    POLLUX,
    RANDOM,
    RANDOM_FABRIC,
    TH_CASSINI,
    THEMIS,
    Outcomes,
    outcome,
    outcomes,
    overlaid,
    pooled,
)
from hocket_reproduce.targets.setting import Tables

EXAMPLES = Path(__file__).parents[2] / "examples" / "cluster"


@pytest.fixture(scope="module")
def mixed() -> Outcomes:
    return outcomes(c15.MIXED, [THEMIS, TH_CASSINI, POLLUX], quiet, seeds=[1])


@pytest.mark.parametrize(
    ("tables", "name"),
    [
        (c15.MIXED, "dynamic"),
        (c15.MODEL_PARALLEL, "dynamic_model_parallel"),
        (c18.TWO_GPUS, "two_gpus"),
    ],
)
def test_the_traces_are_those_of_the_examples(tables: Tables, name: str) -> None:
    example, ours = load_trace(EXAMPLES / f"{name}.toml"), parse_trace(tables)
    assert ours.jobs == example.jobs
    assert ours.network.links == example.network.links
    assert ours.until_s == example.until_s


@pytest.mark.parametrize(
    ("tables", "changes"),
    [
        *((c15.MIXED, each) for each in c15.MIXED_READINGS.values()),
        *((c15.MODEL_PARALLEL, each) for each in c15.MODEL_PARALLEL_READINGS.values()),
        *((c18.TWO_GPUS, each) for each in c18.READINGS.values()),
    ],
)
def test_every_reading_changes_the_trace_and_keeps_drawn_places(tables: Tables, changes: Tables) -> None:
    usual, changed = (parse_trace(overlaid(tables, each)).resolved() for each in ({}, changes))
    assert changed != usual
    assert changed["themis"]["placement"] == "drawn"


def test_cassini_chooses_a_placement_in_which_dlrm_shares_no_link(mixed: Outcomes) -> None:
    (themis,), (with_cassini,) = mixed[THEMIS.name], mixed[TH_CASSINI.name]
    assert themis.marks("DLRM") > 1_000
    assert with_cassini.marks("DLRM") == 0
    assert with_cassini.marks() < themis.marks() / 2
    assert 1 <= with_cassini.slowdown < themis.slowdown


def test_resnet50_has_fewer_marks_than_the_other_models(mixed: Outcomes) -> None:
    (pollux,) = mixed[POLLUX.name]
    others = set(pollux.iterations["model"]) - {"ResNet50"}
    assert 0 < pollux.marks("ResNet50") < np.mean([pollux.marks(model) for model in others])


def test_marks_by_iteration_average_to_those_of_the_model(mixed: Outcomes) -> None:
    samples = pooled(mixed, [THEMIS], c15.marks_per_iteration("CamemBERT"))[THEMIS.name]
    (themis,) = mixed[THEMIS.name]
    assert samples.size == themis.of_model("CamemBERT")["count"].sum()
    assert samples.mean() == pytest.approx(themis.marks("CamemBERT"))


def test_without_any_marks_left_there_is_no_factor(mixed: Outcomes) -> None:
    dlrm = c15.marks_row(mixed, THEMIS, TH_CASSINI, "DLRM", 27)
    assert (dlrm.paper, dlrm.ours) == ("27×", "none left")
    assert "and 0 per iteration" in dlrm.comment
    assert c15.marks_row(mixed, THEMIS, TH_CASSINI, "VGG19").ours == "none in either"


def test_dlrm_contends_with_xlm_and_never_fills_a_link_with_resnet50() -> None:
    xlm, resnet50 = (outcome(c18.instant(model), TH_CASSINI, 1) for model in ("XLM", "ResNet50"))
    assert xlm.shared > 0.3
    assert xlm.slowdown > 1.1
    assert xlm.marks("DLRM") > 1_000
    assert resnet50.slowdown == pytest.approx(1, abs=0.001)
    assert resnet50.marks("DLRM") == 0


def test_every_quantity_of_the_two_gpu_target_appears_once_and_differences_are_explained() -> None:
    reproduction = c18.reproduce(quiet, seeds=[1])
    quantities = [each.quantity for each in reproduction.rows]
    assert len(set(quantities)) == len(quantities)
    assert [each.quantity for each in reproduction.rows if each.differs and not each.comment] == []


def test_on_a_full_cluster_cassini_spares_dlrm_most_of_its_marks() -> None:
    random, chosen = (outcome(c15.FULL, each, 1) for each in (RANDOM, RANDOM_FABRIC))
    assert chosen.marks("DLRM") < random.marks("DLRM")
    assert chosen.slowdown < random.slowdown
    assert sum(job.requested for job in parse_trace(c15.FULL).jobs) == 24
