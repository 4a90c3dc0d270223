"""Comparisons as tables on the terminal, as JSON, and as a section of docs/validation/engines.md."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from hocket.console import Column
from hocket.errors import InputError
from hocket.hpcc.parameters import EXACT
from hocket_reproduce.validate.comparison import (
    ALIKE,
    EXACT_TIME,
    HEAVY_TAILED,
    REMARKS,
    SAME,
    Comparison,
    Quantity,
    compare,
)
from hocket_reproduce.validate.reference import Case, Totals, read_recorded
from hocket_reproduce.validation_pages import ENGINES, renew_section

BEGIN = "<!-- packet engine: made by `hocket validate --write docs/validation.md` -->"
END = "<!-- end of packet engine -->"

HEADING = "Packet engine against an ns-3 based simulator"

SUMMARY = re.compile(
    r"(?P<agreeing>\d+) of (?P<runs>\d+) runs agree\. Over one switch, where nothing random steers, "
    r"(?P<equal>[\d,]+) of (?P<flows>[\d,]+) completion times are equal to the nanosecond"
)
"""The sentence that counts agreeing runs and completion times; the overview takes its numbers."""

HEADER = (
    "case",
    "control",
    "set",
    "flows",
    "equal to the ns",
    "mean FCT, µs",
    "max FCT, µs",
    "PAUSE frames",
    "marks",
    "peak queue, kB",
    "Mhops/s",
    "agrees",
)
"""Columns of the table: numbers are ours / recorded (difference)."""

SHORT_HEADER = (
    *("run", Column("flows", spare=2), "equal", "mean FCT", Column("max FCT", spare=1)),
    *("PAUSE", "marks", "queue", Column("Mhops/s", spare=3), "agrees"),
)
"""Columns of the table for a terminal, which has only the differences of totals with a limit."""


UNROUNDED_SEEDS = 3
"""Runs per random case without the simulator's arithmetic, whose effect is far larger than that of seeds."""


@dataclass(frozen=True)
class Unrounded:
    """A case with the simulator's arithmetic, with exact times, and with exact times and RoCEv2's frames."""

    reference: Comparison
    exact_time: Comparison
    rocev2: Comparison


@dataclass
class Validation:
    """Comparisons of the `chosen` recorded runs. All `recorded` ones, also those without inputs, are evidence
    of their simulator's faults."""

    recorded: Sequence[Case]
    chosen: Sequence[Case]
    comparisons: list[Comparison] = field(default_factory=list)
    unrounded: list[Unrounded] = field(default_factory=list)

    @classmethod
    def of(cls, directory: str | Path, names: Sequence[str]) -> Self:
        """A validation of the runs in `directory` that have inputs: those with these names of cases
        (`incast8`) or runs (`incast8/dcqcn`), or all.

        Raises `InputError` if there are none, or none with one of the names.
        """
        recorded = read_recorded(directory)
        repeatable = [case for case in recorded if case.has_inputs]
        for name in names:
            if not any(name in (case.name, case.folder) for case in repeatable):
                known = ", ".join(dict.fromkeys(case.name for case in repeatable))
                raise InputError(f"validate: {name!r} is not among the recorded runs; cases: {known}")
        chosen = [case for case in repeatable if not names or {case.name, case.folder} & set(names)]
        if not chosen:
            raise InputError(f"{directory}: none of the {len(recorded)} runs in summary.csv has a folder")
        return cls(recorded, chosen)

    def add(self, case: Case, seeds: int, *, unrounded: bool) -> None:
        """Compares `case`; if `unrounded`, one of the main set also without the simulator's arithmetic."""
        comparison = compare(case, seeds)
        self.comparisons.append(comparison)
        if unrounded and case.parameters == "main":
            few = min(seeds, UNROUNDED_SEEDS)
            without = (compare(case, few, fidelity) for fidelity in (EXACT_TIME, EXACT))
            self.unrounded.append(Unrounded(comparison, *without))

    @property
    def failed(self) -> list[Comparison]:
        """The cases beyond their limits."""
        return [each for each in self.comparisons if each.failures]


def row(comparison: Comparison) -> tuple[str, ...]:
    """One case as a row of the table."""
    case = comparison.case
    equal = f"{comparison.equal_flows:,}"
    return (
        case.name,
        case.policy,
        case.parameters,
        f"{comparison.flows:,}",
        f"{equal}, seed 1 of {comparison.seeds}" if comparison.is_random else equal,
        _both(comparison.mean_fct_ns, 1e3, 2),
        _both(comparison.max_fct_ns, 1e3, 2),
        _both(comparison.pauses),
        _both(comparison.marks),
        _both(comparison.peak_queue_bytes, 1e3, 1),
        f"{comparison.hops_per_s / 1e6:.2f} / {_speed(case)}",
        verdict(comparison),
    )


def short_row(comparison: Comparison) -> tuple[str, ...]:
    """One case as a row of the table for a terminal."""
    return (
        comparison.case.folder,
        f"{comparison.flows:,}",
        "random" if comparison.is_random else f"{comparison.equal_flows:,}",
        *(_percent(quantity) for quantity in comparison.quantities.values()),
        f"{comparison.hops_per_s / 1e6:.2f}",
        verdict(comparison),
    )


def verdict(comparison: Comparison) -> str:
    """Whether a case agrees, and the totals that do not.

    Totals beyond their limit that other seeds explain are named too.
    """
    if comparison.failures:
        return f"no: {', '.join(comparison.failures)}"
    chance = [name for name, each in comparison.quantities.items() if not each.within_limit]
    return f"yes ({', '.join(chance)} by chance)" if chance else "yes"


def as_json(comparisons: Iterable[Comparison]) -> list[dict[str, Any]]:
    """The comparisons as JSON; differences are relative, and null if only the recorded value is 0."""
    return [
        {
            "case": each.case.name,
            "control": each.case.policy,
            "set": each.case.parameters,
            "flows": each.flows,
            "equal_flows": each.equal_flows,
            "random": each.is_random,
            "seeds": each.seeds,
            "quantities": {
                name: {
                    "ours": quantity.ours,
                    "recorded": quantity.recorded,
                    "difference": quantity.difference if math.isfinite(quantity.difference) else None,
                    "limit": quantity.limit,
                    "within_limit": quantity.within_limit,
                    "may_be_chance": quantity.may_be_chance,
                }
                for name, quantity in each.quantities.items()
            },
            "hops_per_s": each.hops_per_s,
            "failures": each.failures,
        }
        for each in comparisons
    ]


def write_validation(overview: Path, validation: Validation) -> None:
    """Writes `validation` between the two markers of the engines' page behind `overview`.

    Raises `InputError` if the page cannot be read or written, or lacks a marker.
    """
    page = overview.with_suffix("") / ENGINES
    renew_section(page, BEGIN, END, lambda _: f"\n\n{markdown(validation)}\n")


def markdown(validation: Validation) -> str:
    """The section: the method and its limits, the table, and the faults of the simulator."""
    lines = [
        f"## {HEADING}",
        "",
        *_introduction(validation),
        "",
        *_table(HEADER, map(row, validation.comparisons), 3),
        "",
        "### Where the simulator is at fault",
        "",
        *_faults(validation),
        "",
        *_table(
            ("case", "control", "exact time: mean FCT", "max FCT", "and RoCEv2 frames: mean FCT", "max FCT"),
            map(_unrounded_row, validation.unrounded),
            2,
        ),
    ]
    return "\n".join(lines) + "\n"


def _introduction(validation: Validation) -> Iterator[str]:
    agreeing = len(validation.comparisons) - len(validation.failed)
    flows = sum(each.flows for each in validation.comparisons if each.limits == SAME)
    equal = sum(each.equal_flows for each in validation.comparisons if each.limits == SAME)
    yield (
        "The recorded runs are of astra-network-ns3, an ns-3 based descendant of the HPCC simulator "
        "(SIGCOMM'19). `hocket validate --reference DIR` repeats each from its own `config.txt`, with the "
        f"simulator's arithmetic (fidelity `reference`). {agreeing} of {len(validation.comparisons)} runs "
        f"agree. Over one switch, where nothing random steers, {equal:,} of {flows:,} completion times are "
        "equal to the nanosecond."
    )
    yield ""
    yield "- Cells are ours / recorded (ours ÷ recorded − 1)."
    yield (
        "- Limits over one switch, where nothing random steers: each completion time within "
        f"{SAME.flow or 0:.1%}, PAUSE frames and the longest queue of a switch's port within "
        f"{SAME.pauses:.0%}, marks within {SAME.marks:.0%} (they are drawn also where the control ignores "
        "them)."
    )
    yield (
        "- Limits over several switches, where the order of what arrives in one nanosecond decides, and "
        "where marks or PINT's encoding steer: mean and longest completion time within "
        f"{ALIKE.completion:.0%}, PAUSE frames, marks and queue within {ALIKE.marks:.0%}. Where draws steer, "
        "our mean over ten seeds is compared with the recorded mean over ten, or with the single run if "
        "others were not recorded; a larger difference counts as chance below three standard errors."
    )
    compared = {each.case.folder for each in validation.comparisons}
    for folder, why in (HEAVY_TAILED | REMARKS).items():
        if folder in compared:
            yield f"- `{folder}`: {why}."
    yield "- Marks are marked data packets that hosts received."
    yield (
        "- A packet-hop is a data packet, ACK or PAUSE frame over one link. Ours per second of wall time, "
        "theirs per second of processor time, on the same kind of machine at another time: compare "
        "factors, not percentages."
    )


def _faults(validation: Validation) -> Iterator[str]:
    yield (
        "- **Times are rounded to nanoseconds** per packet: 1,036 bytes at 200 Gb/s take 41 ns instead of "
        "41.44, so that links carry up to 2% more or less than their rate. The table below repeats the main "
        "set with exact times, then also with the frames that RoCEv2 has on a wire (fidelity `exact`); "
        "differences are from the recorded runs. The late wake-ups below are gone there too."
    )
    yield from _timely(validation.recorded)
    yield from _wake_ups(validation.recorded)
    yield (
        "- **A rate without ECN thresholds** makes it divide 0 by 0 and mark every packet. Here it is an "
        "error that names the rate."
    )


def _timely(recorded: Sequence[Case]) -> Iterator[str]:
    """The effect of TIMELY's missing time stamp, from runs of the code as shipped."""
    effects = [
        f"{case.name} {case.recorded[0].max_fct_ns / 1e6:.3g} ms instead of {main.max_fct_ns / 1e6:.3g} ms"
        for case, main in _beside_main(recorded, "tsbug")
    ]
    if effects:
        yield (
            "- **TIMELY's time stamp is never written** in the code as shipped, so that a round-trip time "
            f"reads as the time since the start of the run. Longest completion times: {', '.join(effects)}. "
            "The runs used here had the stamp restored, as in the HPCC simulator. No fidelity has the "
            "fault."
        )


def _wake_ups(recorded: Sequence[Case]) -> Iterator[str]:
    """The effect of late wake-ups, from recorded runs without them."""
    effects = [
        abs(with_it / without - 1)
        for case, main in _beside_main(recorded, "skip")
        for with_it, without in (
            (main.max_fct_ns, case.recorded[0].max_fct_ns),
            (main.mean_fct_ns, case.recorded[0].mean_fct_ns),
        )
    ]
    if effects:
        yield (
            "- **A NIC wakes up late** where a queue pair that has sent everything waits for its last ACKs: "
            "the pacing timer of the others is then not set. Against recorded runs without that, mean and "
            f"longest completion times differ by up to {max(effects):.2%}. Ours does the same only at the "
            "fidelity `reference`."
        )


def _beside_main(recorded: Sequence[Case], parameters: str) -> Iterator[tuple[Case, Totals]]:
    """The runs of a set, each with the first run of the same case and control in the main set."""
    main = {(case.name, case.policy): case.recorded[0] for case in recorded if case.parameters == "main"}
    for case in recorded:
        if case.parameters == parameters and (case.name, case.policy) in main:
            yield case, main[case.name, case.policy]


def _unrounded_row(each: Unrounded) -> tuple[str, ...]:
    return (
        each.reference.case.name,
        each.reference.case.policy,
        *(
            _percent(quantity)
            for comparison in (each.exact_time, each.rocev2)
            for quantity in (comparison.mean_fct_ns, comparison.max_fct_ns)
        ),
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield "|" + "---|" * left + "---:|" * (len(header) - left)
    for cells in rows:
        yield f"| {' | '.join(cells)} |"


def _both(quantity: Quantity, unit: float = 1.0, decimals: int = 0) -> str:
    if quantity.ours == quantity.recorded == 0:
        return "0 / 0"
    ours, recorded = (f"{value / unit:,.{decimals}f}" for value in (quantity.ours, quantity.recorded))
    return f"{ours} / {recorded} ({_percent(quantity)})"


def _percent(quantity: Quantity) -> str:
    if not math.isfinite(quantity.difference):
        return "none recorded"
    # Two signs of zero would look like two values.
    return f"{quantity.difference:+.2%}".replace("-0.00%", "+0.00%")


def _speed(case: Case) -> str:
    return "–" if math.isnan(case.hops_per_s) else f"{case.hops_per_s / 1e6:.2f}"
