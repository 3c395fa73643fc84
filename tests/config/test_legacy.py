import ast
import logging
from pathlib import Path

import pytest

import mtf_models as mtf
from mtf_models.config import legacy, parse, parse_text
from mtf_models.config.names import Kind, original, resolve
from mtf_models.config.parse import _say
from mtf_models.config.search import t5_folder
from mtf_models.errors import ConfigError

DATA = Path(__file__).parent / "data"
LAYERS = "mesh_tensorflow.transformer.transformer_layers"


def skipped_by_t5():
    """The list in the source of the installed t5, which cannot be imported any more."""
    source = Path(t5_folder()).parent / "mesh_transformer.py"
    for node in ast.parse(source.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "DEPRECATED_GIN_REFERENCES":
            return ast.literal_eval(node.value)
    raise AssertionError(source)


@pytest.mark.parametrize(
    "name",
    [*skipped_by_t5(), "t5.data.sentencepiece_vocabulary.SentencePieceVocabulary"],
)
def test_what_t5_skips_is_skipped(name):
    assert resolve(name).kind is Kind.SKIPPED
    config = parse_text(f"extra = 1\n{name}.extra_ids = %extra\nToyDense.hidden = @{name}()")
    assert len(config.bindings) == 0
    assert name in config.notices[0]


@pytest.mark.parametrize(
    ("name", "layers"), [("t5_1_0_tiny", 2), ("t5_1_1_tiny", 2), ("lm_tiny", 3)]
)
def test_configurations_of_the_original_parse_unmodified(zoo, name, layers):
    config = parse([str(DATA / f"{name}.gin")])
    assert config.query("Unitransformer.d_model") == config.query("%d_model") == 32
    assert config.query("decoder/make_layer_stack.num_layers") == layers
    assert config.query("run.learning_rate_schedule") == 0.01
    assert config.query("get_variable_dtype.master_dtype") == "float32"
    assert parse_text(config.text()).differences(config) == []


def test_an_operative_configuration_parses_unmodified(zoo):
    config = parse([str(DATA / "operative_config.gin")])
    assert config.query("encoder/DenseReluDense.activation") == ["gelu", "linear"]
    assert config.query("decoder/SelfAttention.key_value_size") == 12
    assert any("tpu_estimator_model_fn" in notice for notice in config.notices)


def test_an_old_fine_tuned_configuration_parses_unmodified(zoo):
    config = parse([str(DATA / "old_fine_tuned.gin")])
    assert config.query("run.sequence_length") == {"inputs": 512, "targets": 114}
    # The vocabulary class is gone and the topology means nothing: what was there before stays.
    assert config.query("run.vocabulary") is None
    assert config.query("run.mesh_shape") == ""
    assert config.query("encoder/LayerStack.norm_epsilon") == 1e-6
    assert config.query("encoder/LayerStack.sublayers_final", "unset") is None
    without_effect = config.notices[0]
    for name in (
        "maybe_print_dataset",
        "run.mesh_shape = @tpu_mesh_shape()",
        "run.vocabulary = @t5.data.sentencepiece_vocabulary.SentencePieceVocabulary()",
        "SentencePieceVocabulary",
        "tpu_mesh_shape",
    ):
        assert name in without_effect


def test_an_old_fine_tuned_configuration_builds_its_model(zoo):
    model = mtf.build_model([str(DATA / "old_fine_tuned.gin")])
    # T5 small; what it says of positions it says of one side only.
    assert model.parameters == 60_506_624 + 512 * 512 - 32 * 8
    assert "decoder/block_000/layer_000/layer_norm/scale" in model.variables
    assert "decoder/final_layer_norm/scale" in model.variables


def test_living_modules_are_remembered_for_those_who_need_them():
    config = parse_text("import t5.data.mixtures\nimport seqio\nimport t5.models.mtf_model")
    assert config.imports == ("t5.data.mixtures", "seqio")


def test_what_means_nothing_here_is_one_line(caplog):
    _say.cache_clear()
    text = (
        "tpu_mesh_shape.tpu_topology = '8x16'\n"
        "utils.tpu_mesh_shape.model_parallelism = 2\n"
        "SimdMeshImpl.allreduce_in_bfloat16_max_group_size = 32\n"
        "ToyAttention.kind = @mesh_tensorflow.transformer.utils.tpu_mesh_shape()\n"
    )
    line = (
        "recognised, without effect here: SimdMeshImpl, ToyAttention.kind = @tpu_mesh_shape(), "
        "tpu_mesh_shape"
    )
    with caplog.at_level(logging.WARNING):
        assert parse_text(text).notices == (line,)
        parse_text(text)
    assert caplog.messages == [line]
    with pytest.raises(ConfigError, match=r"did you mean tpu_topology"):
        parse_text("tpu_mesh_shape.tpu_topologi = '8x16'")


def test_the_layer_that_is_not_there_is_asked_for_in_vain():
    missing = "score_with_estimator_lazy"
    bound = parse_text(f"{missing}.num_examples = 3\nspare = [@{missing}]")
    assert bound.notices[0] == f"bound, but neither used nor available in this version: {missing}"
    assert bound.bindings == {}
    with pytest.raises(ConfigError) as error:
        parse_text(f"toy_stack.layers = %layers\nlayers = [@ToyDense, @{missing}]", "a.gin")
    assert f"a.gin:1: toy_stack.layers asks for {missing}, which is not available" in str(
        error.value
    )


def test_a_binding_that_is_replaced_may_ask_for_anything():
    text = "toy_stack.layers = [@score_with_estimator_lazy]\ntoy_stack.layers = [@ToyDense]"
    assert parse_text(text).text() == "toy_stack.layers = [@ToyDense]\n"


def test_a_lost_parameter_of_a_model_is_a_fault_unless_it_is_the_default(zoo):
    assert (
        parse_text("LayerStack.use_layer_norm = True\nLayerStack.use_rezero = False").notices == ()
    )
    with pytest.raises(
        ConfigError, match=r"LayerStack\.use_rezero = True: a parameter of the past"
    ):
        parse_text("LayerStack.use_rezero = True")
    default = "SelfAttention.use_hyperprompt = %no\nno = False"
    assert parse_text(default).notices == ()
    with pytest.raises(ConfigError, match=r"use_hyperprompt = True: a parameter of the original"):
        parse_text("SelfAttention.use_hyperprompt = True")


def test_a_lost_parameter_of_the_run_is_noticed(zoo):
    config = parse_text("run.process_metric_names = 3\nrun.tpu_zone = 'x'")
    assert config.notices == (
        "recognised, without effect here: run.tpu_zone",
        "not available in this version, and so ignored: run.process_metric_names",
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("transformer.sublayer_layer_norm", "transformer.sublayer_legacy_rms_norm"),
        ("sublayer_final_layer_norm", "transformer.sublayer_legacy_final_rms_norm"),
        ("sublayer_layer_norm_subsampled", "transformer.sublayer_rms_norm_subsampled"),
        ("transformer.UTLayerStack", "universal_transformer.UTLayerStack"),
        (
            "utils.learning_rate_schedule_noam",
            "learning_rate_schedules.learning_rate_schedule_noam",
        ),
    ],
)
def test_old_names_mean_todays(old, new):
    assert resolve(old).selector == f"mesh_tensorflow.transformer.{new}"


def test_old_parameters_mean_todays(zoo):
    config = parse_text(
        "SelfAttention.relative_position_num_buckets = 8\n"
        "transformer.layer_norm.norm_epsilon = 1e-5\n"
        "mesh_train_dataset_fn.mixture_name = 'old'\n"
    )
    assert config.query("SelfAttention.relative_attention_num_buckets") == 8
    assert config.query("sublayer_rms_norm.epsilon") == 1e-5
    assert config.query("mesh_train_dataset_fn.mixture_or_task_name") == "old"


@pytest.mark.parametrize("order", [("attention", "position"), ("position", "attention")])
def test_of_an_old_parameter_and_todays_the_last_one_counts(zoo, order):
    lines = [
        f"SelfAttention.relative_{kind}_num_buckets = {count}"
        for kind, count in zip(order, (16, 8), strict=True)
    ]
    config = parse_text("\n".join(lines))
    assert config.query("SelfAttention.relative_attention_num_buckets") == 8


@pytest.mark.parametrize("table", ["WITHOUT_EFFECT", "HISTORICAL_PARAMETERS"])
def test_the_tables_speak_of_names_of_today(table):
    for name in getattr(legacy, table):
        assert resolve(name).selector == name
    for name in (*legacy.RENAMED.values(), *legacy.UNASKED):
        assert name in original()
    for name in legacy.RENAMED_PARAMETERS.values():
        assert resolve(name.rpartition(".")[0]).kind is not Kind.SKIPPED


def test_preprocessors_of_t5_are_registered_when_they_are_bound():
    config = parse_text(
        "include 'objectives/span.gin'\n"
        "targets_length = @preprocessors.random_spans_targets_length()\n"
        "ToyDense.hidden = %targets_length\n"
    )
    # 512 inputs at 15 % noise in spans of 3 give 114 targets (Raffel et al. 2020, appendix B).
    assert config.query("ToyDense.hidden") == 114
    assert [f.__name__ for f in config.query("unsupervised.preprocessors")] == [
        "select_random_chunk",
        "reduce_concat_tokens",
        "split_tokens",
        "denoise",
    ]
    with pytest.raises(ConfigError, match=r"'noise_densty'; did you mean noise_density"):
        parse_text("random_spans_helper.noise_densty = 1")


def test_a_name_that_the_originals_own_files_qualify_wrongly(zoo):
    text = "dataset.get_tfds_vocabulary.dataset_name = 'lm1b/subwords32k'"
    config = parse_text(text)
    assert "get_tfds_vocabulary" in config.notices[0]


FORMER_READERS = """
import mesh_tensorflow.transformer.t2t_vocabulary
dataset_name = "lm1b/subwords32k"
utils.run.train_dataset_fn = @mesh_tensorflow.transformer.dataset.{reader}
dataset.{reader}.dataset_name = %dataset_name
dataset.{reader}.text2self = True
utils.run.vocabulary = @mesh_tensorflow.transformer.{vocabulary}()
{vocabulary}.{argument} = %dataset_name
dataset.pack_dataset.use_custom_ops = False
run.model_type = "lm"
"""


@pytest.mark.parametrize(
    ("reader", "vocabulary", "argument"),
    [
        ("pretokenized_tfds_dataset", "vocabulary.get_tfds_vocabulary", "dataset_name"),
        ("untokenized_tfds_dataset", "t2t_vocabulary.get_t2t_vocabulary", "vocabulary_filename"),
        ("pretokenized_t2t_dataset", "t2t_vocabulary.get_t2t_vocabulary", "vocabulary_filename"),
    ],
)
def test_a_model_is_the_same_whoever_read_its_data(zoo, reader, vocabulary, argument):
    """As Mesh TensorFlow's `problems/*.gin` bind them; a task has to be named to train."""
    text = FORMER_READERS.format(reader=reader, vocabulary=vocabulary, argument=argument)
    config = parse_text(text)
    assert config.query("run.model_type") == "lm"
    assert config.query("run.train_dataset_fn") is None
    assert config.query("run.vocabulary") is None
    (ignored,) = (line for line in config.notices if line.startswith("not available"))
    assert f"run.train_dataset_fn = @{reader}" in ignored
    assert f"run.vocabulary = @{vocabulary.partition('.')[2]}()" in ignored


def test_a_reader_that_is_not_here_does_not_leave_another_one(zoo):
    text = FORMER_READERS.format(
        reader="pretokenized_tfds_dataset",
        vocabulary="vocabulary.get_tfds_vocabulary",
        argument="dataset_name",
    )
    before = "run.train_dataset_fn = @mesh_train_dataset_fn"
    assert parse_text(before + text).query("run.train_dataset_fn") is None


def test_resuming_goes_on_with_the_data_whether_asked_or_not(zoo):
    config = parse_text("run.skip_seen_data = True\nrun.checkpoint_input_pipeline = True")
    (told,) = config.notices
    assert told == (
        "recognised, without effect here: run.checkpoint_input_pipeline, run.skip_seen_data"
    )
