"""Transformers, layer by layer: BERT and its kin, GPT-1 to 3, and the GPTs of NSDI'24 Fig 1."""

from typing import Literal

from hocket.training.models.model import Block, Model, ModelLayer

# Adam: reads weight, gradient and two moments, writes weight and moments; 4 bytes each in single precision.
# In mixed precision a 16-bit gradient is read and a 16-bit weight written beside 32-bit weight and moments.
_ADAM_BYTES: dict[Literal[2, 4], int] = {4: 7 * 4, 2: 2 + 2 + 6 * 4}

_FEED_FORWARD = 4  # the hidden layer of a block is four times as wide, in all of these models

MIXED_STATE_BYTES = 16
"""Bytes that mixed-precision Adam keeps for each parameter (Rajbhandari et al., ZeRO, SC'20, §3.1)."""


def transformer(
    name: str,
    *,
    blocks: int,
    hidden: int,
    heads: int,
    vocabulary: int,
    positions: int,
    tokens: int,
    value_bytes: Literal[2, 4],
    source: str,
    norms_outside: int = 0,
    more_embeddings: int = 0,
    head_parameters: int = 0,
) -> Model:
    """A transformer on samples of `tokens` tokens, whose output layer shares the token embedding's weights.

    `norms_outside` is the number of layer norms outside the blocks, `more_embeddings` that of vectors
    embedded besides tokens and positions, `head_parameters` that of parameters in the output layer besides
    the shared weights.
    """
    # Counted with the embedding only, since the output layer multiplies by the same weights.
    tied = vocabulary * hidden
    embedding = ModelLayer(
        "embedding",
        "embedding",
        tied + (positions + more_embeddings + 2 * norms_outside) * hidden,
        0,
        tokens * hidden,
        # Token and position vectors are read, their sum written.
        3 * tokens * hidden,
        whole_parameters=(positions + more_embeddings + 2 * norms_outside) * hidden,
        whole_values=tokens * hidden,
    )
    layers = [embedding]
    for index in range(1, blocks + 1):
        layers += _block(index, hidden, heads, tokens)
    logits = tokens * vocabulary
    layers.append(
        ModelLayer(
            "output",
            "dense",
            head_parameters,
            2 * tokens * (tied + _products_of_head(head_parameters, hidden)),
            logits,
            # The cross entropy reads the logits twice, for their maximum and their sum.
            2 * logits,
        )
    )
    return Model(
        name,
        tuple(layers),
        value_bytes,
        _ADAM_BYTES[value_bytes],
        source,
        Block(blocks, heads, tied),
    )


def _products_of_head(parameters: int, hidden: int) -> int:
    """The multiply-adds per token of a dense layer of hidden × hidden before the output, if there is one."""
    # Fewer parameters are only biases, which multiply nothing.
    return hidden**2 if parameters >= hidden**2 else 0


def _block(index: int, hidden: int, heads: int, tokens: int) -> tuple[ModelLayer, ModelLayer]:
    """The attention and the MLP of one block, each with its layer norm.

    Memory traffic: what Korthikanti et al. (MLSys'23, §4.1) count as kept for the backward pass is written
    once and read once. They count bytes at two bytes a value, per token 11 hidden + 5 heads · tokens in
    attention, 19 hidden in the MLP and 2 hidden in each layer norm; the number of values written or read is
    therefore the same. Tensor parallelism splits neither layer norms, nor inputs, nor the last dropout
    (§4.2.1): 5 hidden in each.
    """
    # Every head has a score for each pair of tokens: the only values whose number grows with the square.
    score_values = heads * tokens**2
    # Biases added after the all-reduce, and the layer norm.
    whole = 3 * hidden
    attention = ModelLayer(
        f"block{index} attention",
        "attention",
        # Queries, keys, values and the projection, each with biases; scale and bias of the layer norm.
        4 * (hidden**2 + hidden) + 2 * hidden,
        # The products with weights, then the scores and the values that they weigh: tokens × hidden each.
        2 * tokens * (4 * hidden**2 + 2 * tokens * hidden),
        tokens * hidden,
        (11 + 2) * tokens * hidden + 5 * score_values,
        whole_parameters=whole,
        whole_values=5 * tokens * hidden,
    )
    width = _FEED_FORWARD * hidden
    mlp = ModelLayer(
        f"block{index} mlp",
        "dense",
        2 * hidden * width + width + hidden + 2 * hidden,
        2 * tokens * 2 * hidden * width,
        tokens * hidden,
        (19 + 2) * tokens * hidden,
        whole_parameters=whole,
        whole_values=5 * tokens * hidden,
    )
    return attention, mlp


def _encoder(
    name: str, hidden: int, heads: int, vocabulary: int, positions: int, types: int, source: str
) -> Model:
    """A BERT of 12 blocks with its pooler, on samples of 512 tokens in single precision."""
    return transformer(
        name,
        blocks=12,
        hidden=hidden,
        heads=heads,
        vocabulary=vocabulary,
        positions=positions,
        tokens=512,
        value_bytes=4,
        source=source,
        norms_outside=1,
        more_embeddings=types,
        head_parameters=hidden**2 + hidden,
    )


# RoBERTa counts positions from 2, after its padding index 1, hence 514; it has one type of segment, BERT two.
BERT = _encoder("BERT", 768, 12, 30_522, 512, 2, "Devlin et al., NAACL'19, BERT base, uncased")
ROBERTA = _encoder("RoBERTa", 768, 12, 50_265, 514, 1, "Liu et al., arXiv 1907.11692, RoBERTa base")
CAMEMBERT = _encoder("CamemBERT", 768, 12, 32_005, 514, 1, "Martin et al., ACL'20, CamemBERT base")
XLM = transformer(
    "XLM",
    blocks=12,
    hidden=1024,
    heads=8,
    vocabulary=95_000,
    positions=512,
    tokens=256,
    value_bytes=4,
    source="Conneau and Lample, NeurIPS'19, §5.1: 95k tokens of 15 languages, streams of 256 tokens",
    norms_outside=1,
    # A vector for each language, and a bias for each token.
    more_embeddings=15,
    head_parameters=95_000,
)

_GPT1_VOCABULARY, _GPT2_VOCABULARY = 40_478, 50_257  # byte pair encodings; GPT-3 uses that of GPT-2


def gpt(name: str, blocks: int, hidden: int, heads: int, tokens: int, source: str) -> Model:
    """A GPT-2 or GPT-3 in mixed precision, with a layer norm after its blocks."""
    return transformer(
        name,
        blocks=blocks,
        hidden=hidden,
        heads=heads,
        vocabulary=_GPT2_VOCABULARY,
        positions=tokens,
        tokens=tokens,
        value_bytes=2,
        source=source,
        norms_outside=1,
    )


def first_gpt(name: str, hidden: int, heads: int, source: str) -> Model:
    """A GPT-1 in mixed precision: 12 blocks, 512 tokens, no layer norm outside the blocks."""
    return transformer(
        name,
        blocks=12,
        hidden=hidden,
        heads=heads,
        vocabulary=_GPT1_VOCABULARY,
        positions=512,
        tokens=512,
        value_bytes=2,
        source=source,
    )


def _figure_1(panel: str, layers: int, memory_gb: int, hidden: int, of: str) -> str:
    return (
        f"NSDI'24 Fig 1({panel}): {layers} layers and {memory_gb} GB{of}, which a hidden size of {hidden} "
        f"gives at {MIXED_STATE_BYTES} bytes a parameter; 512 tokens, as the paper gives no length"
    )


GPT1 = first_gpt("GPT-1", 768, 12, "Radford et al., 2018, §4.1")
GPT2 = gpt("GPT-2", 48, 1600, 25, 1024, "Radford et al., 2019, Table 2, the largest")
GPT3 = gpt("GPT-3", 96, 12_288, 96, 2048, "Brown et al., NeurIPS'20, Table 2.1, 175B")

# Heads are as wide as in some published model of the family: 64 values in GPT-1 and GPT-2, 96 (Large) and 128
# in GPT-3 (Brown et al., Table 2.1).
GPT1_FIGURE_1A = first_gpt("GPT-1 (NSDI'24 Fig 1a)", 1856, 29, _figure_1("a", 12, 9, 1856, ""))
GPT2_FIGURE_1B = gpt("GPT-2 (NSDI'24 Fig 1b)", 24, 2304, 36, 512, _figure_1("b", 24, 27, 2304, ""))
GPT3_FIGURE_1C = gpt("GPT-3 (NSDI'24 Fig 1c)", 96, 1344, 14, 512, _figure_1("c", 96, 35, 1344, ""))
GPT3_FIGURE_1D = gpt(
    "GPT-3 (NSDI'24 Fig 1d)", 96, 2048, 16, 512, _figure_1("d", 96, 155, 2048, " in two replicas")
)
