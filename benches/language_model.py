"""Measures one iteration of GPT-3 on 1,024 and on 16,384 GPUs, from prompt to prompt, with its peak memory.

python benches/language_model.py
"""

import os
import sys
import tempfile
import time
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples" / "training"
RUNS = 3


def main() -> None:
    """Prints the fastest of a few runs of each plan."""
    for name in ("llm_1024", "llm_16384"):
        wall_s, processor_s, peak_mb = min(run(EXAMPLES / f"{name}.toml") for _ in range(RUNS))
        print(f"{name}: {wall_s:.2f} s, {processor_s:.2f} s of processor time, {peak_mb:,.0f} MB")


def run(plan: Path) -> tuple[float, float, float]:
    """Wall time and processor time of `hocket run`, in seconds, and its peak memory in megabytes."""
    with tempfile.TemporaryDirectory() as directory:
        arguments = [sys.executable, "-m", "hocket", "run", str(plan), "--out", f"{directory}/run"]
        began_s = time.perf_counter()
        devnull = os.open(os.devnull, os.O_WRONLY)
        actions = [(os.POSIX_SPAWN_DUP2, devnull, 1)]
        process = os.posix_spawn(sys.executable, arguments, os.environ, file_actions=actions)
        # Unlike `resource.getrusage`, this is about one process and not about the largest so far.
        _, status, usage = os.wait4(process, 0)
        wall_s = time.perf_counter() - began_s
        os.close(devnull)
    if status:
        raise SystemExit(f"{plan}: exit code {os.waitstatus_to_exitcode(status)}")
    return wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    main()
