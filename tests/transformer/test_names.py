"""Names and shapes of variables are the original's, for every way to configure them."""

import pytest

ATTENTION = "encoder/block_000/layer_000/SelfAttention"


def below(shapes, scope):
    return {n.removeprefix(f"{scope}/"): s for n, s in shapes.items() if n.startswith(f"{scope}/")}


def block(shapes, scope):
    """The shapes of the first block, which the second repeats, but for what is shared."""
    first, second = (below(shapes, f"{scope}/block_{i:03d}") for i in range(2))
    shared = first.pop("layer_000/SelfAttention/relative_attention_bias", None)
    assert second == first
    return first, shared


def test_an_encoder_decoder(shapes):
    found = shapes("t5_tiny")
    attention = {"q": [32, 32], "k": [32, 32], "v": [32, 32], "o": [32, 32]}
    gated = {"wi_0/kernel": [32, 64], "wi_1/kernel": [32, 64], "wo/kernel": [64, 32]}
    layers = {
        "encoder": ["SelfAttention", "DenseReluDense"],
        "decoder": ["SelfAttention", "EncDecAttention", "DenseReluDense"],
    }
    for tower, names in layers.items():
        variables, bias = block(found, tower)
        assert bias == [8, 32]
        right = {}
        for i, name in enumerate(names):
            inner = gated if name == "DenseReluDense" else attention
            right |= {f"layer_{i:03d}/{name}/{n}": s for n, s in inner.items()}
            right[f"layer_{i:03d}/rms_norm/scale"] = [32]
        assert variables == right
    assert {n: s for n, s in found.items() if "/block_" not in n} == {
        "shared/embedding": [128, 32],
        "encoder/rms_norm/scale": [32],
        "decoder/rms_norm/scale": [32],
        "decoder/logits/kernel": [32, 128],
    }


def test_a_language_model(shapes):
    found = shapes("lm_tiny")
    assert {n: s for n, s in found.items() if "/block_" not in n} == {
        "transformer/embedding": [128, 32],
        "transformer/rms_norm/scale": [32],
    }
    variables, bias = block(found, "transformer")
    assert bias == [8, 32]
    assert set(variables) == {
        *(f"layer_000/SelfAttention/{n}" for n in "qkvo"),
        "layer_000/rms_norm/scale",
        "layer_001/rms_norm/scale",
        "layer_001/DenseReluDense/wi/kernel",
        "layer_001/DenseReluDense/wo/kernel",
    }


@pytest.mark.parametrize(
    ("param", "right"),
    [
        (
            "SelfAttention.combine_dims = False",
            {"q": [32, 8, 4], "k": [32, 8, 4], "v": [32, 8, 4], "o": [8, 4, 32]},
        ),
        ("num_heads = 1", {"q": [32, 4], "k": [32, 4], "v": [32, 4], "o": [4, 32]}),
        (
            "SelfAttention.num_memory_heads = 1",
            {"q": [32, 32], "k": [32, 4], "v": [32, 4], "o": [32, 32]},
        ),
        (
            "SelfAttention.num_memory_heads = 2",
            {"q": [32, 32], "k": [32, 8], "v": [32, 8], "o": [32, 32]},
        ),
        ("SelfAttention.shared_kv = True", {"q": [32, 32], "kv": [32, 32], "o": [32, 32]}),
    ],
)
def test_attention(shapes, param, right):
    found = shapes("t5_tiny", param, "SelfAttention.relative_attention_type = None")
    assert below(found, ATTENTION) == right
    # Attention to the encoder is bound through its parent, too.
    assert below(found, "decoder/block_001/layer_001/EncDecAttention") == right


def test_grouped_heads_without_combined_dimensions(build):
    params = ["SelfAttention.combine_dims = False", "SelfAttention.num_memory_heads = 2"]
    variables = build("t5_tiny", *params).variables
    shape = variables[f"{ATTENTION}/q"].shape
    assert str(shape) == "Shape[d_model=32, heads=2, query_heads=4, d_kv=4]"


@pytest.mark.parametrize(("heads", "shape"), [(1, [32]), (2, [2, 32]), (8, [8, 32])])
def test_relative_biases_of_every_layer(shapes, heads, shape):
    found = shapes(
        "t5_tiny", "SelfAttention.relative_attention_type = 'bias'", f"num_heads = {heads}"
    )
    biases = {n: s for n, s in found.items() if n.endswith("relative_attention_bias")}
    assert biases == {
        f"{tower}/block_{i:03d}/layer_000/SelfAttention/relative_attention_bias": shape
        for tower in ("encoder", "decoder")
        for i in range(2)
    }


def test_a_shared_bias_for_each_kind_of_heads(shapes):
    # As in models with narrow and wide blocks.
    wide = "encoder/make_layer_stack.layers = [@SelfAttention, (@SelfAttention, {'num_heads': 16})]"
    found = below(shapes("t5_tiny", wide), "encoder")
    assert {n: s for n, s in found.items() if n.endswith("relative_attention_bias")} == {
        "block_000/layer_000/SelfAttention/relative_attention_bias": [8, 32],
        "block_000/layer_001/SelfAttention/relative_attention_bias": [16, 32],
    }


def test_named_layers(shapes):
    adapter = "('adapter', {'hidden_size': 8, 'activation': 'relu'}, @DenseReluDense)"
    params = f"encoder/make_layer_stack.layers = [@SelfAttention, {adapter}]"
    variables, _ = block(shapes("t5_tiny", params), "encoder")
    assert below(variables, "adapter") == {
        "rms_norm/scale": [32],
        "DenseReluDense/wi/kernel": [32, 8],
        "DenseReluDense/wo/kernel": [8, 32],
    }
    assert below(variables, "layer_000").keys() >= {"rms_norm/scale", "SelfAttention/q"}


def test_without_block_scope_layers_are_counted_and_named_ones_are_shared(shapes):
    layers = "[@SelfAttention, ('shared', @DenseReluDense)]"
    params = [
        f"encoder/make_layer_stack.layers = {layers}",
        "encoder/make_layer_stack.block_scope = False",
    ]
    found = below(shapes("t5_tiny", *params), "encoder")
    assert {n.split("/")[0] for n in found} == {"layer_000", "layer_002", "shared", "rms_norm"}
    assert found["shared/DenseReluDense/wo/kernel"] == [64, 32]


def test_legacy_norms(shapes):
    params = ["LayerStack.dropout_rate = 0.1", "LayerStack.norm_epsilon = 1e-6"]
    found = shapes("t5_tiny", *params)
    depths = {"encoder": 2, "decoder": 3}
    scopes = [
        f"{tower}/block_{block:03d}/layer_{i:03d}/layer_norm"
        for tower, depth in depths.items()
        for block in range(2)
        for i in range(depth)
    ]
    scopes += [f"{tower}/final_layer_norm" for tower in depths]
    assert {n for n in found if n.endswith("/scale")} == {f"{scope}/scale" for scope in scopes}


def test_biases(shapes):
    found = below(
        shapes("t5_tiny", "DenseReluDense.use_bias = True"),
        "encoder/block_000/layer_001/DenseReluDense",
    )
    biases = {n: s for n, s in found.items() if n.endswith("bias")}
    assert biases == {"wi_0/bias": [64], "wi_1/bias": [64], "wo/bias": [32]}


def test_embeddings_of_their_own(shapes):
    found = shapes(
        "t5_tiny", "Bitransformer.shared_embedding = False", "run.vocabulary = (100, 300)"
    )
    assert found["encoder/embedding"] == [128, 32]
    assert found["decoder/embedding"] == [384, 32]
    assert found["decoder/logits/kernel"] == [32, 384]


LEARNED = "transformer.Unitransformer.positional_embedding = True"


@pytest.mark.parametrize(
    ("params", "right"),
    [
        ([LEARNED], {"shared/positional_embedding": [512, 32]}),
        (
            [LEARNED, "encoder/transformer.Unitransformer.max_length = 20"],
            {"encoder/positional_embedding": [20, 32], "decoder/positional_embedding": [512, 32]},
        ),
        (
            [f"decoder/{LEARNED}"],
            {"decoder/positional_embedding": [512, 32]},
        ),
        (
            [LEARNED, "Bitransformer.shared_embedding = False"],
            {"encoder/positional_embedding": [512, 32], "decoder/positional_embedding": [512, 32]},
        ),
        ([LEARNED, "transformer.Unitransformer.sinusoid_positional_embedding = True"], {}),
    ],
)
def test_positional_embeddings(shapes, params, right):
    found = shapes("t5_tiny", *params)
    assert {n: s for n, s in found.items() if "positional" in n} == right


def test_an_encoder_and_a_decoder_under_one_name_share_their_weights(shapes):
    layers = {
        "encoder": "[('attention', @SelfAttention), ('feed_forward', @DenseReluDense)]",
        "decoder": "[('attention', @SelfAttention), ('memory', @EncDecAttention),"
        " ('feed_forward', @DenseReluDense)]",
    }
    params = [f"{side}/make_layer_stack.layers = {value}" for side, value in layers.items()]
    found = shapes("t5_tiny", *params, "make_bitransformer.encoder_name = 'decoder'")
    assert {n.split("/")[0] for n in found} == {"shared", "decoder"}
    assert sum(n.endswith("relative_attention_bias") for n in found) == 1
    assert {n.split("/")[2] for n in found if "/block_" in n} == {
        "attention",
        "memory",
        "feed_forward",
    }
