"""H4: rolling jobs around a circle and rotating them apart (HotNets'22 Fig 3 to 5)."""

from functools import partial

from hocket.compat import compatibility
from hocket.figures.circles import compatibility_figure
from hocket.workloads import figure_3_profile
from hocket_reproduce.targets.setting import Tables, link_plan
from hocket_reproduce.targets.target import Progress, Reproduction, Row

# Fig 5 prints the periods only. Modulo gcd(40, 60) = 20 ms every shift of one job against the other looks the
# same, so the two phases share 20 ms: with 10 ms each they fill them, and only a rotation by 30° (10 ms)
# separates them.
PERIODS_MS = (40, 60)
UP_MS = 10


def fig_5_plan() -> Tables:
    """The two jobs of Fig 5, whose communication phases collide as given."""
    up = [{"start": "0 ms", "duration": f"{UP_MS} ms", "rate": "40 Gbps"}]
    jobs = [{"name": f"J{i}", "period": f"{period} ms", "up": up} for i, period in enumerate(PERIODS_MS, 1)]
    return link_plan("HotNets'22 Fig 5", jobs)


def reproduce(progress: Progress) -> Reproduction:
    """The circle of Fig 3, and the unified circle and rotation of Fig 5, in the strict form."""
    progress("circles")
    vgg16 = figure_3_profile()
    up = vgg16.phases[0]
    answer = compatibility(fig_5_plan(), strict=True)
    turned_deg = (answer.rotations_deg["J1"] - answer.rotations_deg["J2"]) % 360
    rows = (
        Row("perimeter of VGG16's circle", 255, vgg16.period_ps / 1e9, "ms"),
        Row(
            "its Down phase ends at", 200, 360 * up.start_ps / vgg16.period_ps, "°", "NSDI'24 §3 prints 200°"
        ),
        Row("its Up phase", 114, up.duration_ps / 1e9, "ms"),
        Row("unified circle of 40 and 60 ms", 120, answer.perimeter_s * 1e3, "ms"),
        Row("iterations of J1 on it", 3, answer.jobs[0].rounds),
        Row("iterations of J2 on it", 2, answer.jobs[1].rounds),
        Row("rotation of J1 against J2", 30, turned_deg, "°", "strict form: at most one job per sector"),
        Row("fully compatible when rotated", "yes", "yes" if answer.score == 1.0 else "no"),
    )
    return Reproduction(
        "H4",
        "The circle, the unified circle and the rotation (HotNets'22 Fig 3 to 5)",
        rows,
        partial(compatibility_figure, answer),
        (
            "Fig 5 gives no Up phases: 10 ms each here, which fill the 20 ms that periods of 40 and 60 ms "
            "share.",
        ),
    )
