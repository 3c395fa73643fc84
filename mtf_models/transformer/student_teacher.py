"""Distillation: a model learns from the predictions of another."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import mtf_models.mesh as mtf
from mtf_models.configurable import REQUIRED, config_scope, configurable
from mtf_models.decode.options import DecodeOptions
from mtf_models.decode.result import DecodeResult
from mtf_models.errors import ConfigError
from mtf_models.layers.loss import soft_cross_entropy
from mtf_models.mesh import Tensor, VariableDType
from mtf_models.transformer.bitransformer import Bitransformer, make_bitransformer
from mtf_models.transformer.output import ModelOutput
from mtf_models.transformer.sequences import Features

_MODULE = "mesh_tensorflow.transformer.transformer"


@configurable(module=_MODULE)
class StudentTeacher:
    """A student that is trained on targets and on what a fixed teacher predicts.

    The loss is (1 - f) · the student's + f T² · the cross entropy of the student's predictions
    with the teacher's, both softened by the temperature T (Hinton et al. 2015, "Distilling the
    Knowledge in a Neural Network", section 2). The latter has the student's z-loss, in evaluation
    too, as in the original. The teacher runs as in evaluation, without dropout.

    Args:
        student: its variables are below `student/`.
        teacher: its variables are below `teacher/` and are not trained.
        temperature: T.
        fraction_soft: f. None or 0 is no distillation, and there is no teacher then.
        distill_start_step: training steps after this one distil; until then f is 0. Outside of
            training f counts.
        teacher_checkpoint: where the teacher's weights come from in a fresh model, under their
            names without `teacher/`: a run folder, or the path of a checkpoint without endings.
        initialize_student_weights: whether the student begins with those that it has, too.

    Raises:
        ConfigError: if these do not fit together.
    """

    feature_names = ("inputs", "targets")
    scopes = ("student", "teacher")

    def __init__(
        self,
        student: Bitransformer,
        teacher: Bitransformer,
        temperature: float | None = None,
        fraction_soft: float | None = None,
        distill_start_step: int = 0,
        teacher_checkpoint: str | None = None,
        initialize_student_weights: bool = False,
    ) -> None:
        _check(temperature, fraction_soft, teacher_checkpoint, initialize_student_weights)
        if student.vocab_sizes != teacher.vocab_sizes:
            raise ConfigError(
                f"The student has vocabularies of {student.vocab_sizes} and the teacher of "
                f"{teacher.vocab_sizes}; they must be the same ones."
            )
        self.student = student
        self.teacher = teacher
        self.temperature = temperature
        self.fraction_soft = fraction_soft or 0.0
        self.distill_start_step = distill_start_step
        self.teacher_checkpoint = teacher_checkpoint
        self.initialize_student_weights = initialize_student_weights

    @property
    def vocab_sizes(self) -> dict[str, int]:
        """Feature name to the number of ids that it may have."""
        return self.student.vocab_sizes

    @property
    def longest_features(self) -> dict[str, int | None]:
        """See `Bitransformer.longest_features`; that of the one that has fewer positions."""
        both = [network.longest_features for network in (self.student, self.teacher)]
        return {n: min((b[n] for b in both if b[n]), default=None) for n in self.feature_names}

    @property
    def vocab_divisor(self) -> int:
        """See `Bitransformer.vocab_divisor`."""
        return self.student.vocab_divisor

    def lengths(self, sequence_length: Mapping[str, int]) -> dict[str, int]:
        """See `Bitransformer.lengths`."""
        return self.student.lengths(sequence_length)

    def prepared(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """See `Bitransformer.prepared`."""
        return self.student.prepared(features)

    def loss_weights(self, targets: Tensor, is_training: bool) -> Tensor:
        """See `Unitransformer.loss_weights`."""
        return self.student.loss_weights(targets, is_training)

    def call(
        self,
        features: Features,
        mode: str,
        variable_dtype: VariableDType,
        num_microbatches: int = 1,
        step: Tensor | None = None,
    ) -> ModelOutput:
        """The student's logits, and the loss of both kinds.

        Args:
            features: see `Bitransformer.call`.
            mode: "train" or "eval".
            variable_dtype: dtypes of the variables.
            num_microbatches: of how many micro-batches this is one.
            step: int32 scalar, how many steps training has made; None outside training.
        """
        with mtf.variable_scope("student"):
            output = self.student.call(features, mode, variable_dtype, num_microbatches, step)
        if not self.fraction_soft:
            return output
        with mtf.variable_scope("teacher"):
            taught = self.teacher.call(features, "eval", variable_dtype, num_microbatches)
        decoder = self.student.decoder
        vocab = decoder.vocab(decoder.output_vocab_size)
        losses = soft_cross_entropy(
            output.logits,
            mtf.stop_gradient(taught.logits),
            vocab.dim,
            self.temperature,
            z_loss=decoder.z_loss,
            classes=vocab.classes,
        )
        training = mode == "train"
        soft = decoder.weighted_mean(losses, features["targets"], training, num_microbatches)
        fraction = self._fraction(step)
        parts = {name: loss * (1.0 - fraction) for name, loss in output.losses.items()}
        parts["distillation"] = soft * (fraction * self.temperature**2)
        return ModelOutput(output.logits, mtf.add_n(list(parts.values())), parts, output.reports)

    def decode(
        self,
        features: Features,
        variable_dtype: VariableDType,
        decode_length: int,
        options: DecodeOptions,
    ) -> DecodeResult:
        """See `Bitransformer.decode`; the student decodes."""
        with mtf.variable_scope("student"):
            return self.student.decode(features, variable_dtype, decode_length, options)

    def _fraction(self, step: Tensor | None) -> Tensor | float:
        if step is None:
            return self.fraction_soft
        return mtf.to_float(mtf.greater(step, self.distill_start_step)) * self.fraction_soft


@configurable(module=_MODULE)
def make_bi_student_teacher(
    input_vocab_size: int = REQUIRED, output_vocab_size: int = REQUIRED
) -> StudentTeacher:
    """Two encoder-decoders, bound in the gin scopes `student/` and `teacher/`.

    The sides of each are bound in `student/encoder/` and so on.

    Args:
        input_vocab_size: of both encoders.
        output_vocab_size: of both decoders.
    """
    with config_scope("student"):
        student = make_bitransformer(input_vocab_size, output_vocab_size)
    with config_scope("teacher"):
        teacher = make_bitransformer(input_vocab_size, output_vocab_size)
    return StudentTeacher(student, teacher)


def _check(
    temperature: float | None,
    fraction_soft: float | None,
    teacher_checkpoint: str | None,
    initialize_student_weights: bool,
) -> None:
    faults = []
    if fraction_soft is not None and not 0.0 <= fraction_soft <= 1.0:
        faults.append(f"fraction_soft is {fraction_soft}; it is a part, from 0 to 1")
    if fraction_soft and (temperature is None or temperature <= 0.0):
        faults.append(f"temperature is {temperature}; distillation needs one above 0")
    if temperature is not None and fraction_soft is None:
        faults.append("a temperature is bound and fraction_soft is not, so nothing is distilled")
    if initialize_student_weights and teacher_checkpoint is None:
        faults.append("initialize_student_weights needs a teacher_checkpoint")
    if faults:
        raise ConfigError(f"StudentTeacher: {'; '.join(faults)}.")
