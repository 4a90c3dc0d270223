"""No module imports itself through others; `make lint` checks the folders and their layers."""

from itertools import pairwise

import grimp
import pytest


def circles(graph: grimp.ImportGraph) -> list[str]:
    """The cycles of imports, each as its path."""
    found = []
    for importer in sorted(graph.modules):
        for imported in sorted(graph.find_modules_directly_imported_by(importer)):
            back = graph.find_shortest_chain(imported, importer)
            if back is not None:
                found.append(" -> ".join((importer, *back)))
    return found


def test_no_module_imports_itself_through_others() -> None:
    graph = grimp.build_graph("hocket", "hocket_agent", "hocket_reproduce", cache_dir=None)
    # An import from the root is that of the compiled module, which is not a Python file.
    for importer in graph.find_modules_that_directly_import("hocket"):
        graph.remove_import(importer=importer, imported="hocket")
    assert circles(graph) == []


@pytest.mark.parametrize("length", [2, 3, 5])
def test_a_cycle_of_any_length_is_found(length: int) -> None:
    graph = grimp.ImportGraph()
    ring = [f"file_{number}" for number in range(length)]
    for module in (*ring, "outside"):
        graph.add_module(module)
    for importer, imported in pairwise([*ring, ring[0]]):
        graph.add_import(importer=importer, imported=imported)
    graph.add_import(importer="outside", imported=ring[0])
    assert circles(graph)[0] == " -> ".join([*ring, ring[0]])
    assert len(circles(graph)) == length
