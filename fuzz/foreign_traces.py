"""Coverage-guided fuzzing of public traces of GPU clusters: any bytes are jobs or an `InputError`."""

import os
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["hocket"]):
    from hocket import InputError
    from hocket.cluster.trace import parse_trace

# A file in memory: a parser is faster than a disk.
SCRATCH = Path("/dev/shm")
FORMATS = ("philly", "helios", "pai", "pollux", "gavel")


def read_jobs(data: bytes) -> None:
    """Reads `data` after its first byte, which chooses the format, as a trace of another cluster."""
    file = SCRATCH / f"hocket-fuzz-{os.getpid()}.trace"
    file.write_bytes(data[1:])
    table = {"file": str(file), "format": FORMATS[data[0] % len(FORMATS)] if data else "philly"}
    try:
        trace = parse_trace({"fabric": {"testbed": "cassini"}, "import": [table]})
    except InputError:
        return
    for job in trace.jobs:
        assert job.requested in job.sizes
        assert job.samples >= job.requested * job.batch_size


if __name__ == "__main__":
    atheris.Setup(sys.argv, read_jobs)
    atheris.Fuzz()
