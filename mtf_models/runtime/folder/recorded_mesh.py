"""The mesh that a run folder records, on a machine that may have fewer devices."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from mtf_models import processes
from mtf_models.config import Config
from mtf_models.errors import DeviceError
from mtf_models.mesh import Mesh, devices
from mtf_models.mesh.devices import VIRTUAL_CPUS_VARIABLE
from mtf_models.runtime.bindings.settings import RunSettings
from mtf_models.runtime.folder import prepare

_log = logging.getLogger("mtf_models")


def mesh_for(config: Config, recorded: Config, as_asked: bool, strict: bool = False) -> Mesh:
    """The mesh of a command on a run folder; says so if it is another than the recorded one.

    Several processes take the recorded one, whatever each of them has.

    Args:
        config: of the command.
        recorded: of the folder.
        as_asked: whether the command asks for its mesh, and it must not be another one.
        strict: whether a mesh other than the recorded one is refused.

    Raises:
        DeviceError: if it is, or if devices that are asked for are not there.
    """
    settings = prepare.settings_of(config)
    as_asked = as_asked or processes.current().count > 1
    used = prepare.mesh_of(settings) if as_asked else _fitting(settings)
    _report(Mesh(recorded.query("utils.run.mesh_shape") or ""), used, strict)
    return used


def shrink(axes: Mapping[str, int], count: int) -> dict[str, int]:
    """Axes that fit on `count` devices: the small ones keep their size, as far as it divides."""
    left, smaller = count, dict(axes)
    for name in sorted(axes, key=axes.get):
        size = axes[name]
        smaller[name] = max(n for n in range(1, size + 1) if size % n == 0 and n <= left)
        left //= smaller[name]
    return smaller


def _fitting(settings: RunSettings) -> Mesh:
    """The mesh of the settings, which another machine may have made, as far as it fits here."""
    mesh = Mesh(settings.mesh_shape or "", settings.layout_rules)
    present = devices.available()
    if mesh.size > present:
        if devices.choose(1)[0].startswith("CPU") and VIRTUAL_CPUS_VARIABLE not in os.environ:
            present = 1  # More virtual devices only help who asks for them.
        return Mesh(shrink(mesh.axes, present).items(), settings.layout_rules)
    try:
        return Mesh(mesh.shape, settings.layout_rules, prepare.named_devices(settings))
    except DeviceError:
        return mesh


def _report(recorded: Mesh, used: Mesh, strict: bool) -> None:
    then, now = _split_axes(recorded), _split_axes(used)
    if then == now:
        return
    texts = [_product(then), _product(now)]
    if texts[0] == texts[1]:
        texts = [str(recorded), str(used)]
    if strict:
        raise DeviceError(
            f"The recorded mesh {texts[0]} has {recorded.size} devices; the one to use here, "
            f"{texts[1]}, has {used.size}. Drop --strict_mesh to go on with it."
        )
    _log.info("recorded mesh %s → using %s", *texts)


def _split_axes(mesh: Mesh) -> dict[str, int]:
    return {axis: size for axis, size in mesh.axes.items() if size > 1}


def _product(axes: Mapping[str, int]) -> str:
    return "×".join(map(str, axes.values())) or "1"
