"""The models: their layers add up to what their papers and reference implementations print."""

import pytest

from hocket.training.models import language, vision
from hocket.training.models.model import Model
from hocket.training.models.recommendation import DLRM, DLRM_HOTI22

MIB = 2**20

# Parameters as torchvision and Hugging Face count them; for XLM of the 15 languages the XLM-R paper prints
# 250M (Conneau et al., ACL'20, Table 1), for GPT-3 its own paper 175.0B.
PUBLISHED = [
    (vision.VGG11, 132_863_336),
    (vision.VGG16, 138_357_544),
    (vision.VGG19, 143_667_240),
    (vision.RESNET50, 25_557_032),
    (vision.WIDE_RESNET101, 126_886_696),
    (language.BERT, 109_482_240),
    (language.ROBERTA, 124_645_632),
    (language.CAMEMBERT, 110_621_952),
    (language.GPT1, 116_534_784),
    (language.GPT2, 1_557_611_200),
    (language.GPT3, 174_604_259_328),
]

# Multiply-adds of a forward pass in 10⁹, as torchvision lists them.
MULTIPLY_ADDS = [
    (vision.VGG11, 7.609),
    (vision.VGG16, 15.470),
    (vision.VGG19, 19.632),
    (vision.RESNET50, 4.089),
    (vision.WIDE_RESNET101, 22.753),
]

MODELS = [model for model, _ in PUBLISHED] + [
    language.XLM,
    language.GPT1_FIGURE_1A,
    language.GPT2_FIGURE_1B,
    language.GPT3_FIGURE_1C,
    language.GPT3_FIGURE_1D,
]


@pytest.mark.parametrize(("model", "parameters"), PUBLISHED, ids=lambda each: getattr(each, "name", ""))
def test_a_model_has_as_many_parameters_as_published(model: Model, parameters: int) -> None:
    assert model.parameters == parameters


def test_xlm_and_gpt_3_have_the_parameters_of_their_papers_to_three_digits() -> None:
    assert language.XLM.parameters == pytest.approx(250e6, rel=0.005)
    assert language.GPT3.parameters == pytest.approx(175.0e9, rel=0.005)


@pytest.mark.parametrize(("model", "giga"), MULTIPLY_ADDS, ids=lambda each: getattr(each, "name", ""))
def test_a_forward_pass_has_the_multiply_adds_that_torchvision_lists(model: Model, giga: float) -> None:
    assert model.forward_flops / 2e9 == pytest.approx(giga, abs=0.0006)


def test_a_token_costs_a_gpt_two_operations_per_weight_and_those_of_attention() -> None:
    # Kaplan et al., arXiv 2001.08361, §2.1: 2N + 2 n_layer n_ctx d_attn forward, half of which are needed
    # under the causal mask; here all are computed.
    weights = 96 * 12 * 12_288**2 + 50_257 * 12_288
    per_token = 2 * weights + 4 * 96 * 2048 * 12_288
    assert language.GPT3.forward_flops == 2048 * per_token


@pytest.mark.parametrize(
    ("model", "replicas", "memory_gb"),
    [
        (language.GPT1_FIGURE_1A, 1, 9),
        (language.GPT2_FIGURE_1B, 1, 27),
        (language.GPT3_FIGURE_1C, 1, 35),
        (language.GPT3_FIGURE_1D, 2, 155),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_the_gpts_of_figure_1_fill_the_memory_printed_there(
    model: Model, replicas: int, memory_gb: int
) -> None:
    assert replicas * language.MIXED_STATE_BYTES * model.parameters / 1e9 == pytest.approx(
        memory_gb, rel=0.03
    )


@pytest.mark.parametrize("model", MODELS, ids=lambda each: getattr(each, "name", ""))
def test_no_part_of_a_layer_is_larger_than_the_layer(model: Model) -> None:
    for layer in model.layers:
        assert 0 <= layer.whole_parameters <= layer.parameters
        assert 0 <= layer.whole_values <= layer.memory_values
        assert layer.output_values > 0
    assert len({layer.name for layer in model.layers}) == len(model.layers)


def test_vgg16_weighs_the_528_mb_of_nsdi24_table_3() -> None:
    assert vision.VGG16.parameters * vision.VGG16.value_bytes / MIB == pytest.approx(528, abs=0.5)


def test_dlrm_of_criteo_kaggle_has_540_million_parameters_almost_all_in_tables() -> None:
    # 33,762,577 rows of 16 values; MLPs 13-512-256-64-16 and 367-512-256-1 with biases.
    assert DLRM.embedding_parameters == 33_762_577 * 16
    bottom = 14 * 512 + 513 * 256 + 257 * 64 + 65 * 16
    top = 368 * 512 + 513 * 256 + 257
    assert DLRM.mlp_parameters == bottom + top == 475_985


def test_dlrm_of_hoti22_has_57_million_weights_in_its_mlps() -> None:
    bottom = 1600 * 1024 + 5 * 1024**2 + 1024 * 64
    top = 65 * 64 * 2048 + 10 * 2048**2 + 2048
    assert DLRM_HOTI22.mlp_parameters == bottom + top == 57_411_584
    assert len(DLRM_HOTI22.bottom) - 1 == 5 + 2
    assert len(DLRM_HOTI22.top) - 1 == 10 + 2
