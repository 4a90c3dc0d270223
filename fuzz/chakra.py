"""Coverage-guided fuzzing of Chakra traces: any bytes as files of ranks are a workload or an `InputError`."""

import os
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["hocket"]):
    from hocket import InputError
    from hocket.training.chakra import Roofline, read_chakra

# Files in memory: a parser is faster than a disk.
SCRATCH = Path("/dev/shm")
ROOFLINE = Roofline(peak_flops=10**12, memory_bytes_per_s=10**12)


def read_traces(data: bytes) -> None:
    """Reads `data` after its first byte as the file of rank 0; that byte ÷ 255 is the share of it that is
    also the file of rank 1, 0 for no such file.
    """
    share, content = (data[0], data[1:]) if data else (0, b"")
    files = [SCRATCH / f"hocket-fuzz-{os.getpid()}.{rank}.et" for rank in range(2 if share else 1)]
    for file, length in zip(files, (len(content), len(content) * share // 255), strict=False):
        file.write_bytes(content[:length])
    try:
        workload = read_chakra(files, roofline=ROOFLINE)
    except InputError:
        return
    for rank in workload.ranks:
        for place, operation in enumerate(workload.programs[rank.program]):
            assert all(after < place for after in operation.after)
            assert operation.kind == "compute" or operation.communicator < len(rank.communicators)


if __name__ == "__main__":
    atheris.Setup(sys.argv, read_traces)
    atheris.Fuzz()
