"""DLRM: embedding tables for sparse features beside a bottom MLP for dense ones, a top MLP on both."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal


@dataclass(frozen=True, slots=True)
class Dlrm:
    """A DLRM (Naumov et al., arXiv 1906.00091).

    `bottom` and `top` are the widths of the MLPs from input to output. A sample looks up `pooling` rows of
    each of `tables`, of `dimension` values each, and adds them up. The top MLP's input is all vectors side by
    side (`cat`), or the products of all pairs beside the bottom MLP's output (`dot`). `rows` are those of all
    tables together, `None` if the source does not give them.
    """

    name: str
    bottom: tuple[int, ...]
    top: tuple[int, ...]
    tables: int
    dimension: int
    pooling: int
    interaction: Literal["cat", "dot"]
    biases: bool
    value_bytes: Literal[2, 4]
    rows: int | None
    source: str

    def __post_init__(self) -> None:
        """Asserts that the MLPs of the models below fit the vectors between them."""
        assert self.bottom[-1] == self.dimension, "the bottom MLP's output is one more embedding"
        assert self.top[0] == self.interaction_values, "the top MLP's input is the output of the interaction"

    @property
    def interaction_values(self) -> int:
        """Values that the interaction passes to the top MLP, per sample."""
        vectors = self.tables + 1
        if self.interaction == "cat":
            return vectors * self.dimension
        return vectors * (vectors - 1) // 2 + self.dimension

    @property
    def interaction_flops(self) -> int:
        """Floating point operations of the interaction, per sample: products of all pairs as one matrix."""
        return 0 if self.interaction == "cat" else 2 * (self.tables + 1) ** 2 * self.dimension

    @property
    def mlp_parameters(self) -> int:
        """Weights, and biases if it has them, of both MLPs, which data parallelism replicates."""
        return sum(
            layer_parameters(self, *shape) for mlp in (self.bottom, self.top) for shape in pairwise(mlp)
        )

    @property
    def embedding_parameters(self) -> int | None:
        """Values in all tables; `None` if the number of rows is unknown."""
        return None if self.rows is None else self.rows * self.dimension

    @property
    def parameters(self) -> int:
        """All trained parameters, without the tables if their rows are unknown."""
        return self.mlp_parameters + (self.embedding_parameters or 0)


def layer_parameters(model: Dlrm, inputs: int, outputs: int) -> int:
    """Weights of one layer of an MLP, and its biases if the model has them."""
    return inputs * outputs + (outputs if model.biases else 0)


# Rows of each table for the Criteo Kaggle data set, as the reference implementation prints them
# (facebookresearch/dlrm, bench/dlrm_s_criteo_kaggle.sh: its widths, dimension and mixed batch).
_KAGGLE_ROWS = (
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10,
    5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572,
)  # fmt: skip

DLRM = Dlrm(
    "DLRM",
    bottom=(13, 512, 256, 64, 16),
    top=(367, 512, 256, 1),
    tables=len(_KAGGLE_ROWS),
    dimension=16,
    pooling=1,
    interaction="dot",
    biases=True,
    value_bytes=4,
    rows=sum(_KAGGLE_ROWS),
    source="Naumov et al., arXiv 1906.00091, on Criteo Kaggle: bench/dlrm_s_criteo_kaggle.sh",
)

DLRM_HOTI22 = Dlrm(
    "DLRM (HOTI'22)",
    bottom=(1600, *[1024] * 6, 64),
    top=(65 * 64, *[2048] * 11, 1),
    tables=64,
    dimension=64,
    pooling=60,
    # With weights alone, and all vectors side by side, the gradients are the 109.5 MB of §IV-D to four
    # digits.
    interaction="cat",
    biases=False,
    value_bytes=2,
    rows=None,
    source="HOTI'22 Table II",
)
