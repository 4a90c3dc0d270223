"""`[mltcp]`: how fast the weight of a job grows during an iteration (MLTCP, HotNets'24)."""

from typing import Annotated

from pydantic import Field

from hocket import _hocket
from hocket.plan.schema import Number, Table, default

_Weight = Annotated[Number, Field(ge=1 / 64, le=16)]


class MltcpOptions(Table):
    """The aggressiveness F = `slope` × bytes ratio + `intercept` of a job's congestion control, where the
    bytes ratio is the fraction of the iteration's bytes that it has sent."""

    slope: _Weight = default(1.75, "MLTCP, HotNets'24: its parameters for Reno")
    """What the weight gains over an iteration."""
    intercept: _Weight = default(0.25, "MLTCP, HotNets'24: its parameters for Reno")
    """The weight at the start of an iteration."""

    @property
    def share(self) -> "_hocket._Share":
        """The share of a link that a job claims."""
        return "mltcp", self.intercept, self.slope
