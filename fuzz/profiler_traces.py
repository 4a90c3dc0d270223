"""Coverage-guided fuzzing of profiler traces: any bytes as Kineto's JSON or as a database of Nsight Systems
are a profile or an `InputError`.
"""

import os
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["hocket"]):
    from hocket import InputError, parse_plan
    from hocket.profiling.timelines import profile_timeline, read_kineto, read_nsight

# A file in memory: a parser is faster than a disk.
SCRATCH = Path("/dev/shm")
READERS = (read_kineto, read_nsight)
# The highest rate of a plan, and a period that microseconds resolve.
FASTEST_BPS = 10**15
SHORTEST_S = 1e-3


def read_trace(data: bytes) -> None:
    """Reads `data` after its first byte, which chooses the reader; a profile must be a job of a plan."""
    path = SCRATCH / f"hocket-fuzz-{os.getpid()}.trace"
    path.write_bytes(data[1:])
    try:
        profile = profile_timeline(READERS[data[0] % len(READERS) if data else 0](path), rate="10 Gbps")
        job = profile.to_job()
    except InputError:
        return
    assert 0 <= profile.confidence <= 1
    # Garbage may be faster than any link, or shorter than what a plan's times resolve.
    if profile.period_s >= SHORTEST_S and all(phase.rate_bps <= FASTEST_BPS for phase in profile.phases):
        parse_plan({"link": {"capacity": f"{FASTEST_BPS} bps"}, "jobs": [job]})


if __name__ == "__main__":
    atheris.Setup(sys.argv, read_trace)
    atheris.Fuzz()
