"""Coverage-guided fuzzing of NIC counters: any bytes in a CSV file are a profile or an `InputError`."""

import os
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["hocket"]):
    from hocket import InputError, parse_plan
    from hocket.profiling import profile_counters

# A file in memory: a parser is faster than a disk.
SCRATCH = Path("/dev/shm")
# The highest rate of a plan, and a period that microseconds resolve.
FASTEST_BPS = 10**15
SHORTEST_S = 1e-3


def read_counters(data: bytes) -> None:
    """Reads `data` as a series of counters; a profile found in it must be valid as a job of a plan."""
    path = SCRATCH / f"hocket-fuzz-{os.getpid()}.csv"
    path.write_bytes(data)
    try:
        profile = profile_counters(path)
    except InputError:
        return
    # Garbage may be faster than any link, or shorter than what a plan's times resolve.
    if profile.period_s >= SHORTEST_S and all(phase.rate_bps <= FASTEST_BPS for phase in profile.phases):
        parse_plan({"link": {"capacity": f"{FASTEST_BPS} bps"}, "jobs": [profile.to_job()]})


if __name__ == "__main__":
    atheris.Setup(sys.argv, read_counters)
    atheris.Fuzz()
