"""Profiles a job from the series of a byte counter.

The series is read and cleaned (`counters`), its iterations are found and followed (`period`), folded into one
(`fold`) and divided into phases (`phases`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from hocket.profiling.counters import CounterSeries, Unit, read_counters
from hocket.profiling.fold import Fold
from hocket.profiling.job import CounterEvidence, JobProfile, UpPhase
from hocket.profiling.period import Iterations, find_iterations, fold_iterations
from hocket.profiling.phases import Segment, explained_with, find_segments

# If the highest rate exceeds the lowest by a smaller share of itself than this, the phases may be a beat of
# the sampling.
FULL_CONTRAST = 0.3
# If the periods of the two halves of the series differ by this share, they are not those of one job.
DRIFT_LIMIT = 0.1
# A phase keeps its shape in the fold if it lasts this many standard deviations of the iterations' lengths.
RESOLVED_JITTER = 4.0
# With fewer readings per iteration than this, different phases can give the same readings.
RESOLVED_READINGS = 12.0


def profile_counters(
    source: str | Path | pl.DataFrame,
    *,
    column: str | None = None,
    unit: Unit | None = None,
    wrap_bits: Literal[32, 64] | None = None,
    lifespan_s: float | None = None,
    interface: str | None = None,
    name: str | None = None,
) -> JobProfile:
    """Profiles the job whose traffic a NIC counted.

    `source` is a CSV file or a frame with a time column and a byte counter:

    - Time is in `time_s`, `time_ms`, `time_us`, `time_ns` or `timestamp`. A timestamp is a date or a number
      of seconds; if it counts from 1970, it may also be in ms, us or ns.
    - The counter is `column`, by default the first of `tx_bytes`, `rx_bytes`, `port_xmit_data`,
      `port_rcv_data` and node_exporter's `node_infiniband_port_data_transmitted_bytes_total`.
    - `unit` follows from the counter's name: `port_*_data` count words of 4 octets (`words4`), others bytes.
    - A counter that falls has wrapped at `wrap_bits`. By default, it has wrapped at 32 bits if the increase
      is then an ordinary one; otherwise it was reset.
    - A value repeated within `lifespan_s` (mlx5: 0.01) is a cached reading. By default, the lifespan is
      estimated from the series.
    - `interface` chooses the rows of one port by a column `interface`, `device`, `dev` or `port`.
    - `name` is the job's name, by default that of the interface or the file.

    Iterations must be at least four readings long and be seen three times. Rates are those of the counter,
    which includes headers and all other traffic of the port. Takes O(n log n) for n readings.

    Source: CASSINI (NSDI'24) takes iteration time and link utilisation from NIC port counters. Folding is the
    epoch folding of Leahy et al., Astrophysical Journal 266 (1983), extended to iterations that jitter.

    Raises:
        hocket.errors.InputError: The input cannot be read, or it has no period.

    >>> import numpy as np, polars as pl
    >>> time_s = np.arange(0.0, 20.0, 0.01)
    >>> iteration, phase_s = np.divmod(time_s, 0.18)
    >>> busy_s = iteration * 0.06 + np.minimum(phase_s, 0.06)
    >>> frame = pl.DataFrame({"time_s": time_s, "tx_bytes": (busy_s * 30e9 / 8).astype(np.int64)})
    >>> profile = profile_counters(frame, name="a")
    >>> print(f"{profile.period_s:.3f} s, {profile.phases[0].rate_bps / 1e9:.1f} Gbps")
    0.180 s, 30.0 Gbps
    """
    series = read_counters(
        source, column=column, unit=unit, wrap_bits=wrap_bits, lifespan_s=lifespan_s, interface=interface
    )
    if name is None:
        name = interface or (series.column if isinstance(source, pl.DataFrame) else Path(source).stem)
    return profile_series(series, name)


def profile_series(series: CounterSeries, name: str) -> JobProfile:
    """Profiles the job `name` whose traffic `series` counts; see `profile_counters`."""
    iterations = find_iterations(series)
    fold = fold_iterations(series, iterations)
    period_s = iterations.period_s
    segments = find_segments(
        fold, iterations.explained, series.interval_s / period_s, iterations.spread_s / period_s
    )
    return assemble(name, series, iterations, fold, from_longest_rest(segments))


def from_longest_rest(segments: list[Segment]) -> list[Segment]:
    """The segments, rotated to begin after the longest one that is not Up."""
    # Where one iteration ends is a convention. This one keeps every phase within one iteration.
    longest = max(range(len(segments)), key=lambda index: (not segments[index].up, segments[index].length))
    first = (longest + 1) % len(segments)
    return segments[first:] + segments[:first]


def assemble(
    name: str, series: CounterSeries, iterations: Iterations, fold: Fold, segments: list[Segment]
) -> JobProfile:
    """The profile, in seconds and bits/s; its iterations start with the first of `segments`."""
    period_s = iterations.period_s
    origin = segments[0].start
    phases = tuple(
        UpPhase(
            ((segment.start - origin) % 1.0) * period_s,
            segment.length * period_s,
            segment.share_bytes * 8 / period_s,
        )
        for segment in segments
        if segment.up
    )
    bins = fold.bin_bytes.size
    turned = round(origin * bins)
    starts_s = iterations.start_s[:-1] + origin * np.diff(iterations.start_s)
    return JobProfile(
        name=name,
        period_s=period_s,
        phases=phases,
        bytes_per_iteration=float(fold.bin_bytes.sum()),
        confidence=confidence(series, iterations, fold, segments),
        iterations_seen=int(iterations.seen.sum()),
        jitter_s=iterations.spread_s,
        iteration_start_s=starts_s[iterations.seen],
        evidence=CounterEvidence(
            time_s=series.time_s,
            rate_bps=np.diff(series.total_bytes) * 8 / np.diff(series.time_s),
            fold_s=((np.arange(bins) + 0.5 + turned) / bins - origin) % 1.0 * period_s,
            fold_rate_bps=np.roll(fold.bin_bytes, -turned) * 8 * bins / period_s,
        ),
    )


def confidence(series: CounterSeries, iterations: Iterations, fold: Fold, segments: list[Segment]) -> float:
    """The confidence of the profile, in [0, 1]; see `JobProfile`."""
    heights = [segment.share_bytes for segment in segments]
    contrast = (max(heights) - min(heights)) / max(max(heights), 1e-300)
    edges = np.sort(np.array([segment.start for segment in segments]))
    constant_rates = explained_with(fold, edges)
    first_s, second_s = iterations.halves_s
    drift = abs(first_s - second_s) / iterations.period_s
    shortest_s = min(segment.length for segment in segments) * iterations.period_s
    factors = (
        min(iterations.explained, constant_rates),
        # Two of the iterations determine period and phase; the others confirm them.
        1.0 - 2.0 / int(iterations.seen.sum()),
        contrast / FULL_CONTRAST,
        1.0 - drift / DRIFT_LIMIT,
        # In a segment shorter than a reading or the jitter, length and rate cannot be separated.
        shortest_s / max(series.interval_s, RESOLVED_JITTER * iterations.spread_s),
        iterations.period_s / (RESOLVED_READINGS * series.interval_s),
    )
    return float(np.prod(np.clip(factors, 0.0, 1.0)))
