"""What `mtf zoo` prints: every class and config with its headline, and counts that are right."""

import pytest

import mtf_models as mtf
from mtf_models.errors import ConfigError
from mtf_models.gin_files import folder
from mtf_models.runtime.model import zoo
from mtf_models.runtime.model.catalogue import catalogue, classes, parameters
from mtf_models.transformer.attention import SelfAttention
from mtf_models.transformer.moe.layer import MoE1D


@pytest.mark.parametrize(
    "name, count",  # of the released checkpoints
    [("t5.1.0.small", 60_506_624), ("t5.1.1.base", 247_577_856), ("mt5.small", 300_176_768)],
)
def test_counts_are_those_of_released_checkpoints(name, count):
    assert zoo.description(name).startswith(f"models/{name}.gin: {count:,} parameters\n")


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["gemma2.2b", "modernbert", "switch.base.8"])
def test_two_blocks_tell_the_count_of_all(name):
    path = folder() / "models" / f"{name}.gin"
    assert zoo._count(path) == f"{mtf.build_model([str(path)]).parameters:,}"


def test_every_entry_has_a_line():
    for kind, entries in catalogue().items():
        assert entries, kind
        for name, target in entries.items():
            assert len(zoo._first_line(target)) > 10, name
    listed = {target for entries in catalogue().values() for target in entries.values()}
    assert classes() <= listed


def test_every_config_has_a_headline():
    for kind in ("models", "examples"):
        for path in (folder() / kind).glob("*.gin"):
            assert zoo._headline(path).endswith("."), path


def test_headlines_are_whole_sentences(tmp_path):
    config = tmp_path / "a.gin"
    config.write_text(
        "# Of Devlin et\n# al. 2019, https://a.b/1.2, table 3.\n# Not this.\n\nx = 1\n"
    )
    assert zoo._headline(config) == "Of Devlin et al. 2019, https://a.b/1.2, table 3."


def test_narrow_lines_lose_nothing():
    whole, narrow = list(zoo.overview()), list(zoo.overview(100))
    assert max(map(len, narrow)) <= 100 < max(map(len, whole))
    assert " ".join(narrow).split() == " ".join(whole).split()


def test_one_class_in_full():
    text = zoo.description("MoE1D")
    assert text.startswith("MoE1D\n\nA mixture whose experts are feed-forward layers")
    assert "  MoE1D.num_experts = 16\n" in text
    assert parameters(MoE1D)["moe_gating"] == "top_2"
    assert parameters(SelfAttention)["rotary_base"] == 10000.0
    assert "SelfAttention.num_heads = 8" in zoo.description("SelfAttention")
    # A subclass has those of its parents that it hands on.
    assert "EncDecAttention.num_heads = 8" in zoo.description("EncDecAttention")
    assert "layers = (must be bound)" in zoo.description("LayerStack")
    assert "sublayer_rms_norm.epsilon = 1e-06" in zoo.description("sublayer_rms_norm")
    assert "Fedus et al. 2021" in zoo.description("switch")


def test_a_name_that_is_not_there():
    with pytest.raises(ConfigError, match="'SelfAtention'.*did you mean SelfAttention"):
        zoo.description("SelfAtention")
