"""The parallelism policies of ASTRA-sim's and SimAI's workload text: who exchanges what, and what waits for
it.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

GroupName: TypeAlias = Literal["all", "tensor", "data", "expert", "expert-data", "pipeline"]
"""The groups that a rank may be in: all ranks, those that share a layer, replicas, and within replicas those
that share or have the same experts; the stages of its pipeline.
"""


@dataclass(frozen=True, slots=True)
class Policy:
    """Where exchanges of a layer without a suffix go, `None` where there are none.

    `passes` holds outputs after the forward pass and gradients of inputs, `weights` gradients of weights.
    With `is_blocking` the gradient of weights is computed only once that of inputs is exchanged; otherwise
    they overlap. `has_experts` says whether exchanges may name the groups of experts.
    """

    passes: GroupName | None
    weights: GroupName | None
    is_blocking: bool = False
    has_experts: bool = False

    @property
    def is_divided(self) -> bool:
        """Whether ranks are divided into groups, whose size must then be known."""
        return "tensor" in (self.passes, self.weights)


# From the loops and `decode_involved_dimensions` of Workload.cc. What they call the first dimension of the
# topology are the ranks next to each other, `tensor` here, also where a policy puts replicas there
# (HYBRID_MODEL_DATA).
POLICIES: dict[str, Policy] = {
    "DATA": Policy(None, "all"),
    "MODEL": Policy("all", None),
    "HYBRID_DATA_MODEL": Policy("tensor", "data"),
    "HYBRID_MODEL_DATA": Policy("data", "tensor"),
    "HYBRID_TRANSFORMER": Policy("tensor", "data", is_blocking=True, has_experts=True),
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD": Policy("tensor", "data", is_blocking=True, has_experts=True),
    # Of the first layer, the embedding tables, also outputs and their gradients are exchanged.
    "HYBRID_DLRM": Policy(None, "all"),
    "HYBRID_DLRM_ENHANCED": Policy(None, "all"),
    # Each layer names its own.
    "HYBRID_CUSTOMIZED": Policy(None, None),
    # Forward only, and only exchanges.
    "DISTRIBUTED_INFERENCE": Policy("all", None),
    "MICRO": Policy(None, "all"),
}

TABLES_LAYER = Policy("all", "all")
"""The first layer of a DLRM."""

LAYER_POLICIES = ("DATA", "MODEL", "HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA")
"""What a layer of HYBRID_CUSTOMIZED may name."""

DLRM = ("HYBRID_DLRM", "HYBRID_DLRM_ENHANCED")
