"""The arbiter on auctions that can be checked by hand, and against trying everything."""

import math
from collections.abc import Callable, Sequence
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.schedulers import Cluster, Span
from hocket.schedulers.themis.arbiter import Bid, best_outcome, payments
from hocket.schedulers.themis.regions import Offer, Regions

MakeCluster = Callable[[int, int, int], Cluster]
Instance = tuple[tuple[int, int, int], list[int], list[list[tuple[int, int, float]]]]

ANYWHERE = Span.RACKS


def bid(offer: Offer, needed: int, factor: float, span: Span = ANYWHERE) -> Bid:
    """A bid for `needed` GPUs within `span` that makes the valuation `factor` times as large."""
    return Bid(needed, needed, span, 1 / factor, math.log(factor), offer.regions.at(span, ()))


def stay(servers: dict[int, int], factor: float) -> Bid:
    needed = sum(servers.values())
    return Bid(needed, needed, ANYWHERE, 1 / factor, math.log(factor), (), tuple(servers.items()))


def offered(
    make_cluster: MakeCluster, shape: tuple[int, int, int], gpus: Sequence[int] | None = None
) -> Offer:
    cluster = make_cluster(*shape)
    return Offer(Regions(cluster), range(len(cluster.gpus)) if gpus is None else gpus)


def test_two_jobs_that_double_on_half_share_the_gpus(make_cluster: MakeCluster) -> None:
    offer = offered(make_cluster, (1, 1, 4))
    table = [bid(offer, 2, 2.0), bid(offer, 4, 3.0)]
    outcome = best_outcome([table, table], offer)
    # 2 × 2 = 4 is more than 3 × 1.
    assert {job: won.workers for job, (won, _) in outcome.wins.items()} == {0: 2, 1: 2}
    assert math.exp(outcome.gain) == pytest.approx(4.0)
    assert outcome.proven


def test_each_pays_what_it_costs_the_other(make_cluster: MakeCluster) -> None:
    offer = offered(make_cluster, (1, 1, 4))
    tables = [[bid(offer, 2, 2.0), bid(offer, 4, 3.0)], [bid(offer, 2, 2.0), bid(offer, 4, 2.5)]]
    shares = payments(tables, offer, best_outcome(tables, offer))
    # Without the first the second would be worth 2.5 and not 2; without the second the first 3 and not 2.
    assert shares == pytest.approx({0: 2 / 2.5, 1: 2 / 3})


def test_a_winner_that_costs_nobody_anything_pays_nothing(make_cluster: MakeCluster) -> None:
    offer = offered(make_cluster, (1, 1, 4))
    tables = [[bid(offer, 2, 2.0)], [bid(offer, 2, 5.0)]]
    assert payments(tables, offer, best_outcome(tables, offer)) == {0: 1.0, 1: 1.0}


def test_a_contested_rack_goes_to_the_job_that_gains_more(make_cluster: MakeCluster) -> None:
    # Rack 0 has two servers on offer, racks 1 and 2 one each.
    offer = offered(make_cluster, (3, 2, 1), gpus=[0, 1, 2, 4])
    first = [bid(offer, 2, 1.4), bid(offer, 2, 2.0, Span.RACK)]
    second = [bid(offer, 2, 1.1), bid(offer, 2, 2.1, Span.RACK)]
    outcome = best_outcome([first, second], offer)
    # 1.4 × 2.1 = 2.94 is more than 2.0 × 1.1 = 2.2.
    assert {job: won.span for job, (won, _) in outcome.wins.items()} == {0: Span.RACKS, 1: Span.RACK}


def test_a_job_that_stays_keeps_its_servers(make_cluster: MakeCluster) -> None:
    offer = offered(make_cluster, (2, 1, 2))
    tables = [[stay({0: 1, 1: 1}, 3.0)], [bid(offer, 2, 1.5, Span.SERVER), bid(offer, 2, 1.2)]]
    outcome = best_outcome(tables, offer)
    # With one GPU gone from each server, no server has two left: 3.0 × 1.2.
    assert math.exp(outcome.gain) == pytest.approx(3.6)


def test_a_queue_of_thousands_is_no_deeper_than_a_stack(make_cluster: MakeCluster) -> None:
    offer = offered(make_cluster, (1, 1, 2))
    tables = [[bid(offer, 1, 1 + job / 10_000)] for job in range(3_000)]
    assert sorted(best_outcome(tables, offer).wins) == [2_998, 2_999]


SHAPES = [(2, 2, 1), (1, 2, 2), (2, 1, 2), (3, 2, 1)]


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    """A cluster, GPUs on offer, and tables of (GPUs, kind of place, valuation); kind 3 is to stay."""
    shape = draw(st.sampled_from(SHAPES))
    gpus = sorted(draw(st.sets(st.integers(0, math.prod(shape) - 1), min_size=1)))
    row = st.tuples(st.integers(1, 4), st.integers(0, 3), st.floats(1.05, 4))
    return shape, gpus, draw(st.lists(st.lists(row, max_size=4), min_size=1, max_size=4))


def bids_of(rows: list[tuple[int, int, float]], offer: Offer, gpus: list[int]) -> list[Bid]:
    server_of = offer.regions.cluster.server_of
    found = []
    for needed, kind, factor in rows:
        if kind < 3:
            found.append(bid(offer, needed, factor, Span(kind)))
        elif needed <= len(gpus):
            servers = [server_of[gpu] for gpu in gpus[:needed]]
            found.append(stay({server: servers.count(server) for server in sorted(set(servers))}, factor))
    return found


def subsets(wanted: Bid, cluster: Cluster, gpus: Sequence[int]) -> list[frozenset[int]]:
    """All sets of GPUs that meet a bid."""
    found = []
    for chosen in combinations(gpus, wanted.needed):
        servers = [cluster.server_of[gpu] for gpu in chosen]
        if wanted.exact:
            meets = all(servers.count(server) == count for server, count in wanted.exact)
        else:
            meets = cluster.span(chosen) <= wanted.span
        if meets:
            found.append(frozenset(chosen))
    return found


def largest_gain(tables: list[list[Bid]], cluster: Cluster, gpus: Sequence[int]) -> float:
    """By trying every set of GPUs for every bid of every job."""
    if not tables:
        return 0.0
    best = largest_gain(tables[1:], cluster, gpus)
    for wanted in tables[0]:
        for taken in subsets(wanted, cluster, gpus):
            rest = [gpu for gpu in gpus if gpu not in taken]
            best = max(best, wanted.gain + largest_gain(tables[1:], cluster, rest))
    return best


def posed(make_cluster: MakeCluster, instance: Instance) -> tuple[Offer, list[int], list[list[Bid]]]:
    """What is offered, as an offer and as GPUs, and the bids of each job."""
    shape, gpus, rows = instance
    offer = offered(make_cluster, shape, gpus)
    return offer, gpus, [bids_of(each, offer, gpus) for each in rows]


@settings(max_examples=150, deadline=None)
@given(instances())
def test_the_product_equals_that_of_exhaustive_search(make_cluster: MakeCluster, instance: Instance) -> None:
    offer, gpus, tables = posed(make_cluster, instance)
    outcome = best_outcome(tables, offer)
    assert outcome.proven
    assert outcome.gain == pytest.approx(largest_gain(tables, offer.regions.cluster, gpus), abs=1e-9)
    assert outcome.gain == pytest.approx(sum(won.gain for won, _ in outcome.wins.values()), abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(instances())
def test_payments_equal_those_of_exhaustive_search(make_cluster: MakeCluster, instance: Instance) -> None:
    offer, gpus, tables = posed(make_cluster, instance)
    outcome = best_outcome(tables, offer)
    shares = payments(tables, offer, outcome)
    assert list(shares) == list(outcome.wins)
    for winner, share in shares.items():
        others = [table for job, table in enumerate(tables) if job != winner]
        without = largest_gain(others, offer.regions.cluster, gpus)
        theirs = outcome.gain - outcome.wins[winner][0].gain
        assert share == pytest.approx(math.exp(theirs - without), rel=1e-9)
        assert 0 < share <= 1 + 1e-9


@settings(max_examples=60, deadline=None)
@given(instances())
def test_the_order_of_jobs_changes_no_product(make_cluster: MakeCluster, instance: Instance) -> None:
    offer, _, tables = posed(make_cluster, instance)
    backwards = best_outcome(tables[::-1], offer).gain
    assert best_outcome(tables, offer).gain == pytest.approx(backwards, abs=1e-9)
