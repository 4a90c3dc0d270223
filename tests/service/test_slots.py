"""When jobs get slots, keep them and lose them; the test sets the clock."""

from collections.abc import Callable

from tests.service.conftest import MS, S, Served, registered


def two_jobs(served: Served) -> None:
    """Jobs `a` and `b` run and take turns on link `l1`."""
    for name in "ab":
        assert served.register(name, registered()).status_code == 201
    served.run("a", "b")


def phase_ns(served: Served, one: str, other: str) -> int:
    """How long after `one` the job `other` communicates, within a period."""
    first, second = served.slot(one), served.slot(other)
    return int((second["origin_ns"] - first["origin_ns"]) % first["period_ns"])


def test_jobs_that_share_a_link_get_slots_in_which_they_take_turns(served: Served) -> None:
    two_jobs(served)

    assert 80 * MS <= phase_ns(served, "a", "b") <= 101 * MS
    assert served.view("a")["reason"].startswith("score 1.000 with b on l1: taking turns helps, predicted ")


def test_a_slot_begins_soon_at_an_iteration_that_no_rank_has_reached(served: Served) -> None:
    two_jobs(served)

    slot = served.slot("b")
    assert served.now_ns < slot["origin_ns"] <= served.now_ns + 2 * S
    # Ten are finished, one is under way, and 3 s are 16 more of 180 ms and a part of one.
    assert slot["iteration"] == 10 + 1 + 17
    assert slot["tolerance_ns"] == 9 * MS


def test_the_answer_to_a_report_contains_the_slot(served: Served) -> None:
    two_jobs(served)
    served.now_ns += 5

    answer = served.report("a").json()

    assert answer["slot"] == served.slot("a")
    assert answer["received_ns"] == answer["sent_ns"] == served.now_ns
    assert answer["ideal_ns"] == 180 * MS


def test_a_job_without_reports_takes_no_part(served: Served) -> None:
    for name in "ab":
        served.register(name, registered())
    served.run("a")

    assert served.slot("a") is None
    assert served.view("a")["reason"] == "shares no link with another running job"
    assert served.view("b")["reason"] == "waits for its first report"


def test_a_job_waits_for_all_of_its_ranks(served: Served) -> None:
    for name in "ab":
        served.register(name, registered())
    served.run("a")

    answer = served.report("b", rank=1, ranks=2).json()

    assert answer["slot"] is None
    assert answer["reason"] == "waits for 1 of 2 ranks"
    served.report("b", rank=0, ranks=2)
    served.settle()
    assert served.slot("b") is not None


def test_jobs_that_cannot_take_turns_get_a_reason(served: Served) -> None:
    for name in "abc":
        served.register(name, registered(up="120 ms"))
    served.run("a", "b", "c")

    assert served.slot("a") is None
    why = served.view("a")["reason"]
    assert why.startswith("score 0.")
    assert why.endswith("with b, c on l1: the best shifts score 0.400; below 0.6 taking turns does not help")


def test_a_change_elsewhere_leaves_slots_as_they_are(served: Served) -> None:
    two_jobs(served)
    before = served.slot("a"), served.slot("b")

    for name in "cd":
        served.register(name, registered({"l2": "50 Gbps"}))
    served.run("c", "d")

    assert (served.slot("a"), served.slot("b")) == before
    assert served.slot("c") is not None


def test_a_third_job_leaves_one_of_the_two_undelayed(served: Served) -> None:
    for name in "ab":
        served.register(name, registered(up="50 ms"))
    served.run("a", "b")
    before = {name: served.slot(name) for name in "ab"}

    served.now_ns += 60 * S
    served.register("c", registered(up="50 ms"))
    served.run("c")

    assert served.slot("c") is not None
    goes_on = [
        name
        for name, slot in before.items()
        if (served.slot(name)["origin_ns"] - slot["origin_ns"]) % slot["period_ns"] == 0
    ]
    assert goes_on


def test_when_a_job_leaves_the_others_that_still_take_turns_keep_their_slots(served: Served) -> None:
    for name in "abc":
        served.register(name, registered(up="50 ms"))
    served.run("a", "b", "c")
    before = served.slot("a"), served.slot("b")

    assert served.ask("DELETE", "/v1/jobs/c").status_code == 204
    served.settle()

    assert (served.slot("a"), served.slot("b")) == before


def test_the_last_job_on_a_link_loses_its_slot(served: Served) -> None:
    two_jobs(served)

    served.ask("DELETE", "/v1/jobs/b")
    served.settle()

    assert served.report("a").json()["slot"] is None


def test_a_silent_job_is_left_out_until_it_reports_again(served: Served) -> None:
    two_jobs(served)
    served.now_ns += 590 * S
    served.report("a")
    served.now_ns += 11 * S
    served.settle()

    assert served.slot("a") is None
    assert served.view("b")["reason"] == "silent for 600 s: left out until its ranks report again"

    served.run("b")
    assert served.slot("a") is not None
    assert served.slot("b") is not None


def test_repeating_a_registration_changes_nothing(served: Served) -> None:
    two_jobs(served)
    before = served.everything()

    again = served.register("a", registered())

    assert again.status_code == 200
    assert served.everything() == before


def test_repeating_a_registration_after_a_restart_changes_nothing_either(
    serve: Callable[..., Served],
) -> None:
    served = serve()
    two_jobs(served)
    served.restart()
    before = served.everything()

    assert served.register("a", registered()).status_code == 200
    assert served.everything() == before


def test_a_job_that_moves_leaves_its_slot_and_its_link(served: Served) -> None:
    two_jobs(served)

    assert served.register("b", registered({"l2": "50 Gbps"})).status_code == 200
    served.settle()

    assert served.slot("a") is None
    assert served.slot("b") is None
    assert served.view("b")["reason"] == "waits for its first report"


def test_a_job_that_restarts_gets_an_iteration_that_it_will_reach(served: Served) -> None:
    for name in "ab":
        served.register(name, registered())
    for name in "ab":
        served.report(name, iteration=1_000_000)
    served.settle()
    slot = served.slot("a")
    assert slot["iteration"] > 1_000_000

    answer = served.report("a", iteration=0, count=0, total_ns=0, min_ns=0, max_ns=0).json()["slot"]

    assert answer["iteration"] < 100
    assert answer["version"] > slot["version"]
    assert (answer["origin_ns"], answer["period_ns"]) == (slot["origin_ns"], slot["period_ns"])


def test_a_job_that_lost_a_rank_keeps_its_slot_with_the_remaining_ranks(served: Served) -> None:
    for name in "ab":
        served.register(name, registered())
        for rank in range(2):
            served.report(name, rank, 2)
    served.settle()
    before = served.slot("a")

    # Rank 1 is gone: rank 0 continues, until the job restarts with one rank after some silence.
    for iteration in (20, 30):
        served.now_ns += S
        assert served.report("a", 0, 2, iteration=iteration).json()["slot"] == before
    assert served.report("a", 0, 1, iteration=40).json()["slot"] == before

    assert served.view("a")["ranks"] == served.view("a")["heard"] == 1


def test_slots_outlive_the_service_unchanged(serve: Callable[..., Served]) -> None:
    served = serve()
    two_jobs(served)
    before = served.slot("a"), served.slot("b")

    served.restart()
    assert served.report("a").json()["slot"] == before[0]
    served.settle()

    assert (served.slot("a"), served.slot("b")) == before


def test_a_version_is_never_assigned_twice(serve: Callable[..., Served]) -> None:
    served = serve()
    two_jobs(served)
    highest = max(served.slot(name)["version"] for name in "ab")
    for name in "ab":
        served.ask("DELETE", f"/v1/jobs/{name}")

    served.restart()
    two_jobs(served)

    assert min(served.slot(name)["version"] for name in "ab") > highest


def test_a_job_whose_rank_has_not_reported_since_a_restart_keeps_its_slot(
    serve: Callable[..., Served],
) -> None:
    served = serve()
    for name in "ab":
        served.register(name, registered())
        for rank in range(2):
            served.report(name, rank, 2)
    served.settle()
    before = served.slot("a")

    served.restart()
    served.register("c", registered(up="10 ms"))
    served.run("c")

    answer = served.report("a", 0, 2).json()
    assert answer["slot"] == before or answer["reason"] == "waits for 1 of 2 ranks"
    served.report("a", 1, 2)
    assert served.view("a")["reason"].startswith("score")
