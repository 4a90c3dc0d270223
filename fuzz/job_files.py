"""Coverage-guided fuzzing of files that jobs leave: any bytes are a profile or an `InputError`."""

import os
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["hocket"]):
    from hocket import InputError, parse_plan
    from hocket.profiling.prometheus import profile_prometheus
    from hocket.profiling.sources import profile
    from hocket.profiling.timelines.chakra import profile_chakra
    from hocket.profiling.timelines.inspector import profile_inspector

# A file in memory: a parser is faster than a disk.
SCRATCH = Path("/dev/shm")
RATE = "10 Gbps"
# The highest rate of a plan, and a period that microseconds resolve.
FASTEST_BPS = 10**15
SHORTEST_S = 1e-3
READERS = (
    profile_prometheus,
    lambda path: profile_inspector(path, rate=RATE),
    lambda path: profile_chakra(path, rate=RATE),
    profile,
    lambda path: profile(path, name="job"),
)


def read_file(data: bytes) -> None:
    """Reads `data` after its first byte, which chooses the reader; a profile must be a job of a plan."""
    path = SCRATCH / f"hocket-fuzz-{os.getpid()}.0.et"
    path.write_bytes(data[1:])
    try:
        job_profile = READERS[data[0] % len(READERS) if data else 0](path)
    except InputError:
        return
    assert 0 <= job_profile.confidence <= 1
    rates_bps = [phase.rate_bps for phase in job_profile.phases]
    # Garbage may be faster than any link, or shorter than what a plan's times resolve.
    if job_profile.period_s >= SHORTEST_S and all(rate_bps <= FASTEST_BPS for rate_bps in rates_bps):
        parse_plan({"link": {"capacity": f"{FASTEST_BPS} bps"}, "jobs": [job_profile.to_job()]})


if __name__ == "__main__":
    atheris.Setup(sys.argv, read_file)
    atheris.Fuzz()
