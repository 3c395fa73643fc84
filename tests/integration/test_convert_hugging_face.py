"""`mtf convert` to and from Hugging Face's format: what is refused, and that nothing stays then."""

import json
import subprocess
import sys

import numpy as np
import pytest
from commands import mtf as command
from safetensors.numpy import load_file, save_file

import mtf_models as mtf
from mtf_models.errors import CheckpointError
from mtf_models.runtime.conversion import hugging_face
from mtf_models.runtime.conversion.compare_logits import Comparison

TINY = ["d_model = 8", "d_ff = 8", "num_heads = 2", "d_kv = 4", "num_layers = 1"]
TOKENIZE = """
import json, sys
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
print(json.dumps([len(tokenizer), tokenizer(sys.argv[2]).input_ids]))
"""


@pytest.fixture(autouse=True)
def uncompared(monkeypatch):
    """transformers need not be here."""
    nothing = Comparison(compared=False, reason="not here")
    monkeypatch.setattr(hugging_face, "compare", lambda *_: nothing)


@pytest.fixture
def theirs(fixtures_dir, tmp_path):
    """A folder of Hugging Face's kind."""
    source = fixtures_dir / "t5_1_1_tiny"
    outcome = convert(source, tmp_path / "theirs", "--to=hugging_face")
    assert outcome.status == 0, outcome.err
    return tmp_path / "theirs"


@pytest.fixture
def saved(tmp_path):
    """Saves a fresh model of gin files and bindings as a run folder."""

    def save(*params, file="models/t5.1.1.base.gin"):
        model = mtf.build_model([file], [*TINY, *params])
        mtf.Trainer(model, learning_rate=0.1).save(tmp_path / "run")
        return tmp_path / "run"

    return save


def convert(source, output, *words):
    return command("convert", source, *words, f"--output={output}")


def refused(source, output, *words):
    """The message of a conversion that leaves nothing."""
    before = sorted(output.parent.iterdir())
    outcome = convert(source, output, *words)
    assert outcome.status == 2
    assert sorted(output.parent.iterdir()) == before
    return outcome.err


def test_what_is_said(fixtures_dir, tmp_path):
    source = fixtures_dir / "t5_1_1_tiny"
    outcome = convert(source, tmp_path / "theirs", "--to=hugging_face")
    assert "left out   " in outcome.out and "optimizer slots" in outcome.out
    assert "tokenizer  none: the config names no task" in outcome.out
    assert "logits     not compared: not here" in outcome.out
    report = json.loads((tmp_path / "theirs" / "conversion.json").read_text())
    assert report["comparison"] == {
        "compared": False,
        "reason": "not here",
        "largest_difference": None,
        "largest_logit": None,
    }
    outcome = convert(tmp_path / "theirs", tmp_path / "ours", "--global_step=7")
    assert "ours/model.ckpt-7" in outcome.out
    info = (tmp_path / "ours" / "model-info.txt").read_text()
    assert "encoder/block_000/layer_000/SelfAttention/q [" in info
    first, last = (mtf.load_model(folder) for folder in (source, tmp_path / "ours"))
    for name, variable in first.variables.items():
        np.testing.assert_array_equal(variable.numpy(), last.variables[name].numpy())


def test_a_fault_of_the_source_leaves_nothing(theirs, tmp_path):
    tensors = load_file(theirs / "model.safetensors")
    save_file({**tensors, "surplus": np.zeros(3)[:0].astype("f4")}, theirs / "model.safetensors")
    assert "left over: surplus [0]" in refused(theirs, tmp_path / "ours")
    (theirs / "model.safetensors").write_bytes(b"12345678")
    assert "model.safetensors is damaged" in refused(theirs, tmp_path / "ours")
    (theirs / "model.safetensors").rename(theirs / "pytorch_model.bin")
    assert "never opened: pytorch_model.bin" in refused(theirs, tmp_path / "ours")


def test_arguments_for_checkpoints_are_refused(theirs):
    with pytest.raises(CheckpointError, match="leave out step=1 and allow_partial=True"):
        mtf.load_model(theirs, step=1, allow_partial=True)


def test_a_disagreement_leaves_nothing(theirs, fixtures_dir, tmp_path, monkeypatch):
    def disagree(*_):
        raise CheckpointError("The converted model does not compute what its source does.")

    monkeypatch.setattr(hugging_face, "compare", disagree)
    assert "does not compute" in refused(theirs, tmp_path / "ours")
    source = fixtures_dir / "t5_1_1_tiny"
    assert "does not compute" in refused(source, tmp_path / "again", "--to=hugging_face")


def test_nothing_is_written_over(theirs, fixtures_dir, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    for source, words in ((theirs, ()), (fixtures_dir / "t5_1_1_tiny", ("--to=hugging_face",))):
        assert "is not empty" in refused(source, tmp_path / "full", *words)
    assert [file.name for file in (tmp_path / "full").iterdir()] == ["mine.txt"]


def test_flags_of_other_conversions(theirs, fixtures_dir, tmp_path):
    text = refused(theirs, tmp_path / "out", "--dtype=bfloat16", "--keep_slots")
    assert "--dtype, --keep_slots" in text
    source = fixtures_dir / "t5_1_1_tiny"
    text = refused(source, tmp_path / "out", source, "--average", "--to=hugging_face")
    assert "2 sources" in text
    assert "several formats" in refused(source, tmp_path / "out", theirs)
    assert "no conversion from hugging_face" in refused(
        theirs, tmp_path / "out", "--to=hugging_face"
    )


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("lm_tiny", ["gpt2 cannot have", "SelfAttention.use_bias = False"]),
        ("shared_kv", ["SelfAttention.shared_kv = True", "SelfAttention.combine_dims = False"]),
    ],
)
def test_models_that_have_no_counterpart(fixtures_dir, tmp_path, name, parts):
    text = refused(fixtures_dir / name, tmp_path / "out", "--to=hugging_face")
    for part in parts:
        assert part in text


def test_parameters_that_have_no_counterpart(saved, tmp_path):
    folder = saved(
        'SelfAttention.attention_kwargs = {"extra_logit": 0.0}',
        "VocabEmbedding.scale_variable_like_classifier_weights = True",
        "encoder/SelfAttention.relative_attention_num_buckets = 16",
    )
    text = refused(folder, tmp_path / "out", "--to=hugging_face")
    for part in (
        "encoder/SelfAttention.attention_kwargs = {'extra_logit': 0.0}",
        "VocabEmbedding.scale_variable_like_classifier_weights = True",
        "decoder/SelfAttention.relative_attention_num_buckets = 32",
    ):
        assert part in text


def test_an_unknown_activation(saved, tmp_path):
    folder = saved('DenseReluDense.activation = ["selu", "linear"]')
    assert "'selu'" in refused(folder, tmp_path / "out", "--to=hugging_face")


def test_padding_beyond_the_config_is_left_out(saved, tmp_path):
    sizes = [f"make_bitransformer.{side}_vocab_size = 100" for side in ("input", "output")]
    folder = saved(*sizes, "Unitransformer.pad_vocab_multiple = 96")
    assert convert(folder, tmp_path / "theirs", "--to=hugging_face").status == 0
    tensors = load_file(tmp_path / "theirs" / "model.safetensors")
    assert tensors["shared.weight"].shape == tensors["lm_head.weight"].shape == (128, 8)
    model = mtf.load_model(folder)
    assert model.variables["shared/embedding"].shape.to_integer_list == [384, 8]
    right = model.variables["shared/embedding"].numpy()[:128]
    np.testing.assert_array_equal(tensors["shared.weight"], right)
    generation = json.loads((tmp_path / "theirs" / "generation_config.json").read_text())
    assert generation["suppress_tokens"] == list(range(100, 128))


def test_the_tokenizer_goes_with_it(saved, tmp_path):
    """The task's pieces; the ids are those that SeqIO gives."""
    folder = saved(file="examples/kjv_web_tiny.gin")
    outcome = convert(folder, tmp_path / "theirs", "--to=hugging_face")
    assert "spiece.model, with 100 extra ids" in outcome.out
    outcome = convert(tmp_path / "theirs", tmp_path / "ours")
    assert "spiece.model (seqio" in outcome.out
    pieces = [(tmp_path / n / "spiece.model").read_bytes() for n in ("theirs", "ours")]
    assert pieces[0] == pieces[1]
    from mtf_models.data.tasks import get_task_or_mixture

    vocabulary = get_task_or_mixture("kjv_web").output_features["inputs"].vocabulary
    text = "In the beginning God created the heaven and the earth <extra_id_0>"
    # In a process of its own: TensorFlow and what transformers loads do not go into one.
    words = [sys.executable, "-c", TOKENIZE, tmp_path / "theirs", text]
    found = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert json.loads(found) == [vocabulary.vocab_size, [*vocabulary.encode(text), 1]]


def test_two_vocabularies_have_no_counterpart(saved, tmp_path):
    folder = saved(file="examples/g2p_tiny.gin")
    text = refused(folder, tmp_path / "out", "--to=hugging_face")
    assert "Inputs have 259 ids and targets 42" in text
