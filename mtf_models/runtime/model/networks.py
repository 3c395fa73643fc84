"""The kinds of models, by their names in gin, and what tells them in a checkpoint."""

from __future__ import annotations

from mtf_models.checkpoint.source import Source
from mtf_models.errors import ConfigError
from mtf_models.runtime.bindings.settings import RunSettings
from mtf_models.transformer.bitransformer import Bitransformer, make_bitransformer
from mtf_models.transformer.delimited import DelimitedUnitransformer
from mtf_models.transformer.stack import make_layer_stack
from mtf_models.transformer.student_teacher import StudentTeacher, make_bi_student_teacher
from mtf_models.transformer.unitransformer import Unitransformer

Network = Bitransformer | StudentTeacher | Unitransformer


def make_network(settings: RunSettings, sizes: tuple[int, int]) -> Network:
    """The network of a kind, with what gin binds for it.

    Args:
        settings: say the kind, `model_type`.
        sizes: of the vocabularies of inputs and targets.

    Raises:
        ConfigError: if batches are to be given out to other members than there are.
    """
    network = _make(settings, sizes)
    members = [dim.size for dim in getattr(network, "ensemble_dims", [])]
    if settings.ensemble_inputs and members != [settings.ensemble_inputs]:
        raise ConfigError(
            f"run.ensemble_inputs is {settings.ensemble_inputs}, and the model "
            f"{f'is an ensemble of {members[0]}' if members else 'no ensemble'}: bind "
            "Unitransformer.ensemble to the same number, or ensemble_inputs to None."
        )
    return network


def _make(settings: RunSettings, sizes: tuple[int, int]) -> Network:
    match settings.model_type:
        case "bitransformer":
            return make_bitransformer(*sizes)
        case "bi_student_teacher":
            return make_bi_student_teacher(*sizes)
        case "delimited_lm":
            _check_one_vocabulary(sizes)
            return _of_one_stack(DelimitedUnitransformer, sizes[1], sizes[1], autoregressive=True)
        case "aligned":
            return _of_one_stack(Unitransformer, *sizes, autoregressive=False)
        case _:
            return _of_one_stack(Unitransformer, sizes[1], sizes[1], autoregressive=True)


def model_type_of(reader: Source) -> str:
    """What a checkpoint is of, for configs that do not say."""
    towers = {name.partition("/")[0] for name in reader.names}
    if "student" in towers:
        return "bi_student_teacher"
    return "bitransformer" if "decoder" in towers else "lm"


def _check_one_vocabulary(sizes: tuple[int, int]) -> None:
    if sizes[0] != sizes[1]:
        raise ConfigError(
            f"Inputs have a vocabulary of {sizes[0]} ids and targets one of {sizes[1]}; a "
            "delimited_lm reads both in one row and needs one vocabulary for both. Take a task "
            'that has one, or run.model_type = "bitransformer".'
        )


def _of_one_stack(
    cls: type[Unitransformer], input_size: int, output_size: int, autoregressive: bool
) -> Unitransformer:
    return cls(
        layer_stack=make_layer_stack(),
        input_vocab_size=input_size,
        output_vocab_size=output_size,
        autoregressive=autoregressive,
    )
