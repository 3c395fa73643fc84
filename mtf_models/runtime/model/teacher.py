"""Where the weights of a teacher come from, and that they stay as they are."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import tensorflow as tf

from mtf_models.checkpoint import HuggingFaceReader, Reader, is_hugging_face_folder, locate
from mtf_models.checkpoint.source import Source
from mtf_models.config import Config
from mtf_models.config.keys import Key
from mtf_models.config.names import resolve
from mtf_models.errors import CheckpointError
from mtf_models.mesh import Variable
from mtf_models.mesh.initializers import Initializer
from mtf_models.transformer.student_teacher import StudentTeacher

_STUDENT, _TEACHER = (f"{scope}/" for scope in StudentTeacher.scopes)
_SIDES = ("encoder", "decoder")

_log = logging.getLogger("mtf_models")


def with_layers_of_sides(config: Config) -> Config:
    """The config of a student and a teacher, whose sides have the layers bound for any.

    Gin takes `decoder/...` for nobody but the decoder of a single model. Lists of layers are bound
    in that way by all files of models, and without them a decoder would not see its encoder. What
    else is bound so is told.

    Args:
        config: of any model; another kind is returned as it is.
    """
    if config.query("utils.run.model_type") != "bi_student_teacher":
        return config
    selector = resolve("make_layer_stack").selector
    bindings = dict(config.bindings)
    for scope in StudentTeacher.scopes:
        for side in _SIDES:
            general, own = (Key(s, selector, "layers") for s in (side, f"{scope}/{side}"))
            if general in bindings and Key(scope, selector, "layers") not in bindings:
                bindings.setdefault(own, bindings[general])
    config = dataclasses.replace(config, bindings=bindings)
    unheard = [
        str(key)
        for key in config.bindings
        if key.scope.partition("/")[0] in _SIDES
        and any(
            config.effective(key) != config.effective(key._replace(scope=f"{scope}/{key.scope}"))
            for scope in StudentTeacher.scopes
        )
    ]
    if unheard:
        _log.warning(
            "Bound for the sides of a single model, and not for those of student or teacher: %s. "
            "Bind it in student/... or teacher/... too, if it is meant there.",
            ", ".join(sorted(unheard)),
        )
    return config


def settle(network: StudentTeacher, variables: Mapping[str, Variable]) -> None:
    """Says of each variable whether it is trained, and from where it gets its first value.

    Nothing is read before a value is wanted: a restored model has no need of the teacher's file.

    Args:
        network: names the teacher's checkpoint.
        variables: of the network, not allocated yet.
    """
    taught = [v for v in variables.values() if v.name.startswith(_TEACHER)]
    for variable in taught:
        variable.trainable = False
    if network.teacher_checkpoint is None:
        for variable in taught:
            _begin_with(variable, _drawn(variable.spec.initializer))
        return
    stored = _Stored(Path(network.teacher_checkpoint), variables)
    for variable in taught:
        _begin_with(variable, stored.value_of(variable.name.removeprefix(_TEACHER)))
    if network.initialize_student_weights:
        for variable in variables.values():
            if variable.name.startswith(_STUDENT):
                name, otherwise = variable.name.removeprefix(_STUDENT), variable.spec.initializer
                _begin_with(variable, stored.value_of(name, otherwise))


class _Stored:
    """A teacher's checkpoint, opened and compared with the teacher when it is first needed."""

    def __init__(self, path: Path, variables: Mapping[str, Variable]) -> None:
        self._path = path
        self._variables = variables

    @functools.cached_property
    def _reader(self) -> Source:
        theirs = is_hugging_face_folder(self._path)
        reader = HuggingFaceReader(self._path) if theirs else Reader(locate(self._path))
        wanted = {
            name.removeprefix(_TEACHER): variable.shape.to_integer_list
            for name, variable in self._variables.items()
            if name.startswith(_TEACHER)
        }
        stored = {name: list(reader.shape(name)) for name in reader.names}
        faults = [
            f"{name} is {shape} in the teacher and {stored.get(name, 'missing')} there"
            for name, shape in wanted.items()
            if stored.get(name) != shape
        ]
        if faults:
            raise CheckpointError(
                f"StudentTeacher.teacher_checkpoint {self._path} does not fit the teacher: "
                f"{'; '.join(faults)}. Bind teacher/... as the teacher was bound when it was "
                "trained."
            )
        return reader

    def value_of(self, name: str, otherwise: Initializer | None = None) -> Initializer:
        """Gives the stored value, or what another initializer gives if there is none that fits."""

        def value(sizes: Sequence[int], seed: tf.Tensor) -> tf.Tensor:
            reader = self._reader
            if otherwise and (name not in reader.names or list(reader.shape(name)) != list(sizes)):
                _log.info("The student's %s is not the teacher's: it begins at random.", name)
                return otherwise(sizes, seed)
            return tf.cast(reader.read(name), tf.float32)

        return value


def _begin_with(variable: Variable, initializer: Initializer) -> None:
    variable.spec = dataclasses.replace(variable.spec, initializer=initializer)


def _drawn(initializer: Initializer) -> Initializer:
    def value(sizes: Sequence[int], seed: tf.Tensor) -> tf.Tensor:
        _say_random()
        return initializer(sizes, seed)

    return value


@functools.cache
def _say_random() -> None:
    _log.warning(
        "The teacher begins with random weights, and its predictions mean nothing: bind "
        "StudentTeacher.teacher_checkpoint to those of a trained model."
    )
