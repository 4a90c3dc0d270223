"""Runs a checked plan: builds the input of the flow or packet engine and returns its results."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hocket.engines.run import Progress, simulate

__all__ = ["Progress", "simulate"]


def __getattr__(name: str) -> Any:
    # On first use: a run needs the libraries of tables and files, other modules of this package do not.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hocket.engines import run

    return getattr(run, name)
