"""Coverage-guided fuzzing of plans: any bytes in a .toml or .json file are a plan or an `InputError`."""

import os
import sys
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["hocket", "tomllib", "json"]):
    from hocket import InputError, load_plan

# A file in memory: a parser is faster than a disk.
SCRATCH = Path("/dev/shm")


def read_plan(data: bytes) -> None:
    """Reads `data` after its first byte, which chooses the format, as a plan."""
    suffix = "json" if data[:1] < b"\x80" else "toml"
    path = SCRATCH / f"hocket-fuzz-{os.getpid()}.{suffix}"
    path.write_bytes(data[1:])
    with suppress(InputError):
        # What is accepted must also fit into a manifest.
        load_plan(path).resolved()


if __name__ == "__main__":
    atheris.Setup(sys.argv, read_plan)
    atheris.Fuzz()
