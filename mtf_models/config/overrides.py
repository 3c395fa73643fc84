"""Values of command line flags as bindings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mtf_models.config.names import original, resolve, signature
from mtf_models.config.statements import Binding, Origin
from mtf_models.errors import ConfigError, did_you_mean

_RUN = "mesh_tensorflow.transformer.utils.run"

_FLAGS = {
    "eval_every": "eval_every_steps",
    "keep": "keep_checkpoint_max",
    "layout": "layout_rules",
    "mesh": "mesh_shape",
    "save_every": "save_checkpoints_steps",
    "steps": "train_steps",
}


def bindings_of(overrides: Mapping[str, Any]) -> list[Binding]:
    """The bindings of `run`, ours and the original's, that flags stand for.

    Args:
        overrides: flag, without dashes, to value; None where the flag was not given. A flag is
            named as the parameter that it sets, or is one of eval_every, keep, layout, mesh,
            save_every and steps. A whole number for batch_size counts sequences.

    Returns:
        One binding for each flag that was given.

    Raises:
        ConfigError: if there are flags that set nothing.
    """
    parameters = {*original()[_RUN].parameters, *signature(resolve(_RUN)).parameters}
    known = {**{name: name for name in parameters}, **_FLAGS}
    unknown = [name for name in overrides if name not in known]
    if unknown:
        faults = (f"no binding belongs to --{name}{did_you_mean(name, known)}" for name in unknown)
        raise ConfigError("\n".join(faults))
    return [
        Binding("", _RUN, known[name], _value(name, value), Origin(f"--{name}", 0))
        for name, value in overrides.items()
        if value is not None
    ]


def _value(name: str, value: Any) -> Any:
    if name == "batch_size" and isinstance(value, int):
        return ("sequences_per_batch", value)
    return value
