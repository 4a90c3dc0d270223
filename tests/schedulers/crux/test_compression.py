"""Priorities compressed to few queues lose as little GPU intensity as possible."""

from itertools import combinations
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from hocket.schedulers.crux.compression import compress


def compressed(intensities: list[float], pairs: list[tuple[int, int]], queues: int) -> list[int]:
    return compress(intensities, pairs, queues, Random(1))


def lost(intensities: list[float], pairs: list[tuple[int, int]], queues: list[int]) -> float:
    """The GPU intensity of jobs that are in the queue of a job that they should go before."""
    return sum(intensities[first] for first, second in pairs if queues[first] == queues[second])


def test_three_jobs_that_all_contend_keep_the_most_intense_one_apart() -> None:
    # Cut after the first job, the edge of 2 is lost; after the second, that of 4.
    assert compressed([4.0, 2.0, 1.0], [(0, 1), (0, 2), (1, 2)], 2) == [0, 1, 1]


def test_jobs_that_do_not_contend_share_a_queue_without_a_loss() -> None:
    assert compressed([4.0, 2.0, 1.0], [(0, 2), (1, 2)], 2) == [0, 0, 1]


def test_with_enough_queues_every_job_that_contends_has_its_own() -> None:
    assert compressed([4.0, 2.0, 1.0], [(0, 1), (0, 2), (1, 2)], 8) == [0, 1, 2]


def test_jobs_without_contention_are_in_the_first_queue() -> None:
    assert compressed([4.0, 2.0, 1.0], [], 2) == [0, 0, 0]
    assert compressed([4.0, 2.0, 1.0, 1.0], [(0, 1), (2, 3)], 2) == [0, 1, 0, 1]


def test_another_order_of_the_same_contention_can_be_cut_better() -> None:
    # In order of priority, each of two groups loses 8 or 10; jobs 0 and 2 have nobody before them.
    assert compressed([10.0, 9.0, 8.0, 7.0], [(0, 1), (0, 3), (2, 3)], 2) == [0, 1, 0, 1]


def test_one_queue_has_all_jobs() -> None:
    assert compressed([2.0, 1.0], [(0, 1)], 1) == [0, 0]


@given(
    st.lists(st.floats(0.1, 10), min_size=2, max_size=7),
    st.data(),
    st.integers(1, 4),
)
def test_no_job_goes_before_a_more_important_one_and_no_cut_of_the_order_is_better(
    intensities: list[float], data: st.DataObject, queues: int
) -> None:
    intensities.sort(reverse=True)
    every = list(combinations(range(len(intensities)), 2))
    pairs = sorted(data.draw(st.sets(st.sampled_from(every))))
    found = compressed(intensities, pairs, queues)
    assert all(found[first] <= found[second] for first, second in pairs)
    assert max(found) < queues
    count = len(intensities)
    cuts = (
        [sum(cut <= place for cut in chosen) for place in range(count)]
        for chosen in combinations(range(1, count), min(queues, count) - 1)
    )
    assert lost(intensities, pairs, found) <= min(lost(intensities, pairs, each) for each in cuts) + 1e-9
