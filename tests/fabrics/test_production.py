"""The network of a production cluster from a file with the switches above each server."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket import InputError, load_plan
from hocket.fabrics import Topology, lingjun

GBPS = 10**9
PUBLISHED = Path(__file__).parents[3] / "shared" / "traces" / "topology" / "lingjun_topo.csv"
SMALL = "ip,DSW,PSW,ASW\na,G1,P2,S1\nb,G1,P1,S10\nc,G1,P1,S2\nd,G1,P1,S2\n"


def read(path: Path, *, gpus_per_server: int = 2, oversubscription: float = 2) -> Topology:
    return lingjun(
        path,
        gpus_per_server=gpus_per_server,
        nic_bps=100 * GBPS,
        oversubscription=oversubscription,
        delay_ps=0,
    )


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.csv"
    path.write_text(SMALL)
    return path


def test_servers_are_numbered_in_the_order_of_their_switches(small: Path) -> None:
    fabric = read(small)
    assert fabric.neighbours["s0:0"] == ["P1/S2"]
    assert fabric.neighbours["s1:1"] == ["P1/S2"]
    assert fabric.neighbours["s2:0"] == ["P1/S10"], "S2 comes before S10"
    assert fabric.neighbours["s3:0"] == ["P2/S1"]
    assert fabric.tiers == {"P1/S2": 1, "P1/S10": 1, "P2/S1": 1, "P1": 2, "P2": 2, "G1": 3}


def test_each_group_has_one_uplink_with_the_given_over_subscription(small: Path) -> None:
    rates = {cable.label: cable.rate_bps // GBPS for cable in read(small).cables if "s" not in cable.ends[0]}
    assert rates == {"P1/S2-P1": 200, "P1/S10-P1": 100, "P2/S1-P2": 100, "P1-G1": 150, "P2-G1": 50}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "has no server"),
        ("ip,DSW,PSW,ASW\n", "has no server"),
        ("ip,DSW,PSW\na,G1,P1\n", "line 1: has no column ASW; required are ip, DSW, PSW, ASW"),
        (SMALL + "e,G1,P1\n", "line 6: has 3 columns, but the header has 4"),
        (SMALL + "e,G1,,S1\n", "line 6: PSW: must be a name: got ''"),
        (SMALL + "a,G1,P1,S1\n", "line 6: 'a' is already in line 2"),
        (SMALL + "e,G2,P1,S1\n", "the PSW 'P1' is below two DSWs, 'G1' and 'G2'"),
        (SMALL + "e,P1,P3,S1\n", "'P1' names two things: an ASW, a PSW, a DSW or a GPU"),
        (SMALL + 'e,"G1,P1,S1\n', "not a CSV table: unexpected end of data"),
    ],
)
def test_a_file_that_is_not_such_a_table_is_refused_with_the_line(
    tmp_path: Path, content: str, reason: str
) -> None:
    path = tmp_path / "servers.csv"
    path.write_text(content)
    with pytest.raises(InputError) as refused:
        read(path)
    assert str(refused.value) == f"{path}: {reason}"


def test_a_link_above_the_limit_is_refused(small: Path) -> None:
    with pytest.raises(InputError, match=r"from P1/S2 to P1 would have 2048 Tbps, above the limit of"):
        lingjun(small, gpus_per_server=1_024, nic_bps=10**12, oversubscription=1, delay_ps=0)


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: ("ip,DSW,PSW,ASW\n" + text).encode()))
def test_any_bytes_are_a_network_or_are_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("networks") / "servers.csv"
    path.write_bytes(content)
    assert network_or_refusal(path)


def network_or_refusal(path: Path) -> bool:
    try:
        return len(read(path).gpus) > 0
    except InputError as refused:
        return str(refused).startswith(str(path))


def test_a_plan_names_the_file_beside_it(small: Path) -> None:
    plan = small.with_name("plan.toml")
    plan.write_text(
        """
        [fabric]
        lingjun = { file = "small.csv", gpus_per_server = 2 }
        scale_up = true
        [[jobs]]
        name = "a"
        placement = ["s3", "s0"]
        training = { collective = "all-reduce", bytes = "1 MB" }
        """
    )
    found = load_plan(plan)
    assert found.hosts_of(found.jobs[0]) == ("s3:0", "s3:1", "s0:0", "s0:1")
    assert found.files() == (small,)
    small.unlink()
    with pytest.raises(InputError, match=r"fabric.lingjun.file: .*small.csv: cannot be read: No such file"):
        load_plan(plan)


@pytest.mark.skipif(
    not PUBLISHED.exists(), reason=f"{PUBLISHED.name} of alibaba-lingjun-dataset-2023 is absent"
)
def test_the_published_network_has_847_servers_below_three_groups() -> None:
    fabric = read(PUBLISHED, gpus_per_server=1)
    assert len(fabric.gpus) == 847
    assert Counter(fabric.tiers.values()) == {1: 119, 2: 3, 3: 1}
    servers = Counter(fabric.neighbours[gpu][0] for gpu in fabric.gpus)
    assert max(servers.values()) == 8, "an ASW of one PSW has at most eight"
