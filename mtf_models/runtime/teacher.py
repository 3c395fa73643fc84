"""Where the weights of a teacher come from, and that they stay as they are."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import tensorflow as tf

from mtf_models.checkpoint import CheckpointManager, Reader
from mtf_models.errors import CheckpointError
from mtf_models.mesh import Variable
from mtf_models.mesh.initializers import Initializer
from mtf_models.transformer.student_teacher import StudentTeacher

_STUDENT, _TEACHER = (f"{scope}/" for scope in StudentTeacher.scopes)

_log = logging.getLogger("mtf_models")


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
    def _reader(self) -> Reader:
        latest = CheckpointManager(self._path).latest if self._path.is_dir() else None
        prefix = self._path if latest is None else CheckpointManager(self._path).prefix(latest)
        reader = Reader(prefix)
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
                f"StudentTeacher.teacher_checkpoint {prefix} does not fit the teacher: "
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
