"""Models from gin files and from folders."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import re
from collections.abc import Iterable, Iterator, Sequence

import tensorflow as tf

from mtf_models import config as gin_config
from mtf_models.checkpoint.source import Source
from mtf_models.config import Config
from mtf_models.errors import ConfigError, LayoutError, MtfError
from mtf_models.mesh import (
    Dimension,
    Mesh,
    RandomStream,
    Shape,
    Tensor,
    VariableDType,
    VariableStore,
)
from mtf_models.mesh import random_stream as use_stream
from mtf_models.mesh.layout import check_rules, raise_faults
from mtf_models.runtime.bindings.settings import RunSettings, get_variable_dtype
from mtf_models.runtime.bindings.task_modules import import_tasks
from mtf_models.runtime.model import teacher
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.model.networks import Network, make_network, model_type_of
from mtf_models.runtime.model.vocabulary import check_rows, vocab_sizes
from mtf_models.runtime.registry import register
from mtf_models.transformer.student_teacher import StudentTeacher

_log = logging.getLogger("mtf_models")


def build_model(
    gin_files: str | Sequence[str] = (),
    gin_params: str | Sequence[str] = (),
    mesh: Mesh | None = None,
    seed: int | None = None,
    pad_vocab: bool = False,
    strict: bool = False,
) -> Model:
    """A fresh model.

    Nothing is allocated yet: names and shapes of variables are known, values are drawn when they
    are first read.

    Args:
        gin_files: a path, as given or below `gin/`, or several, later ones overriding earlier ones.
        gin_params: a binding, or several, applied last.
        mesh: where it runs; None for one device.
        seed: of initial values and dropout, which the config records; None for the config's, or 0.
        pad_vocab: whether vocabularies are padded until they divide over the mesh, the padding
            masked everywhere.
        strict: whether weights that no layout rule splits are an error.

    Raises:
        ConfigError: if the gin files cannot be read or bind unknown names.
        LayoutError: listing every dimension that does not fit the mesh.
    """
    register()
    mesh = Mesh() if mesh is None else mesh
    files, params = (
        [given] if isinstance(given, str) else list(given) for given in (gin_files, gin_params)
    )
    if seed is not None:
        params.append(f"utils.run.seed = {seed}")
    if pad_vocab:
        params.append(padding_binding(mesh))
    config = gin_config.parse(files, params)
    return model_from_config(config, mesh, config.query("utils.run.seed", 0), strict)


def padding_binding(mesh: Mesh) -> str:
    """The binding that makes vocabularies divide over a mesh, for a config to record."""
    return f"Unitransformer.pad_vocab_multiple = {mesh.splits(Dimension('vocab', mesh.size))}"


def model_from_config(
    config: Config,
    mesh: Mesh,
    seed: int = 0,
    strict: bool = False,
    reader: Source | None = None,
    batch_size: int | None = None,
) -> Model:
    """A model whose variables are specified and not allocated.

    Args:
        config: what to build.
        mesh: where it runs.
        seed: of initial values and dropout.
        strict: see `build_model`.
        reader: a checkpoint that tells vocabulary sizes where the config does not.
        batch_size: of the batches to come, to check it with the rest; without a checkpoint it is
            the config's, if that says it outright.

    Raises:
        CheckpointError: if the vocabulary that the config says does not fit the checkpoint.
        LayoutError: see `build_model`.
    """
    import_tasks(config)
    config = teacher.with_layers_of_sides(config)
    with config.active(), _gin_faults():
        settings = RunSettings()
        if reader is not None and config.query("utils.run.model_type") is None:
            settings = dataclasses.replace(settings, model_type=model_type_of(reader))
        dtype = get_variable_dtype()
        sizes = vocab_sizes(config, settings, reader)
        network = make_network(settings, sizes)
        if config.query("utils.run.sequence_length") is None:
            settings = _within(config, settings, network)
        store = VariableStore(mesh, seed)
        if batch_size is None and reader is None:
            batch_size = _bound_batch_size(settings)
        dimensions = _abstract_pass(network, store, settings, dtype, batch_size)
    if reader is not None:
        check_rows(reader, store.variables, sizes)
    idle = check_rules(mesh.rules, mesh.axes, dimensions)
    model = Model(network, store, config, settings, dtype)
    if isinstance(network, StudentTeacher):
        teacher.settle(network, store.variables)
    _report_layout(model, idle, strict)
    return model


def _within(config: Config, settings: RunSettings, network: Network) -> RunSettings:
    """Settings whose default lengths have no more positions than the network has embeddings for.

    The default batch, which is a number of tokens, then has as many sequences as it has room for.
    """
    limits = network.longest_features
    lengths = {name: min(n, limits[name] or n) for name, n in settings.sequence_length.items()}
    settings = dataclasses.replace(settings, sequence_length=lengths)
    if config.query("utils.run.batch_size") is None:
        sequences = max(settings.batch_size[1] // max(lengths.values()), 1)
        settings = dataclasses.replace(settings, batch_size=("sequences_per_replica", sequences))
    return settings


@contextlib.contextmanager
def _gin_faults() -> Iterator[None]:
    """Around what gin calls: its own errors, and those of values of a wrong type, in our words."""
    try:
        yield
    except MtfError:
        raise
    except (RuntimeError, TypeError, ValueError) as error:
        # Gin adds a line for each function of its own that the error passes through.
        where = ", ".join(re.findall(r"In call to configurable '(.+?)'", str(error))[::-1])
        lines = (line for line in str(error).splitlines() if "In call to configurable" not in line)
        text = " ".join(" ".join(lines).split())
        raise ConfigError(
            f"The config cannot be built{f', in {where}' if where else ''}: "
            f"{text.rstrip('.')}. Bind what is missing, or give it a value of the right type "
            "(--gin_param)."
        ) from error


def _abstract_pass(
    network: Network,
    store: VariableStore,
    settings: RunSettings,
    dtype: VariableDType,
    batch_size: int | None,
) -> set[str]:
    """Runs the network symbolically: finds all variables, and all faults of layout at once.

    Returns:
        The names of the dimensions of variables and features.
    """
    mesh = store.mesh.abstract(stand_ins=batch_size is None)
    batch = Dimension("batch", batch_size or mesh.splits(Dimension("batch", mesh.size)))
    with use_stream(RandomStream((0, 0))), store.collecting():
        features = {}
        for name, length in network.lengths(settings.sequence_length).items():
            shape = Shape([batch, Dimension("length", length)])
            mesh.check(shape, name)
            features[name] = Tensor(mesh, shape, tf.zeros(shape.to_integer_list, tf.int32))
        step = Tensor(mesh, Shape(), tf.zeros([], tf.int32))
        network.call(features, "train", dtype, step=step)
    raise_faults(mesh.engine.faults, mesh.rules, mesh.axes)
    names = {d for v in store.variables.values() for d in v.shape.dimension_names}
    return names | {"batch", "length", "memory_length", "heads", "d_kv"}


def _bound_batch_size(settings: RunSettings) -> int | None:
    """The number of sequences in a batch, if the config says it outright."""
    if isinstance(settings.batch_size, int):
        return settings.batch_size
    method, number = settings.batch_size
    return number if method == "sequences_per_batch" else None


def _report_layout(model: Model, idle: Iterable[str], strict: bool) -> None:
    """Says what rules do nothing here, and which matrices every device holds whole."""
    mesh = model.mesh
    if mesh.size == 1:
        return
    if idle:
        _log.info("Layout rules without effect here: %s.", ", ".join(idle))
    ruled = {axis for _, axis in mesh.rules.pairs}
    unused = [axis for axis, size in mesh.axes.items() if size > 1 and axis not in ruled]
    if unused:
        _log.warning(
            "No layout rule splits anything over mesh axis %s: its devices repeat the same work.",
            ", ".join(unused),
        )
    matrices = [v for v in model.variables.values() if v.shape.ndims > 1]
    whole = {v.name: v.shape.size * v.dtype.size for v in matrices if not any(v.layout)}
    if not whole:
        return
    largest = sorted(whole, key=whole.get, reverse=True)
    names = ", ".join(f"{name} ({whole[name] / 1e6:.1f} MB)" for name in largest[:3])
    more = f" and {len(whole) - 3} more" if len(whole) > 3 else ""
    text = (
        f"{len(whole)} of {len(matrices)} weights are whole on every device, "
        f"{sum(whole.values()) / 1e6:.1f} MB of each: {names}{more}."
    )
    if strict:
        raise LayoutError(
            f"{text} Add a layout rule for one of their dimensions, or drop --strict."
        )
    _log.warning(text)
