"""The table `[cassini]` of a trace: how candidates are ranked, and when jobs get slots."""

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt

from hocket.plan.link import StepDeg
from hocket.plan.schema import Number, Table, default
from hocket.units import LARGEST


class CassiniOptions(Table):
    """How CASSINI chooses among candidates."""

    candidates: Annotated[StrictInt, Field(ge=1, le=1_000)] = default(10, "NSDI'24 §5.1: up to 10 candidates")
    """The most placements that a scheduler proposes."""
    aggregate: Literal["mean", "min", "tail", "fabric"] = default(
        "fabric", "Hocket: a mean over shared links (NSDI'24 Algorithm 2, line 24) rises with their number"
    )
    """The score by which candidates are ranked: the `"mean"`, `"min"` or `"tail"` (worst twentieth) of the
    scores of shared links, or `"fabric"`, the mean over all links, where those not shared count 1."""
    loops: Literal["discard", "solve"] = default(
        "solve", "Hocket: half of the placements have a loop, which NSDI'24 Algorithm 2, line 15 discards"
    )
    """Candidates with a loop around which shifts disagree: `"discard"` them, or `"solve"` all links of the
    component together."""
    precision_deg: StepDeg = default(5.0, "NSDI'24 §5.1 and Fig 18")
    """Largest step between rotations."""
    tolerance: Annotated[Number, Field(ge=0, le=0.5)] = default(
        0.01, "Hocket: measured iteration times vary by about 1%"
    )
    """Largest relative stretch of a period that makes periods fit on a circle."""
    step_limit: Annotated[StrictInt, Field(ge=1, le=LARGEST)] = default(
        10_000, "Hocket: milliseconds for a component; 1,000 times as many change its score by less than 1e-5"
    )
    """Steps of the search for each component."""
    shift_threshold: Number = default(0.6, "NSDI'24 §5.5: with a score of 0.6 the gain is gone")
    """Score below which jobs are not shifted."""
    adjust: StrictBool = default(True, "NSDI'24 §5.7: a job that drifts by 5% goes back to its slot")
    """Whether a job that drifts by 5% of its iteration goes back to its slot."""
    slots: Literal["component", "subset"] = default(
        "component",
        "NSDI'24 §4.2: all jobs that share links; Hocket: subsets take longer to find and gain little",
    )
    """Who gets slots: all jobs of a component or none (`"component"`), or also two, three or all of them with
    padded iterations (`"subset"`), where that is predicted to gain more."""
    padding: Annotated[Number, Field(ge=0, le=1)] = default(
        0.2, "Hocket: longer padding hardly ever gains more than it costs"
    )
    """With `slots = "subset"`, the most by which slots are longer than iterations, relative to these."""
