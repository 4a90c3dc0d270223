"""`[pollux]`: the parameters of Pollux, with the sources of their defaults."""

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt

from hocket.plan.schema import (
    Count,
    Number,
    Table,
    default,
)
from hocket.units import DurationPs, PositiveDurationPs, parse_duration


class PolluxOptions(Table):
    """How Pollux allocates GPUs."""

    policy: Literal["pollux-osdi21", "pollux-adaptdl"] = default(
        "pollux-osdi21", "NSDI'24 §5.1 compares with the paper, not with later releases"
    )
    """`pollux-osdi21`: the power mean of speedups over a fair share, and a restart that costs the less the
    older a job is. `pollux-adaptdl`: the sum of speedups over one worker, times 0.9 where a job restarts."""

    period_ps: PositiveDurationPs = default(
        parse_duration("60 s"), "OSDI'21 §5.1: jobs are reallocated every 60 s", "period"
    )
    """Time between two searches."""

    restart_delay_ps: DurationPs = default(
        parse_duration("30 s"),
        "OSDI'21 §5.1: δ = 30 s, which restarts take in its simulator too (§5.3)",
        "restart_delay",
    )
    """Time that `pollux-osdi21` assumes a restart to take."""

    fairness: Annotated[Number, Field(ge=-100, lt=0)] = default(
        -1.0, "OSDI'21 §4.2: the exponent of the power mean"
    )
    """Exponent of the power mean of speedups: the lower, the more the worst jobs count."""

    scale_up: Literal["doubling", "any"] = default(
        "doubling", "OSDI'21 §4.1: at most twice the workers that a job has had, and one at first"
    )
    """The growth allowed in one step; `any` trusts the profile of a job from the beginning."""

    tune_batch_size: StrictBool = default(True, "OSDI'21 §4.1: jobs choose the batch size of highest goodput")
    """Whether jobs choose the batch size of highest goodput, within the catalogue's limits of the model;
    otherwise they keep the one that they were submitted with.
    """

    noise_scale: Annotated[Number, Field(gt=0, le=1e12)] = default(
        11_388.0,
        "OSDI'21's simulator, ResNet-50 on ImageNet (validation-200.csv): 200 × the median over 90 epochs of "
        "grad_var / grad_sqr; Hocket: for all models, as nothing is published for the others",
    )
    """The gradient noise scale in samples: a batch of this size is half as efficient per sample as a
    small one.
    """

    population: Annotated[StrictInt, Field(ge=2, le=100_000)] = default(
        100, "the artifact of OSDI'21: 100 allocations; the paper prints no number"
    )
    """Allocations in each generation of the genetic search."""

    generations: Count = default(
        100, "the artifact of OSDI'21: 100 generations in a round; the paper prints no number"
    )
    """Generations of the genetic search."""
