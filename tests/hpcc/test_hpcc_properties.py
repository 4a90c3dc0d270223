"""What holds for all studies: anything is read or refused, and what was written is what is read."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.errors import InputError
from hocket.hpcc import Study, load_study, standalone_ns

FILES = ("config.txt", "topology.txt", "flow.txt")
REFERENCE = Path(__file__).parent / "data" / "two2one-hpcc"
CLOCK = 2**63 - 1


def read(files: dict[str, bytes]) -> None:
    """Reads a study of these files; one that is accepted has to be usable."""
    with tempfile.TemporaryDirectory() as directory:
        for name in FILES:
            content = files.get(name, (REFERENCE / name).read_bytes())
            Path(directory, name).write_bytes(content)
        with suppress(InputError):
            study = load_study(Path(directory, "config.txt"))
            assert len(study.flows.sport) == len(study.flows) > 0
            assert not study.topology.is_switch[study.flows.src].any()


@settings(deadline=None)
@given(st.sampled_from(FILES), st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_anything_is_read_or_refused(name: str, content: bytes) -> None:
    read({name: content})


@st.composite
def damaged(draw: st.DrawFn, name: str) -> bytes:
    """A file of the reference with some of its words replaced, repeated or missing, and perhaps cut off."""
    lines = [line.split() for line in (REFERENCE / name).read_text().splitlines()]
    words = st.sampled_from(["0", "1", "-1", "2", "3", "9", "1e30", "nan", "50Gbps", "1ms", "x", "#", "{"])
    for _ in range(draw(st.integers(1, 4))):
        line = draw(st.sampled_from(lines))
        place = draw(st.integers(0, len(line)))
        line[place : place + draw(st.integers(0, 2))] = draw(
            st.lists(words | st.text(max_size=3), max_size=2)
        )
    text = "\n".join(map(" ".join, lines)).encode()
    return text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text


@settings(deadline=None)
@given(st.sampled_from(FILES).flatmap(lambda name: st.tuples(st.just(name), damaged(name))))
def test_a_damaged_study_is_read_or_refused(file: tuple[str, bytes]) -> None:
    read(dict([file]))


@dataclass(frozen=True)
class Written:
    """A study as it is to be read: switches, links and flows."""

    switches: list[int]
    hosts: list[int]
    links: list[tuple[int, int, int, int]]
    flows: list[tuple[int, int, int, int, int, int]]


@st.composite
def studies(draw: st.DrawFn) -> Written:
    """Hosts and switches in any numbering: the switches form a tree, each host is linked to one of them."""
    numbers = draw(st.permutations(range(draw(st.integers(3, 12)))))
    cut = draw(st.integers(1, len(numbers) - 2))
    switches, hosts = list(numbers[:cut]), list(numbers[cut:])
    rates, delays = st.integers(1, 10**12), st.integers(0, 10**9)
    pairs = [(node, draw(st.sampled_from(switches[:index]))) for index, node in enumerate(switches) if index]
    pairs += [(draw(st.sampled_from(switches)), host) for host in hosts]
    links = [(a, b, draw(rates), draw(delays)) for a, b in pairs]
    flow = st.tuples(
        *(st.sampled_from(hosts), st.sampled_from(hosts), st.integers(1, 7)),
        *(st.integers(0, 65535), st.integers(1, CLOCK // 2), st.integers(0, CLOCK)),
    ).filter(lambda values: values[0] != values[1])
    return Written(switches, hosts, links, draw(st.lists(flow, min_size=1, max_size=8)))


def load(written: Written) -> Study:
    """Writes the study down and reads it."""
    flows = [
        f"{src} {dst} {priority} {port} {size} {start // 10**12}.{start % 10**12:012d}"
        for src, dst, priority, port, size, start in written.flows
    ]
    links = [f"{a} {b} {rate}bps {delay}ps 0" for a, b, rate, delay in written.links]
    nodes = len(written.switches) + len(written.hosts)
    settings = (REFERENCE / "config.txt").read_text()
    files = {
        "config.txt": [settings.replace("QCN 1", "QCN 0").replace("BUFFER_SIZE 32", "BUFFER_SIZE 1048576")],
        "topology.txt": [
            f"{nodes} {len(written.switches)} {len(links)}",
            " ".join(map(str, written.switches)),
            *links,
        ],
        "flow.txt": [str(len(flows)), *flows],
    }
    with tempfile.TemporaryDirectory() as directory:
        for name, lines in files.items():
            Path(directory, name).write_text("\n".join(lines))
        return load_study(Path(directory, "config.txt"))


@settings(deadline=None)
@given(studies())
def test_what_is_written_is_what_is_read(written: Written) -> None:
    study = load(written)
    topology, flows = study.topology, study.flows
    columns = (topology.a, topology.b, topology.rate_bps, topology.delay_ps)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == written.links
    rows = (flows.src, flows.dst, flows.priority, flows.dport, flows.bytes, flows.start_ps)
    assert list(zip(*(column.tolist() for column in rows), strict=True)) == written.flows
    assert list(study.switch_ids) == written.switches
    assert topology.host_ids == tuple(sorted(written.hosts))
    assert study.ignored == study.config.ignored


@settings(deadline=None)
@given(studies())
def test_each_node_numbers_its_interfaces_from_one(written: Written) -> None:
    topology = load(written).topology
    numbers: dict[int, list[int]] = {}
    for nodes, interfaces in zip((topology.a, topology.b), topology.interfaces, strict=True):
        for node, number in zip(nodes.tolist(), interfaces.tolist(), strict=True):
            numbers.setdefault(node, []).append(number)
    for node, found in numbers.items():
        assert sorted(found) == list(range(1, len(topology.neighbours[node]) + 1))


@settings(deadline=None)
@given(studies())
def test_standalone_time_follows_the_only_path_of_a_tree(written: Written) -> None:
    def path(node: int, end: int, before: int) -> list[tuple[int, int]] | None:
        if node == end:
            return []
        for a, b, rate, delay in written.links:
            peer = b if a == node else a
            if node in (a, b) and peer != before:
                rest = path(peer, end, node)
                if rest is not None:
                    return [(rate, delay), *rest]
        return None

    for flow, found in zip(written.flows, standalone_ns(load(written)).tolist(), strict=True):
        src, dst, _, _, size, _ = flow
        links = path(src, dst, src)
        assert links
        wire = size + -(-size // 1000) * 48
        expected = sum(2 * (delay // 1000) + 8 * 10**12 // rate for rate, delay in links)
        expected += wire * 8 * 10**9 // min(rate for rate, _ in links)
        assert found == min(expected, CLOCK)
