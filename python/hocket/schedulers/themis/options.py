"""`[themis]`: the parameters of Themis, with the sources of their defaults."""

from typing import Annotated, Literal

from pydantic import Field, StrictBool

from hocket.plan.schema import Number, Table, default
from hocket.units import DurationPs, PositiveDurationPs, parse_duration

Knob = Annotated[Number, Field(ge=0, le=1)]


class ThemisOptions(Table):
    """How Themis auctions GPUs."""

    epoch_ps: PositiveDurationPs = default(
        parse_duration("10 min"), "NSDI'24 §5.1: the bidding period (epoch) is set to 10 minutes", "epoch"
    )
    """The longest time between two auctions."""

    lease_ps: PositiveDurationPs = default(
        parse_duration("10 min"), "Hocket: NSDI'24 §5.1 gives no lease time; one bidding period", "lease"
    )
    """The time for which a job keeps a GPU before it is auctioned again."""

    batch_ps: DurationPs = default(
        0, "NSDI'24 §5.2: leases are not synchronised, and each that ends triggers changes", "batch"
    )
    """Leases that end within this time of the first are auctioned with it, for fewer decisions."""

    fairness_knob: Knob = default(0.8, "NSDI'20: f = 0.8")
    """f: the worst 1 − f of the jobs see an offer, at least one job."""

    hidden_payment: StrictBool = default(True, "NSDI'20: partial allocation with hidden payments")
    """Whether a winner pays with a share of its win for the cost that it causes the others."""

    competing_jobs: StrictBool = default(True, "NSDI'20: T_id counts N_avg; the authors' simulator does not")
    """Whether T_id counts N_avg, the time-averaged number of jobs in the cluster."""

    slowdown: Literal["published", "profile"] = default(
        "published", "NSDI'20: slowdowns of the models profiled there; Hocket: profiles for all other models"
    )
    """The source of S(G): `published` values where they exist, or the job's own `profile` for all models."""

    workers: Literal["tuned", "requested"] = default(
        "tuned", "NSDI'24 §5.1: the number of workers is tuned by finish-time fairness, after the first start"
    )
    """The limit on bids of a job that has run: its maximum parallelism, or the number of workers that it was
    submitted with.
    """

    placement: Literal["packed", "drawn"] = default(
        "packed", "Hocket: NSDI'20 places no GPUs within the region that a job won, as all have the same S"
    )
    """The GPUs that a winner gets within the region that it won, besides those that it had: `packed` into few
    racks and servers, or `drawn` by the seed.
    """

    exchange: Literal["restarting", "auctioned"] = default(
        "restarting",
        "NSDI'24 §4.2 decouples the number of workers from their placement; Hocket: for jobs that restart",
    )
    """The GPUs that candidates exchange: all GPUs of jobs that start or restart after the auction, at no
    further cost, or only GPUs that were on offer, as in the example of NSDI'24 §4.2.
    """

    restart_cost_ps: DurationPs = default(
        parse_duration("30 s"),
        "Pollux (OSDI'21 §5.3): restarts take 30 s; Hocket: part of T_sh, as jobs would resize for little",
        "restart_cost",
    )
    """Time in a bid for the checkpoint and restart of a job whose GPUs change; 0 s gives NSDI'20's T_sh."""
