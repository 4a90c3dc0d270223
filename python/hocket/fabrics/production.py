"""The network of a production cluster, from a file with the switches above each server."""

import csv
import re
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

from hocket.errors import InputError
from hocket.fabrics.topology import Cable, Topology, built
from hocket.units import format_rate, shown

MAX_SERVERS = 100_000
"""The limit on servers in a file: about a hundred times the 847 of the one published file."""

_COLUMNS = ("ip", "DSW", "PSW", "ASW")
# `hocket_scenario::MAX_RATE`, checked here so that the message can name the two groups.
_FASTEST_BPS = 10**15
_DIGITS = re.compile(r"(\d+)")
_Place = tuple[str, str, str]


def lingjun(
    path: Path, *, gpus_per_server: int, nic_bps: int, oversubscription: float, delay_ps: int
) -> Topology:
    """The tree in the CSV file at `path`: `ip, DSW, PSW, ASW` of each server (alibaba-lingjun-dataset-2023).

    The file names groups of switches, and each group is one node here. ASWs below different PSWs share names,
    so an ASW's node is called `P10/S14`; it is below `P10`, which is below `G6`. Servers are `s0`, … in the
    order of their switches, then of the file. The file has no rates: the rate of a group's one uplink is the
    sum of the rates below it ÷ `oversubscription`, rounded down.

    Raises `InputError` with line, column and value if the file is not such a table.
    """
    # The file is in no order. Sorted, servers with consecutive numbers are below the same switches, as in
    # `shapes`, so that a job on `s0` to `s7` is as local as the network allows.
    places = sorted(_read(path), key=_in_order)
    nics: list[Cable] = []
    psw_of: dict[str, str] = {}
    dsw_of: dict[str, str] = {}
    below_bps: dict[str, int] = {}
    for number, (dsw, psw, asw) in enumerate(places):
        access = f"{psw}/{asw}"
        psw_of[access] = psw
        if dsw_of.setdefault(psw, dsw) != dsw:
            raise InputError(
                f"{path}: the PSW {shown(psw)} is below two DSWs, {shown(dsw_of[psw])} and {shown(dsw)}"
            )
        below_bps[access] = below_bps.get(access, 0) + gpus_per_server * nic_bps
        server = f"s{number}"
        gpus = [server] if gpus_per_server == 1 else [f"{server}:{gpu}" for gpu in range(gpus_per_server)]
        nics += [Cable((gpu, access), nic_bps, delay_ps) for gpu in gpus]
    _check_names(path, (psw_of, dsw_of, dsw_of.values(), (nic.ends[0] for nic in nics)))
    trunks: list[Cable] = []
    # ASWs before PSWs: the sum below a PSW is complete only once each of its ASWs has its uplink.
    for group, above in (*psw_of.items(), *dsw_of.items()):
        # A huge `oversubscription` must not round to 0, which is no valid rate of a link.
        rate_bps = max(int(below_bps[group] // Fraction(oversubscription)), 1)
        if rate_bps > _FASTEST_BPS:
            raise InputError(
                f"{path}: the link from {group} to {above} would have {format_rate(rate_bps)}, "
                f"above the limit of {format_rate(_FASTEST_BPS)}; lower nic or raise oversubscription"
            )
        below_bps[above] = below_bps.get(above, 0) + rate_bps
        trunks.append(Cable((group, above), rate_bps, delay_ps))
    return built(nics, trunks)


def _read(path: Path) -> list[_Place]:
    try:
        # Spreadsheets begin UTF-8 files with a byte order mark, which would become part of the name `ip`.
        # Without `strict`, an unterminated quote turns the rest of the file into one field.
        with path.open(encoding="utf-8-sig", newline="") as file:
            return list(_places(path, csv.reader(file, strict=True)))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a CSV table: {error}") from None


def _places(path: Path, lines: Iterable[list[str]]) -> Iterable[_Place]:
    header: list[str] | None = None
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if header is None:
            header = line
            missing = [column for column in _COLUMNS if column not in header]
            if missing:
                raise InputError(
                    f"{path}: line 1: has no column {missing[0]}; required are {', '.join(_COLUMNS)}"
                )
            columns = [header.index(column) for column in _COLUMNS]
            continue
        # Checked line by line, so that a huge file is refused before it fills the memory.
        if number > MAX_SERVERS + 1:
            raise InputError(f"{path}: has too many servers; the limit is {MAX_SERVERS:,}")
        if len(line) != len(header):
            raise InputError(
                f"{path}: line {number}: has {len(line)} columns, but the header has {len(header)}"
            )
        server, *switches = (line[column] for column in columns)
        for column, value in zip(_COLUMNS, (server, *switches), strict=True):
            # The names become names of nodes, which tables and figures print.
            if not (value.strip() and value.isprintable() and len(value) <= 100):
                raise InputError(f"{path}: line {number}: {column}: must be a name: got {shown(value)}")
        if server in seen:
            raise InputError(f"{path}: line {number}: {shown(server)} is already in line {seen[server]}")
        seen[server] = number
        dsw, psw, asw = switches
        yield dsw, psw, asw
    if not seen:
        raise InputError(f"{path}: has no server")


def _check_names(path: Path, tiers: Iterable[Iterable[str]]) -> None:
    # A name in two tiers would merge two nodes into one, and the tree would no longer be a tree.
    tier_of: dict[str, int] = {}
    for tier, names in enumerate(tiers):
        for name in names:
            if tier_of.setdefault(name, tier) != tier:
                raise InputError(f"{path}: {shown(name)} names two things: an ASW, a PSW, a DSW or a GPU")


def _in_order(place: _Place) -> list[list[tuple[int, str]]]:
    """The sort key by DSW, PSW and ASW, with numbers in names as numbers: S2 comes before S10."""
    # `split` alternates between text and digits, so text is only ever compared with text. The digits
    # themselves come second, because S01 and S1 are different names of the same number.
    return [[(int(part) if part.isdecimal() else -1, part) for part in _DIGITS.split(name)] for name in place]
