"""Models as training jobs need them: layers in order, with their operations, parameters and outputs.

`vision`, `language` and `recommendation` describe models; `hocket.training.parallel` spreads them over GPUs.
"""

from dataclasses import dataclass
from typing import Literal

LayerKind = Literal["conv", "dense", "attention", "embedding"]


@dataclass(frozen=True, slots=True)
class ModelLayer:
    """One layer. Counts are of values, not bytes; all but `parameters` are for one sample.

    - `forward_flops`: floating point operations of its matrix products forward, two per multiply-add.
      Backward takes as many again for the gradient of its inputs and for that of its weights.
    - `output_values`: the values that it passes to the next layer.
    - `memory_values`: what the kernels around the products (normalisation, activation, softmax, pooling,
      lookups) read and write forward; backward they read and write twice as much.
    - `whole_parameters`, `whole_values`: the parts of `parameters` and `memory_values` that tensor
      parallelism does not split.
    """

    name: str
    kind: LayerKind
    parameters: int
    forward_flops: int
    output_values: int
    memory_values: int = 0
    whole_parameters: int = 0
    whole_values: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """The blocks of a transformer, which tensor and pipeline parallelism divide.

    `tied_parameters` are those of a token embedding that also serves as the output layer's weight.
    """

    count: int
    heads: int
    tied_parameters: int = 0


@dataclass(frozen=True, slots=True)
class Model:
    """A model as a chain of layers.

    `value_bytes` is the size of a weight, an activation or a gradient on the wire: 4 for single precision, 2
    for mixed precision. `optimizer_bytes` is what an update reads and writes of memory for each parameter.
    `blocks` is set for transformers.
    """

    name: str
    layers: tuple[ModelLayer, ...]
    value_bytes: Literal[2, 4]
    optimizer_bytes: int
    source: str
    blocks: Block | None = None

    @property
    def parameters(self) -> int:
        """All weights; weights that two layers share are counted once."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def forward_flops(self) -> int:
        """Floating point operations of the matrix products of one sample's forward pass."""
        return sum(layer.forward_flops for layer in self.layers)
