"""Coverage-guided fuzzing of SimAI's workload text: any bytes are a workload or an `InputError`."""

import os
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["hocket"]):
    from hocket import InputError
    from hocket.training.simai import read_simai

# A file in memory: a parser is faster than a disk.
SCRATCH = Path("/dev/shm")


def read_text(data: bytes) -> None:
    """Reads `data` after its first byte, which gives the number of GPUs, from 1 to 256."""
    path = SCRATCH / f"hocket-fuzz-{os.getpid()}.txt"
    path.write_bytes(data[1:])
    try:
        workload = read_simai(path, gpus=1 + data[0] if data else 1)
    except InputError:
        return
    for rank in workload.ranks:
        for place, operation in enumerate(workload.programs[rank.program]):
            assert all(after < place for after in operation.after)
            assert operation.kind == "compute" or operation.communicator < len(rank.communicators)


if __name__ == "__main__":
    atheris.Setup(sys.argv, read_text)
    atheris.Fuzz()
