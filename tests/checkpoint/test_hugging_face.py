"""Hugging Face folders read and written: names, sizes, refusals; without transformers."""

import json
import shutil

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import mtf_models as mtf
from mtf_models.checkpoint import HuggingFaceReader, Reader, is_hugging_face_folder
from mtf_models.checkpoint.architecture import Architecture
from mtf_models.checkpoint.hugging_face import write_hugging_face
from mtf_models.checkpoint.hugging_face_config import architecture_of, fields_of
from mtf_models.checkpoint.hugging_face_names import pairs
from mtf_models.checkpoint.safetensors_files import INDEX_FILE, SafetensorsFiles
from mtf_models.errors import CheckpointError

TINY = Architecture(
    vocab_size=128,
    d_model=32,
    d_kv=12,
    d_ff=48,
    num_heads=4,
    num_layers=2,
    num_decoder_layers=2,
    activation="gelu",
    gated=True,
    tied=False,
)
WEIGHTS = "model.safetensors"

# Fields as the published folders of these models have them, with what is alike in all left to
# COMMON, and their numbers of parameters.
COMMON = dict(
    decoder_start_token_id=0,
    dropout_rate=0.1,
    eos_token_id=1,
    initializer_factor=1.0,
    is_encoder_decoder=True,
    layer_norm_epsilon=1e-06,
    pad_token_id=0,
    relative_attention_num_buckets=32,
    d_kv=64,
    use_cache=True,
)
SMALL = dict(d_model=512, d_ff=1024, num_heads=6, num_layers=8, num_decoder_layers=8)
PUBLISHED = {
    "t5-small": (
        dict(
            **dict(d_model=512, d_ff=2048, num_heads=8, num_layers=6, vocab_size=32128),
            **dict(model_type="t5", architectures=["T5ForConditionalGeneration"]),
            **dict(n_positions=512, output_past=True),
            task_specific_params={"summarization": {"prefix": "summarize: ", "num_beams": 4}},
        ),
        60_506_624,
    ),
    "flan-t5-small": (
        dict(
            **SMALL,
            **dict(model_type="t5", architectures=["T5ForConditionalGeneration"]),
            **dict(vocab_size=32128, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
            **dict(n_positions=512, output_past=True, relative_attention_max_distance=128),
            **dict(torch_dtype="float32", transformers_version="4.23.1", task_specific_params={}),
        ),
        76_961_152,
    ),
    "mt5-small": (
        dict(
            **SMALL,
            **dict(model_type="mt5", architectures=["MT5ForConditionalGeneration"]),
            **dict(vocab_size=250112, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
            **dict(tokenizer_class="T5Tokenizer", _name_or_path="mt5-small"),
        ),
        300_176_768,
    ),
    "umt5-small": (
        dict(
            **SMALL,
            **dict(model_type="umt5", architectures=["UMT5ForConditionalGeneration"]),
            **dict(vocab_size=256384, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
            **dict(dense_act_fn="gelu_new", is_gated_act=True, scalable_attention=True),
        ),
        # mT5's, 6,272 rows more in two tables, and 14 more biases of 32 buckets and 6 heads.
        300_176_768 + 2 * 6272 * 512 + 14 * 32 * 6,
    ),
    "switch-base-8": (
        dict(
            **dict(d_model=768, d_ff=3072, num_heads=12, num_layers=12, num_decoder_layers=12),
            **dict(model_type="switch_transformers", num_experts=8, expert_capacity=64),
            architectures=["SwitchTransformersForConditionalGeneration"],
            **dict(num_sparse_encoder_layers=6, num_sparse_decoder_layers=6),
            **dict(encoder_sparse_step=2, decoder_sparse_step=2, vocab_size=32128),
            **dict(feed_forward_proj="relu", dense_act_fn="relu", is_gated_act=False),
            **dict(router_aux_loss_coef=0.001, router_bias=False, router_dtype="float32"),
            **dict(router_ignore_padding_tokens=False, router_jitter_noise=0.01),
            **dict(router_type="tokens_masked", router_z_loss_coef=0.001, add_router_probs=False),
            **dict(batch_prioritized_routing=False, output_past=True),
        ),
        # T5 1.0 base's, 7 more experts in each of 12 layers, and 12 routers.
        222_903_552 + 12 * 7 * 2 * 768 * 3072 + 12 * 768 * 8,
    ),
}


@pytest.fixture
def reader(fixtures_dir):
    return Reader(fixtures_dir / "t5_1_1_tiny" / "model.ckpt-0")


@pytest.fixture
def folder(tmp_path, reader):
    """A good folder, to be spoilt."""
    folder = tmp_path / "good"
    folder.mkdir()
    write_hugging_face(folder, TINY, reader, {})
    return folder


def change_config(folder, **fields):
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


def change_weights(folder, change):
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)


def fault(folder):
    with pytest.raises(CheckpointError) as caught:
        HuggingFaceReader(folder)
    return str(caught.value)


def test_values_and_their_order(folder, reader):
    tensors = load_file(folder / WEIGHTS)
    q = reader.read("encoder/block_001/layer_000/SelfAttention/q")
    assert q.shape == (32, 48)
    np.testing.assert_array_equal(tensors["encoder.block.1.layer.0.SelfAttention.q.weight"], q.T)
    bias = reader.read("decoder/block_000/layer_000/SelfAttention/relative_attention_bias")
    name = "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    assert bias.shape == (4, 32)
    np.testing.assert_array_equal(tensors[name], bias.T)
    np.testing.assert_array_equal(tensors["shared.weight"], reader.read("shared/embedding"))
    back = HuggingFaceReader(folder)
    assert back.architecture == TINY
    for name in back.names:
        np.testing.assert_array_equal(back.read(name), reader.read(name), err_msg=name)


def test_names_of_every_kind():
    """Spelt out, as the two packages have them."""
    table = {p.ours: p.theirs for p in pairs(TINY)}
    assert table["decoder/block_001/layer_001/EncDecAttention/o"] == (
        "decoder.block.1.layer.1.EncDecAttention.o.weight",
    )
    assert table["decoder/block_001/layer_002/DenseReluDense/wi_1/kernel"] == (
        "decoder.block.1.layer.2.DenseReluDense.wi_1.weight",
    )
    assert table["encoder/block_000/layer_001/rms_norm/scale"] == (
        "encoder.block.0.layer.1.layer_norm.weight",
    )
    assert table["decoder/rms_norm/scale"] == ("decoder.final_layer_norm.weight",)
    assert table["decoder/logits/kernel"] == ("lm_head.weight",)
    assert "encoder/block_001/layer_000/SelfAttention/relative_attention_bias" not in table


def test_names_of_experts():
    """Every second block of theirs is sparse; two of them make one of ours."""
    switch = Architecture(
        model_type="switch_transformers",
        **dict(vocab_size=8, d_model=4, d_kv=2, d_ff=6, num_heads=2),
        **dict(num_layers=4, num_decoder_layers=4, num_experts=3, expert_capacity=64),
        **dict(encoder_step=2, decoder_step=2),
    )
    table = {p.ours: p for p in pairs(switch)}
    wi = table["encoder/block_001/layer_003/MoE1D/wi/kernel"]
    assert wi.theirs == tuple(
        f"encoder.block.3.layer.1.mlp.experts.expert_{e}.wi.weight" for e in range(3)
    )
    assert wi.shape == (3, 4, 6)
    tensors = [np.random.default_rng(e).normal(size=(6, 4)) for e in range(3)]
    value = wi.to_ours(tensors)
    np.testing.assert_array_equal(value[2], tensors[2].T)
    np.testing.assert_array_equal(wi.to_theirs(value, 2), tensors[2])
    router = table["decoder/block_000/layer_005/MoE1D/switch_gating/kernel"]
    assert (router.theirs, router.shape) == (
        ("decoder.block.1.layer.2.mlp.router.classifier.weight",),
        (4, 3),
    )
    dense = table["decoder/block_001/layer_002/DenseReluDense/wo/kernel"]
    assert dense.theirs == ("decoder.block.2.layer.2.mlp.wo.weight",)


def test_shards(tmp_path, reader, folder):
    (tmp_path / "shards").mkdir()
    write_hugging_face(tmp_path / "shards", TINY, reader, {}, shard_bytes=30_000)
    files = sorted(tmp_path.glob("shards/*.safetensors"))
    assert len(files) > 3
    assert max(file.stat().st_size for file in files) < 40_000
    whole = load_file(folder / WEIGHTS)
    found = SafetensorsFiles(tmp_path / "shards")
    assert found.names == sorted(whole)
    for name, value in whole.items():
        np.testing.assert_array_equal(found.read(name), value)
    files[1].unlink()
    files[2].write_bytes(files[2].read_bytes()[:-1])
    text = fault(tmp_path / "shards")
    assert f"{files[1].name} is missing" in text
    assert f"{files[2].name} is damaged" in text


def test_an_index_that_lies(tmp_path, reader):
    write_hugging_face(tmp_path, TINY, reader, {}, shard_bytes=30_000)
    index = json.loads((tmp_path / INDEX_FILE).read_text())
    index["weight_map"]["nowhere"] = index["weight_map"].pop("lm_head.weight")
    (tmp_path / INDEX_FILE).write_text(json.dumps(index))
    text = fault(tmp_path)
    assert "nowhere is in no file" in text
    assert f"lm_head.weight is not in {INDEX_FILE}" in text


def test_bfloat16_stays(folder):
    change_weights(
        folder, lambda t: t.update({k: v.astype(ml_dtypes.bfloat16) for k, v in t.items()})
    )
    reader = HuggingFaceReader(folder)
    assert reader.weights_dtype == "bfloat16"
    assert reader.read("decoder/logits/kernel").dtype == ml_dtypes.bfloat16


def test_all_tensors_that_do_not_fit_are_listed(folder):
    def change(tensors):
        tensors["surplus.weight"] = np.zeros([2], np.float32)
        del tensors["encoder.final_layer_norm.weight"]
        name = "decoder.block.0.layer.0.SelfAttention.q.weight"
        tensors[name] = tensors[name].T.copy()

    change_weights(folder, change)
    text = fault(folder)
    assert "left over: surplus.weight [2]" in text
    assert "missing: encoder.final_layer_norm.weight [32]" in text
    assert (
        "different: decoder.block.0.layer.0.SelfAttention.q.weight is [32, 48], not [48, 32]"
        in text
    )


def test_tensors_under_several_names(folder):
    change_weights(
        folder,
        lambda t: t.update({"encoder.embed_tokens.weight": t["shared.weight"].copy()}),
    )
    assert HuggingFaceReader(folder).architecture == TINY
    change_weights(folder, lambda t: t.pop("shared.weight"))
    HuggingFaceReader(folder).read("shared/embedding")
    change_weights(
        folder, lambda t: t.update({"shared.weight": t["encoder.embed_tokens.weight"] + 1})
    )
    assert "encoder.embed_tokens.weight differs from shared.weight" in fault(folder)


def test_a_tensor_that_transformers_ignores(folder):
    name = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    change_weights(folder, lambda t: t.update({name: np.zeros([32, 4], np.float32)}))
    assert "EncDecAttention/relative" not in " ".join(HuggingFaceReader(folder).names)


def test_damaged_files(folder):
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(content[: len(content) // 2])
    assert "model.safetensors is damaged" in fault(folder)
    (folder / WEIGHTS).write_bytes(b"")
    assert "model.safetensors is damaged" in fault(folder)
    (folder / "config.json").write_text("{")
    assert "config.json cannot be read" in fault(folder)


def test_pickles_are_refused_by_name(folder):
    (folder / WEIGHTS).unlink()
    assert "no model.safetensors" in fault(folder)
    for name in ("pytorch_model.bin", "model.pt"):
        (folder / name).write_bytes(b"\x80\x04never opened")
    text = fault(folder)
    assert "pytorch_model.bin" in text and "model.pt" in text and "never opened" in text


def test_fields_that_cannot_be_had_are_all_listed(folder):
    change_config(
        folder,
        relative_attention_max_distance=256,
        rope_theta=1e4,
        dense_act_fn="gelu",
        eos_token_id=2,
        num_heads="four",
        architectures=["T5EncoderModel"],
    )
    text = fault(folder)
    for part in (
        "relative_attention_max_distance = 256 (only 128)",
        "rope_theta = 10000.0 (not known here)",
        "activation 'gelu'",
        "eos_token_id = 2",
        'num_heads = "four" (only a whole number from 1)',
        "architectures: T5EncoderModel (only T5ForConditionalGeneration",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("model_type", "parts"),
    [
        ("llama", ["t5, mt5, umt5", "gpt2, bert"]),
        (None, ["t5, mt5, umt5"]),
    ],
)
def test_other_families(folder, model_type, parts):
    change_config(folder, model_type=model_type)
    text = fault(folder)
    assert all(part in text for part in parts)


def test_fields_without_effect(folder):
    change_config(
        folder,
        n_positions=512,
        output_past=True,
        torch_dtype="bfloat16",
        num_beams=4,
        task_specific_params={"summarization": {"prefix": "summarize: "}},
    )
    assert HuggingFaceReader(folder).architecture == TINY


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_configs(name):
    fields, parameters = PUBLISHED[name]
    own_matrix = fields.get("tie_word_embeddings") is False
    table = pairs(architecture_of({**COMMON, **fields}, own_matrix))
    assert sum(int(np.prod(pair.shape)) for pair in table) == parameters
    names = [name for pair in table for name in pair.theirs]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("fields", "own_matrix", "tied"),
    [
        # transformers scales by d_model^-½ unless tie_word_embeddings is false ...
        (dict(model_type="t5"), False, True),
        (dict(model_type="t5", tie_word_embeddings=False), True, False),
        # ... version 5 writes it as true always, and the scale apart ...
        (dict(model_type="t5", tie_word_embeddings=True, scale_decoder_outputs=False), True, False),
        (dict(model_type="umt5", tie_word_embeddings=False), True, False),
        # ... tied without a scale becomes a matrix of its own here ...
        (dict(model_type="t5", tie_word_embeddings=False), False, False),
        # ... and mT5 has no scale since version 5.
        (dict(model_type="mt5", tie_word_embeddings=True), True, False),
        (dict(model_type="mt5", transformers_version="5.24.0"), False, False),
        (dict(model_type="mt5", transformers_version="4.40.1"), False, True),
    ],
)
def test_tying(fields, own_matrix, tied):
    assert architecture_of(fields, own_matrix).tied is tied


def test_a_mesh_gets_the_same_values(folder):
    mesh = mtf.Mesh("batch:2;model:2", layout="batch:batch,heads:model,d_ff:model,vocab:model")
    one, split = mtf.load_model(folder), mtf.load_model(folder, mesh=mesh)
    assert sum(any(variable.layout) for variable in split.variables.values()) > 20
    for name, variable in one.variables.items():
        np.testing.assert_array_equal(variable.numpy(), split.variables[name].numpy())
    with pytest.raises(CheckpointError, match="no steps"):
        mtf.load_model(folder, step=0)


def test_a_scaled_matrix_of_its_own_is_refused(folder):
    change_config(folder, tie_word_embeddings=True)
    assert "lm_head.weight is a matrix of its own" in fault(folder)


@pytest.mark.parametrize(
    ("fields", "activation", "gated"),
    [
        (dict(model_type="t5"), "relu", False),
        (dict(model_type="t5", feed_forward_proj="gated-gelu"), "gelu", True),
        (dict(model_type="t5", feed_forward_proj="gated-silu"), "swish", True),
        (dict(model_type="t5", dense_act_fn="gelu_new", is_gated_act=True), "gelu", True),
        (dict(model_type="mt5"), "gelu", True),
        (dict(model_type="umt5", feed_forward_proj="relu"), "relu", False),
    ],
)
def test_activations(fields, activation, gated):
    found = architecture_of(fields, False)
    assert (found.activation, found.gated) == (activation, gated)
    again = architecture_of({**fields_of(found, "float32")}, not found.tied)
    assert (again.activation, again.gated) == (activation, gated)


def test_which_folders_are_meant(folder, fixtures_dir, tmp_path):
    assert is_hugging_face_folder(folder)
    both = tmp_path / "both"
    shutil.copytree(fixtures_dir / "t5_1_1_tiny", both)
    shutil.copy(folder / "config.json", both)
    assert not is_hugging_face_folder(both)
    assert not is_hugging_face_folder(tmp_path)
