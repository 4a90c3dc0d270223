"""`hocket.reproduce`: reruns figures and tables of the papers, which are in a distribution of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hocket.errors import InputError

if TYPE_CHECKING:
    from hocket_reproduce.targets import Reproduction


def reproduce(target: str, *, progress: Callable[[str], object] | None = None) -> Reproduction:
    """Reruns a figure or a table of a paper; each row of the result has the paper's value beside ours.

    `target` is an id of docs/validation.md, such as "H4", in upper or lower case; `hocket reproduce --list`
    prints all ids. Some targets take minutes. `progress` is called with a sentence at each step.

    Raises:
        hocket.errors.InputError: There is no such target, or the distribution hocket-reproduce is not
            installed.
    """
    try:
        from hocket_reproduce.targets import reproduce as rerun
    except ModuleNotFoundError as error:
        # Another missing module means that the installation of hocket-reproduce is broken.
        if error.name != "hocket_reproduce":
            raise
        raise InputError(
            "reproduce: hocket-reproduce is not installed; pip install hocket-reproduce installs it"
        ) from None
    (done,) = rerun([target], progress)
    return done
