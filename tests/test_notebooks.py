"""The notebooks of the examples run from their first cell to their last, and show tables and pictures."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))
SHOWN = {"first_steps": {"compat", "simulate", "shift", "profile", "twin", "cluster-run"}}
"""By notebook, the cells whose result is one of Hocket's."""
_SECONDS = 300


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: path.stem)
def executed(request: pytest.FixtureRequest) -> tuple[str, Any]:
    """The name of a notebook, and the notebook with the outputs of a run in its own directory."""
    path: Path = request.param
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
    )
    return path.stem, client.execute()


def html_of(cell: Any) -> str:
    return "".join(output.get("data", {}).get("text/html", "") for output in cell.get("outputs", ()))


def test_every_cell_of_a_notebook_runs(executed: tuple[str, Any]) -> None:
    _, notebook = executed
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert [output for cell in cells for output in cell.outputs if output.output_type == "error"] == []


def test_results_are_shown_as_tables_with_pictures(executed: tuple[str, Any]) -> None:
    name, notebook = executed
    pages = {cell.id: html_of(cell) for cell in notebook.cells}
    shown = {cell: page for cell, page in pages.items() if 'class="hocket"' in page}
    assert shown.keys() == SHOWN[name]
    for page in shown.values():
        assert "<table>" in page
        assert "<svg " in page
        assert len(page) < 200_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_committed_without_outputs(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    assert [cell.id for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []


def test_the_first_notebook_shows_what_a_time_shift_does(executed: tuple[str, Any]) -> None:
    name, notebook = executed
    assert name == "first_steps"
    pages = {cell.id: html_of(cell) for cell in notebook.cells}
    assert "234.00" in pages["simulate"]
    assert "234.00" not in pages["shift"]
    assert "180.00" in pages["shift"]
