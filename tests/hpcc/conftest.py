"""Studies to read: those of the reference simulator, and one that tests change a file or a key of."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hocket.hpcc import Study, load_study


@pytest.fixture
def data() -> Path:
    """Inputs and results of two runs of the reference simulator."""
    return Path(__file__).parent / "data"


@pytest.fixture
def study_with(data: Path, tmp_path: Path) -> Callable[..., Study]:
    """Loads the incast study from `tmp_path`, whose files may be written over first, with some keys changed,
    or left out where the value is None."""
    for name in ("topology.txt", "flow.txt"):
        (tmp_path / name).write_bytes((data / "incast8-dcqcn" / name).read_bytes())
    settings = (data / "incast8-dcqcn" / "config.txt").read_text().splitlines()

    def load(**changes: str | None) -> Study:
        kept = [line for line in settings if line.split()[0] not in changes]
        added = [f"{key} {value}" for key, value in changes.items() if value is not None]
        path = tmp_path / "config.txt"
        path.write_text("\n".join(kept + added))
        return load_study(path)

    return load
