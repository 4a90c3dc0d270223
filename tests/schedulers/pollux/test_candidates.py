"""Which GPUs jobs get, and relabelings that are worth the same."""

from random import Random

from hocket.schedulers import Cluster
from hocket.schedulers.pollux.allocation import Row, gpus_by_job, row_of
from hocket.schedulers.pollux.candidates import EqualAllocations


def cluster(racks: int, servers: int, gpus: int) -> Cluster:
    """Racks of so many servers with so many GPUs each."""
    server_of = tuple(server for server in range(racks * servers) for _ in range(gpus))
    names = tuple(f"g{gpu}" for gpu in range(len(server_of)))
    hosts = tuple(f"s{server}" for server in server_of)
    return Cluster(names, hosts, server_of, tuple(server // servers for server in range(racks * servers)))


def sample(
    cluster: Cluster, before: dict[str, Row], after: dict[str, Row], count: int
) -> list[dict[str, Row]]:
    """Up to `count` allocations worth the same as `after`."""
    return EqualAllocations(cluster, before, after).sample(count, Random(1))


def test_a_row_that_stays_keeps_its_gpus_and_others_keep_what_they_can() -> None:
    servers_of_two = cluster(racks=1, servers=3, gpus=2)
    before = {"stays": (1,), "grows": (2, 5), "moves": (0,), "waits": ()}
    rows: dict[str, Row] = {
        "stays": ((0, 1),),
        "grows": ((1, 2), (2, 1)),
        "moves": ((2, 1),),
        "waits": ((0, 1),),
    }
    given = gpus_by_job(servers_of_two, before, rows)
    assert given == {"stays": (1,), "grows": (2, 3, 5), "moves": (4,), "waits": (0,)}
    assert {job: row_of(servers_of_two, gpus) for job, gpus in given.items()} == rows


def test_two_jobs_over_two_racks_have_two_placements_that_differ() -> None:
    # Two servers in each of two racks: each job in a rack, both jobs in both racks, and nothing else.
    before: dict[str, Row] = {"a": (), "b": ()}
    after: dict[str, Row] = {"a": ((0, 1), (1, 1)), "b": ((2, 1), (3, 1))}
    assert len(sample(cluster(2, 2, 1), before, after, 10)) == 2


def test_a_job_that_runs_on_stays_in_every_candidate() -> None:
    before: dict[str, Row] = {"a": ((0, 1), (2, 1)), "b": ()}
    after: dict[str, Row] = {"a": ((0, 1), (2, 1)), "b": ((1, 1), (3, 1))}
    found = sample(cluster(3, 2, 1), before, after, 10)
    assert found[0] == after
    # b shares both racks, or one, with a; or none.
    assert sorted(len({server // 2 for server, _ in each["b"]} & {0, 1}) for each in found) == [0, 1, 2]
    assert all(each["a"] == before["a"] for each in found)


def test_a_job_that_restarts_does_not_come_back_to_where_it_runs() -> None:
    before: dict[str, Row] = {"a": ((0, 1),), "b": ((1, 1),)}
    after: dict[str, Row] = {"a": ((1, 1),), "b": ((0, 1),)}
    for each in sample(cluster(2, 2, 1), before, after, 10):
        assert each["a"] != before["a"]
        assert each["b"] != before["b"]


def test_nothing_moves_where_nothing_changed() -> None:
    rows: dict[str, Row] = {"a": ((0, 1), (2, 1)), "b": ()}
    assert sample(cluster(2, 2, 1), rows, rows, 10) == [rows]


def test_servers_keep_what_they_can_hold_and_at_most_one_distributed_job() -> None:
    before: dict[str, Row] = {"a": ((0, 1), (2, 1)), "b": (), "c": (), "d": ()}
    after: dict[str, Row] = {"a": before["a"], "b": ((1, 1), (3, 1)), "c": ((0, 1),), "d": ((4, 2),)}
    found = sample(cluster(3, 2, 2), before, after, 50)
    assert len(found) > 2
    for rows in found:
        for server in range(6):
            here = [(job, workers) for job, row in rows.items() for at, workers in row if at == server]
            assert sum(workers for _, workers in here) <= 2
            assert sum(len(rows[job]) > 1 for job, _ in here) <= 1
        for job, row in rows.items():
            assert sorted(workers for _, workers in row) == sorted(workers for _, workers in after[job])
