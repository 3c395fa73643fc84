"""Our gin files: every one parses, and the sizes of the models are those of their papers."""

import pytest

from mtf_models.config import parse
from mtf_models.config.search import t5_folder
from mtf_models.gin_files import folder

FILES = sorted(str(path.relative_to(folder())) for path in folder().glob("*/*.gin"))
SIZES = ("d_model", "num_layers", "d_ff", "num_heads", "d_kv")


@pytest.fixture(autouse=True)
def registered(zoo):
    return zoo


@pytest.mark.parametrize("file", FILES)
def test_every_file_parses_and_drops_nothing(file):
    params = ["MIXTURE_NAME = 'a_task'"] if file == "examples/dataset.gin" else []
    assert parse([file], params).notices == ()


@pytest.mark.parametrize(
    ("file", "sizes"),
    [
        ("t5.1.0.small", (512, 6, 2048, 8, 64)),
        ("t5.1.0.base", (768, 12, 3072, 12, 64)),
        ("t5.1.0.large", (1024, 24, 4096, 16, 64)),
        ("t5.1.0.3B", (1024, 24, 16384, 32, 128)),
        ("t5.1.0.11B", (1024, 24, 65536, 128, 128)),
        ("t5.1.1.small", (512, 8, 1024, 6, 64)),
        ("t5.1.1.base", (768, 12, 2048, 12, 64)),
        ("t5.1.1.large", (1024, 24, 2816, 16, 64)),
        ("t5.1.1.xl", (2048, 24, 5120, 32, 64)),
        ("t5.1.1.xxl", (4096, 24, 10240, 64, 64)),
    ],
)
def test_the_sizes_are_those_of_t5s_own_files(file, sizes):
    ours = parse([f"models/{file}.gin"])
    theirs = parse([f"{t5_folder()}/models/{file}.gin"])
    assert tuple(ours.query(f"%{name}") for name in SIZES) == sizes
    assert ours.query("Unitransformer.d_model") == sizes[0]
    assert ours.query("encoder/make_layer_stack.num_layers") == sizes[1]
    differing = {difference.key for difference in ours.differences(theirs)}
    # T5 keeps the activations of its largest model small on TPUs by more micro-batches.
    assert differing <= {"serialize_num_microbatches.tokens_per_microbatch_per_replica"}


def parameters(config, vocabulary):
    """Counts the parameters of an encoder-decoder of a T5 by hand."""
    d_model, _, d_ff, heads, d_kv = (config.query(f"%{name}") for name in SIZES)
    gated = isinstance(config.query("DenseReluDense.activation", "relu"), list)
    attention = 4 * d_model * heads * d_kv
    feed_forward = (3 if gated else 2) * d_model * d_ff
    encoder = config.query("encoder/make_layer_stack.num_layers")
    decoder = config.query("decoder/make_layer_stack.num_layers")
    tied = config.query("Unitransformer.shared_embedding_and_softmax_weights")
    return (
        encoder * (attention + feed_forward + 2 * d_model)
        + decoder * (2 * attention + feed_forward + 3 * d_model)
        + 2 * (d_model + 32 * heads)
        + (1 if tied else 2) * vocabulary * d_model
    )


@pytest.mark.parametrize(
    ("file", "count"),
    [
        ("t5.1.0.small", 60_506_624),
        ("t5.1.0.base", 222_903_552),
        ("t5.1.0.3B", 2_851_598_336),
        ("t5.1.1.small", 76_961_152),
        ("t5.1.1.base", 247_577_856),
    ],
)
def test_t5_has_the_parameters_that_are_published(file, count):
    assert parameters(parse([f"models/{file}.gin"]), 32128) == count


@pytest.mark.parametrize(
    ("size", "count"),
    [("small", 300e6), ("base", 582e6), ("large", 1.23e9), ("xl", 3.74e9), ("xxl", 12.9e9)],
)
def test_byt5_has_the_parameters_that_are_published(size, count):
    config = parse([f"models/byt5.{size}.gin"])
    assert config.query("make_bitransformer.input_vocab_size") == 384
    assert parameters(config, 384) == pytest.approx(count, rel=5e-3)


@pytest.mark.parametrize("name", ["data", "model", "data_model"])
def test_layouts_are_for_eight_devices(name):
    config = parse([f"layouts/{name}.gin"])
    axes = [pair.split(":") for pair in config.query("run.mesh_shape").split(";")]
    size = 1
    for _, extent in axes:
        size *= int(extent)
    assert size == 8
    ruled = {rule.split(":")[1] for rule in config.query("run.layout_rules").split(",")}
    assert ruled == {name for name, _ in axes}


def test_without_a_layout_there_is_one_device():
    assert parse().query("run.mesh_shape") == ""


@pytest.mark.parametrize(
    "file", [file for file in FILES if file.startswith("examples/") and "dataset" not in file]
)
def test_examples_name_their_task_everywhere(file):
    config = parse([file], ["MIXTURE_NAME = 'other'"])
    for parameter in (
        "mesh_train_dataset_fn.mixture_or_task_name",
        "mesh_eval_dataset_fn.mixture_or_task_name",
        "get_vocabulary.mixture_or_task_name",
    ):
        assert config.query(parameter) == "other"


@pytest.mark.parametrize("file", [file for file in FILES if file.startswith("objectives/")])
def test_objectives_bind_what_t5s_own_files_bind(file):
    ours, theirs = parse([file]), parse([f"{t5_folder()}/{file}"])
    # T5's file bound the number of sentinels to a class that is gone; no other file has it.
    assert {difference.key for difference in ours.differences(theirs)} <= {"%num_sentinels"}
