"""Operative configs that the original wrote, unmodified: they parse, and build what it built."""

from pathlib import Path
from typing import NamedTuple

import pytest

import mtf_models as mtf
from mtf_models.config import parse, parse_text

FOLDER = Path(__file__).parent / "data" / "operative"


class Recorded(NamedTuple):
    """What the original said of a model: its kind, and what its checkpoint holds."""

    model_type: str
    vocabulary: int
    variables: int
    parameters: int


MODELS = {
    "aligned_bert_tiny": Recorded("aligned", 100, 23, 21_472),
    "bi_switch_tiny": Recorded("bitransformer", 100, 49, 60_288),
    "contextual_relative": Recorded("bitransformer", 60, 49, 13_504),
    "conv_layers": Recorded("lm", 60, 31, 6_544),
    "encdec_span_bias": Recorded("bitransformer", 60, 49, 11_968),
    "ensemble": Recorded("bitransformer", 60, 47, 23_424),
    "evolved_encoder": Recorded("bitransformer", 60, 48, 10_296),
    "experts_attention": Recorded("bitransformer", 60, 49, 14_848),
    "fixup": Recorded("bitransformer", 60, 49, 11_714),
    "funnel": Recorded("bitransformer", 90, 47, 15_744),
    "general_bilinear": Recorded("bitransformer", 60, 33, 14_528),
    "learned_positions_shared": Recorded("bitransformer", 60, 46, 11_680),
    "legacy_norm_names": Recorded("bitransformer", 60, 47, 11_712),
    "lightweight_conv": Recorded("bitransformer", 60, 62, 11_840),
    "lm_tiny": Recorded("lm", 100, 27, 29_024),
    "lm_top2_tiny": Recorded("lm", 100, 21, 33_312),
    "local_attention_tiny": Recorded("lm", 100, 19, 21_536),
    "memory_layer": Recorded("bitransformer", 90, 38, 11_622),
    "moe_ntlb": Recorded("lm", 110, 21, 11_568),
    "moe_top_n": Recorded("lm", 110, 21, 11_568),
    "multi_query": Recorded("bitransformer", 60, 49, 9_664),
    "named_adapter_layers": Recorded("bitransformer", 60, 53, 12_256),
    "optimizer_Momentum": Recorded("bitransformer", 100, 26, 6_896),
    "parallel_layers": Recorded("bitransformer", 90, 43, 15_680),
    "recompute_grads": Recorded("bitransformer", 60, 47, 11_712),
    "shared_encoder_decoder": Recorded("bitransformer", 60, 29, 7_920),
    "shared_kv": Recorded("bitransformer", 60, 41, 10_176),
    "student_teacher": Recorded("bi_student_teacher", 60, 115, 28_112),
    "sublayers_subsampled_norm": Recorded("bitransformer", 60, 47, 11_712),
    "t5_1_0_tiny": Recorded("bitransformer", 100, 47, 45_696),
    "t5_1_1_tiny": Recorded("bitransformer", 100, 52, 64_128),
    "talking_heads": Recorded("bitransformer", 90, 64, 20_668),
    "universal_transformer_act_basic": Recorded("bitransformer", 90, 39, 9_250),
    "universal_transformer_basic": Recorded("bitransformer", 90, 35, 9_216),
    "vocab_mixture_of_softmaxes": Recorded("bitransformer", 128, 49, 16_560),
}


@pytest.fixture(autouse=True)
def registered(zoo):
    return zoo


def test_every_config_is_listed():
    assert sorted(path.stem for path in FOLDER.glob("*.gin")) == sorted([*MODELS, "cli_run_tiny"])


@pytest.mark.parametrize("name", MODELS)
def test_a_config_is_read_and_written_without_loss(name):
    config = parse([str(FOLDER / f"{name}.gin")])
    assert parse_text(config.text()).differences(config) == []


@pytest.mark.parametrize("name", MODELS)
def test_a_config_builds_the_model_of_its_checkpoint(name):
    recorded = MODELS[name]
    model = mtf.build_model(
        [str(FOLDER / f"{name}.gin")],
        [
            f"run.model_type = {recorded.model_type!r}",
            f"make_bitransformer.input_vocab_size = {recorded.vocabulary}",
            f"make_bitransformer.output_vocab_size = {recorded.vocabulary}",
        ],
    )
    assert len(model.variables) == recorded.variables
    assert sum(v.shape.size for v in model.variables.values()) == recorded.parameters


def test_the_config_of_a_run():
    config = parse([str(FOLDER / "cli_run_tiny.gin")])
    assert config.query("run.model_type") == "bitransformer"
    assert config.query("run.mesh_shape") == "batch:1,model:1"
    assert config.query("run.train_steps") == 3
    assert config.query("run.sequence_length") == {"inputs": 12, "targets": 10}
