"""The parallelism policies of ASTRA-sim's and SimAI's workload text: groups of exchanges, and what blocks."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

GroupName: TypeAlias = Literal["all", "tensor", "data", "expert", "expert-data", "pipeline"]
"""The groups of a rank: all ranks; those that share a layer; replicas, among them those that divide the
experts (`expert`) or have the same ones (`expert-data`); and the stages of its pipeline.
"""


@dataclass(frozen=True, slots=True)
class Policy:
    """The groups of a layer's exchanges without a suffix; `None` for no exchange.

    `passes` is for outputs of the forward pass and gradients of inputs, `weights` for gradients of weights.
    With `is_blocking` the gradient of weights is computed only after that of inputs is exchanged; otherwise
    they overlap. `has_experts` is true if exchanges may use the groups of experts.
    """

    passes: GroupName | None
    weights: GroupName | None
    is_blocking: bool = False
    has_experts: bool = False

    @property
    def is_divided(self) -> bool:
        """Whether ranks are divided into groups, whose size must be known then."""
        return "tensor" in (self.passes, self.weights)


# From the loops and `decode_involved_dimensions` of Workload.cc. Its first dimension of the topology has
# neighbouring ranks and is `tensor` here, even where a policy puts replicas there (HYBRID_MODEL_DATA).
POLICIES: dict[str, Policy] = {
    "DATA": Policy(None, "all"),
    "MODEL": Policy("all", None),
    "HYBRID_DATA_MODEL": Policy("tensor", "data"),
    "HYBRID_MODEL_DATA": Policy("data", "tensor"),
    "HYBRID_TRANSFORMER": Policy("tensor", "data", is_blocking=True, has_experts=True),
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD": Policy("tensor", "data", is_blocking=True, has_experts=True),
    # The first layer, the embedding tables, also exchanges outputs and their gradients: see TABLES_LAYER.
    "HYBRID_DLRM": Policy(None, "all"),
    "HYBRID_DLRM_ENHANCED": Policy(None, "all"),
    # Each layer names its own policy.
    "HYBRID_CUSTOMIZED": Policy(None, None),
    # Inference has only a forward pass; MICRO has only exchanges of weight gradients.
    "DISTRIBUTED_INFERENCE": Policy("all", None),
    "MICRO": Policy(None, "all"),
}

TABLES_LAYER = Policy("all", "all")
"""The first layer of a DLRM."""

LAYER_POLICIES = ("DATA", "MODEL", "HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA")
"""The policies that a layer of HYBRID_CUSTOMIZED may name."""

DLRM = ("HYBRID_DLRM", "HYBRID_DLRM_ENHANCED")
