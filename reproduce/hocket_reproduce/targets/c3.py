"""C3: the optimisation on cases worked by hand and on proven instances (NSDI'24 Table 1)."""

import json
from functools import partial
from importlib.resources import files
from typing import Any

from hocket.compat import compatibility
from hocket.figures.circles import compatibility_figure
from hocket_reproduce.targets.setting import PRECISION_DEG, Tables, link_plan
from hocket_reproduce.targets.target import Progress, Reproduction, Row


def by_hand() -> dict[str, tuple[Tables, float]]:
    """Plans whose score takes one line of arithmetic, each with that score."""
    return {
        # Three jobs always at 50 Gbps exceed 50 Gbps by 100: 1 − 100/50.
        "three jobs that always send at the link's rate": (_square(3, 180, 180, 50), -1.0),
        # 70 + 70 of 180 ms fit side by side.
        "two jobs that send 70 of 180 ms": (_square(2, 180, 70, 40), 1.0),
        # 120 + 120 − 180 = 60 ms overlap at 80 Gbps: 1 − (60/180) · 30/50.
        "two jobs that send 120 of 180 ms at 40 Gbps": (_square(2, 180, 120, 40), 0.8),
        # 25 + 25 Gbps fit on top of each other.
        "two jobs that always send at half the link's rate": (_square(2, 180, 180, 25), 1.0),
    }


def instances() -> list[dict[str, Any]]:
    """Random instances of two to four jobs with the optimum that a constraint solver proved at 5°."""
    text = files("hocket_reproduce.targets").joinpath("instances.json").read_text(encoding="utf-8")
    return list(json.loads(text)["instances"])


def instance_plan(instance: dict[str, Any]) -> Tables:
    """An instance as a plan."""
    jobs = [
        {
            "name": f"job {number}",
            "period": f"{job['period_ms']} ms",
            "up": [
                {"start": f"{start} ms", "duration": f"{duration} ms", "rate": f"{gbps} Gbps"}
                for start, duration, gbps in job["phases"]
            ],
        }
        for number, job in enumerate(instance["jobs"])
    ]
    return link_plan(instance["id"], jobs, capacity=f"{instance['capacity_gbps']} Gbps")


def reproduce(progress: Progress) -> Reproduction:
    """The score's definition, the precision, and agreement with proven optima."""
    progress("cases by hand")
    rows = [
        Row("precision of the targets", 5.0, PRECISION_DEG, "°"),
        *(
            Row(f"score of {name}", expected, compatibility(plan).score, "", "by hand from Equation 2")
            for name, (plan, expected) in by_hand().items()
        ),
    ]
    for instance in instances():
        progress(f"instance {instance['id']}")
        answer = compatibility(instance_plan(instance))
        rows.append(
            Row(
                f"optimum of {instance['id']} ({len(instance['jobs'])} jobs)",
                instance["optimal_score"],
                answer.score,
                "",
                f"{'proven' if answer.proven_optimal else 'not proven'} by both solvers",
            )
        )
    drawn = compatibility(by_hand()["two jobs that send 120 of 180 ms at 40 Gbps"][0])
    return Reproduction(
        "C3",
        "The optimisation and its score (NSDI'24 Table 1)",
        tuple(rows),
        partial(compatibility_figure, drawn),
        (
            "The paper's column holds what Equation 2 gives by hand, and for the random instances the "
            "optimum that CP-SAT proved at 5°. All of them, up to six jobs, are in hocket-compat's tests.",
        ),
    )


def _square(count: int, period_ms: int, up_ms: int, gbps: int) -> Tables:
    up = {"start": "0 ms", "duration": f"{up_ms} ms", "rate": f"{gbps} Gbps"}
    jobs = [{"name": f"job {number}", "period": f"{period_ms} ms", "up": [up]} for number in range(count)]
    return link_plan("by hand", jobs)
