"""Distillation, compared with its formula in NumPy."""

import logging

import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from mtf_models.checkpoint import Reader, locate
from mtf_models.checkpoint.hugging_face import write_hugging_face
from mtf_models.errors import CheckpointError, ConfigError
from mtf_models.layers.loss import soft_cross_entropy
from mtf_models.runtime.conversion.architecture_of_model import architecture_of
from mtf_models.runtime.model import teacher
from mtf_models.testing import check_op

TYPE = "run.model_type = 'bi_student_teacher'"
SMALL = ("num_layers = 1", "Unitransformer.z_loss = 0.0")
SOFT = ("StudentTeacher.fraction_soft = 0.25", "StudentTeacher.temperature = 3.0")


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(2)
    targets = rng.integers(2, 100, [8, 6], np.int32)
    targets[:, 4:] = 0
    return {"inputs": rng.integers(2, 100, [8, 5], np.int32), "targets": targets}


@pytest.fixture(scope="module")
def trained(build, tmp_path_factory):
    """The folder of an ordinary model, to be a teacher."""
    folder = tmp_path_factory.mktemp("teacher")
    mtf.Trainer(build("t5_tiny", *SMALL, seed=5)).save(folder)
    return folder


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def test_soft_cross_entropy_is_its_formula_on_every_layout():
    rng = np.random.default_rng(1)
    logits, taught = rng.normal(size=[2, 8, 8, 16]).astype(np.float32) * 2

    def loss(logits, taught):
        vocab = logits.shape.get_dim_by_name("vocab")
        return soft_cross_entropy(logits, taught, vocab, 2.0, z_loss=0.01)

    def right(logits, taught):
        log_z = np.log(np.exp(logits / 2).sum(axis=-1))
        found = -np.sum(softmax(taught / 2) * np.log(softmax(logits / 2)), axis=-1)
        return found + 0.01 * log_z**2

    shape = "batch:8 length:8 vocab:16"
    inputs = {"logits": (shape, logits), "taught": (shape, taught)}
    check_op(loss, inputs, right, differentiate=["logits"])


def test_the_loss_is_that_of_both(build, trained, batch):
    path = f"StudentTeacher.teacher_checkpoint = {str(trained)!r}"
    at_once = "StudentTeacher.distill_start_step = -1"
    model = build("t5_tiny", *SMALL, *SOFT, TYPE, path, at_once, seed=1)
    out = model(batch, "train")
    taught = mtf.load_model(trained)(batch).logits.numpy().astype(np.float64)
    logits, targets = out.logits.numpy().astype(np.float64), batch["targets"]
    hard = -np.log(np.take_along_axis(softmax(logits), targets[..., None], -1))[..., 0]
    soft = -np.sum(softmax(taught / 3) * np.log(softmax(logits / 3)), axis=-1)
    real = targets > 0
    parts = [0.75 * np.mean(hard * real), 0.25 * 9 * np.mean(soft * real)]
    assert [float(x) for x in out.losses.values()] == pytest.approx(parts, rel=1e-5)
    assert float(out.loss) == pytest.approx(sum(parts), rel=1e-5)
    assert not any(name.startswith("teacher/") for name in model.gradients(batch))


def test_the_teacher_stays_and_the_student_waits_for_its_step(build, trained, batch):
    path = f"StudentTeacher.teacher_checkpoint = {str(trained)!r}"
    late = build("t5_tiny", *SMALL, *SOFT, TYPE, path, "StudentTeacher.distill_start_step = 1")
    assert float(late(batch, "train").losses["distillation"]) == 0.0  # as in the first step
    trainer = mtf.Trainer(late, learning_rate=0.01)
    found = [trainer.step(batch) for _ in range(3)]
    # As in the original the step after this many is still without.
    assert [step["distillation"] > 0 for step in found] == [False, False, True]
    stored = tf.train.load_checkpoint(str(trained / "model.ckpt-0"))
    for name, variable in late.variables.items():
        if name.startswith("teacher/"):
            right = stored.get_tensor(name.removeprefix("teacher/"))
            np.testing.assert_array_equal(variable.numpy(), right, err_msg=name)


def test_a_student_can_begin_with_what_it_shares_with_its_teacher(build, trained):
    path = f"StudentTeacher.teacher_checkpoint = {str(trained / 'model.ckpt-0')!r}"
    model = build(
        "t5_tiny",
        *SMALL,
        *SOFT,
        TYPE,
        path,
        "StudentTeacher.initialize_student_weights = True",
        "student/make_layer_stack.num_layers = 2",
        seed=9,
    )
    fresh = build("t5_tiny", *SMALL, *SOFT, TYPE, "student/make_layer_stack.num_layers = 2", seed=9)
    stored = tf.train.load_checkpoint(str(trained / "model.ckpt-0"))
    shared = "encoder/block_000/layer_000/SelfAttention/q"
    own = "encoder/block_001/layer_000/SelfAttention/q"
    found = {name: model.variables[f"student/{name}"].numpy() for name in (shared, own)}
    np.testing.assert_array_equal(found[shared], stored.get_tensor(shared))
    np.testing.assert_array_equal(found[own], fresh.variables[f"student/{own}"].numpy())


def test_a_hugging_face_folder_can_teach(fixtures_dir, tmp_path):
    source = fixtures_dir / "t5_1_1_tiny"
    trained = mtf.load_model(source, step=0)
    reader = Reader(locate(source, 0))
    write_hugging_face(tmp_path, architecture_of(trained), reader, {})
    path = f"StudentTeacher.teacher_checkpoint = {str(tmp_path)!r}"
    sizes = [f"make_bi_student_teacher.{side}_vocab_size = 128" for side in ("input", "output")]
    model = mtf.build_model([str(source / "config.gin")], [*SOFT, TYPE, *sizes, path])
    assert len(trained.variables) == sum(name.startswith("teacher/") for name in model.variables)
    for name in trained.variables:
        found = model.variables[f"teacher/{name}"].numpy()
        np.testing.assert_array_equal(found, reader.read(name), err_msg=name)


def test_a_teacher_of_other_sizes_is_refused_with_all_differences(build, trained):
    path = f"StudentTeacher.teacher_checkpoint = {str(trained)!r}"
    wide = "teacher/DenseReluDense.hidden_size = 24"
    model = build("t5_tiny", *SMALL, *SOFT, TYPE, path, wide)
    with pytest.raises(CheckpointError) as error:
        model.variables["teacher/shared/embedding"].numpy()
    assert str(error.value).count("DenseReluDense/wo/kernel is [24, 32] in the teacher") == 2


def test_a_teacher_without_weights_is_told(build, caplog):
    teacher._say_random.cache_clear()
    model = build("t5_tiny", *SMALL, *SOFT, TYPE)
    with caplog.at_level(logging.WARNING):
        model.variables["teacher/shared/embedding"].numpy()
    assert "bind StudentTeacher.teacher_checkpoint" in caplog.text


def test_layers_are_those_of_any_model_and_what_else_is_not_heard_is_told(build, caplog):
    both = "decoder/make_layer_stack.layers = [@SelfAttention, @EncDecAttention]"
    with caplog.at_level(logging.WARNING):
        model = build("t5_tiny", *SMALL, TYPE, both, "decoder/Unitransformer.label_smoothing = 0.1")
    assert "student/decoder/block_000/layer_001/EncDecAttention/q" in model.variables
    assert "student/decoder/block_000/layer_002/rms_norm/scale" not in model.variables
    assert "decoder/Unitransformer.label_smoothing. Bind it in student/..." in caplog.text


def test_without_a_fraction_there_is_no_teacher(build):
    model = build("t5_tiny", *SMALL, TYPE)
    assert not any(name.startswith("teacher/") for name in model.variables)
    plain = build("t5_tiny", *SMALL)
    assert {f"student/{name}" for name in plain.variables} == set(model.variables)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (("fraction_soft = 1.5", "temperature = 1.0"), "fraction_soft is 1.5"),
        (("fraction_soft = 0.5",), "temperature is None; distillation needs one above 0"),
        (("temperature = 2.0",), "fraction_soft is not, so nothing is distilled"),
        (("initialize_student_weights = True",), "needs a teacher_checkpoint"),
    ],
)
def test_what_does_not_fit_together_is_refused(build, params, message):
    with pytest.raises(ConfigError, match=message):
        build("t5_tiny", TYPE, *(f"StudentTeacher.{param}" for param in params))
