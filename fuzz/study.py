"""Coverage-guided fuzzing of HPCC-style studies: any bytes as one file are a study or an `InputError`."""

import os
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["hocket"]):
    from hocket import InputError
    from hocket.hpcc import load_study, standalone_ns

# Files in memory: a parser is faster than a disk.
SCRATCH = Path("/dev/shm")
EXAMPLE = Path(__file__).parent.parent / "tests" / "hpcc" / "data" / "two2one-hpcc"
FILES = ("config.txt", "topology.txt", "flow.txt")


def read_study(data: bytes) -> None:
    """Reads `data` after its first byte, which chooses the file, in a study whose other files are valid; each
    flow of an accepted study must have a standalone time.
    """
    directory = SCRATCH / f"hocket-fuzz-{os.getpid()}"
    directory.mkdir(exist_ok=True)
    for name in FILES:
        (directory / name).write_bytes((EXAMPLE / name).read_bytes())
    (directory / FILES[data[0] % 3 if data else 0]).write_bytes(data[1:])
    try:
        study = load_study(directory / "config.txt")
    except InputError:
        return
    assert len(standalone_ns(study)) == len(study.flows.sport)


if __name__ == "__main__":
    atheris.Setup(sys.argv, read_study)
    atheris.Fuzz()
