"""The devices of this machine, and the virtual CPU devices that stand in for a mesh."""

from __future__ import annotations

import os
from collections.abc import Sequence

import tensorflow as tf

from mtf_models import machine, processes
from mtf_models.errors import DeviceError
from mtf_models.mesh import multi_client

DEFAULT_VIRTUAL_CPUS = 8
VIRTUAL_CPUS_VARIABLE = "MTF_VIRTUAL_CPUS"


def make_virtual_cpus(at_least: int = 1) -> None:
    """Divides the CPU into virtual devices, while TensorFlow still allows it.

    Their number is fixed at TensorFlow's first touch of a device, so this happens when the package
    is first used: max(8, `at_least`), or what the environment variable MTF_VIRTUAL_CPUS says.
    """
    cpus = tf.config.list_physical_devices("CPU")
    wanted = os.environ.get(VIRTUAL_CPUS_VARIABLE, str(DEFAULT_VIRTUAL_CPUS))
    if not wanted.isdigit():
        raise DeviceError(f"{VIRTUAL_CPUS_VARIABLE}={wanted} is no number of devices; set 8, or 1.")
    count = max(int(wanted), at_least)
    configured = tf.config.get_logical_device_configuration(cpus[0])
    if configured is not None and len(configured) >= count:
        return
    try:
        tf.config.set_logical_device_configuration(
            cpus[0], [tf.config.LogicalDeviceConfiguration()] * count
        )
    except RuntimeError:
        return  # TensorFlow has started; `choose` tells whoever needs more than there is.


def available() -> int:
    """How many devices a mesh may have without being asked for by name."""
    return processes.current().count * len(_local())


def bfloat16_is_fast() -> bool:
    """Whether computing in bfloat16 pays here: on accelerators, and on CPUs that multiply in it."""
    if any(tf.config.list_physical_devices(kind) for kind in ("TPU", "GPU")):
        return True
    return bool({"amx_bf16", "avx512_bf16"} & set(machine.bfloat16_instructions()))


def choose(count: int, names: list[str] | None = None) -> list[str]:
    """The devices of a mesh: those named, else the first `count` accelerators, else CPUs.

    Several processes have equal parts of them, in their order.

    Args:
        count: how many devices the mesh has.
        names: device names such as "GPU:0" or "CPU:3", or None.

    Returns:
        Names such as "GPU:0", in the order of the mesh; of several processes such as
        "task:1/GPU:0".

    Raises:
        DeviceError: if a named device is absent, there are too few, or the processes cannot have
            equal parts.
    """
    if names is not None:
        return check_named(count, names)
    group = processes.current()
    if group.count == 1:
        return _first(count)
    if count % group.count:
        raise DeviceError(
            f"A mesh of {count} devices cannot be spread over {group.count} processes: give a "
            f"--mesh whose size is a multiple of {group.count}."
        )
    own = _first(count // group.count)
    return [f"task:{i}/{name}" for i in range(group.count) for name in own]


def own_part(names: list[str]) -> list[str]:
    """Those of the devices of a mesh, as `choose` gives them, that this process has."""
    group = processes.current()
    own = len(names) // group.count
    return [name.split("/")[-1] for name in names[own * group.index : own * (group.index + 1)]]


def names(devices: Sequence[str | tf.config.LogicalDevice] | None) -> list[str] | None:
    """The names of devices that are given by name or as TensorFlow's objects; None stays None.

    Raises:
        DeviceError: if they are not a list of such.
    """
    if devices is None:
        return None
    found = [getattr(device, "name", device) for device in devices]
    if isinstance(devices, str) or not all(isinstance(name, str) for name in found):
        raise DeviceError(f'Devices are {devices!r}; give a list of names such as ["CPU:0"].')
    return found


def check_named(count: int, names: list[str]) -> list[str]:
    """Refuses device names that this machine does not have, that occur twice, or are too few.

    Args:
        count: how many devices the mesh has.
        names: device names such as "GPU:0" or "CPU:3".

    Returns:
        The names, written as "GPU:0".

    Raises:
        DeviceError: listing the absent or repeated ones, and what there is.
    """
    several = processes.current().count
    if several > 1:
        raise DeviceError(
            f"The devices {', '.join(names)} are named, and there are {several} processes, each "
            "with its own: leave the choice to the mesh (run.mesh_devices = None)."
        )
    shorts = [_short(name) for name in names]
    highest = max([int(s.split(":")[1]) for s in shorts if s.startswith("CPU")], default=-1)
    make_virtual_cpus(highest + 1)
    present = [_short(d.name) for d in tf.config.list_logical_devices()]
    absent = [name for name in shorts if name not in present]
    if absent:
        raise DeviceError(
            f"No such device: {', '.join(absent)}. This machine has {', '.join(present)}. "
            "Name devices that are there, or leave the choice to the mesh."
        )
    # TensorFlow would wait without end for a device that has two parts of one mesh.
    if len(set(shorts)) != count or len(shorts) != count:
        raise DeviceError(
            f"A mesh of {count} devices needs the names of {count} different ones; found "
            f"{', '.join(shorts)}. Name one device for each part of the mesh."
        )
    return shorts


def _local() -> list[tf.config.LogicalDevice]:
    """The accelerators of this process, or with none its CPUs."""
    for kind in ("TPU", "GPU"):
        found = tf.config.list_logical_devices(kind)
        # TensorFlow lists those of the other processes too.
        local = [d for d in found if _is_local(d.name)]
        if local:
            return local
    return [d for d in tf.config.list_logical_devices("CPU") if _is_local(d.name)]


def _is_local(name: str) -> bool:
    task = tf.DeviceSpec.from_string(name).task
    return task is None or task == processes.current().index


def _first(count: int) -> list[str]:
    """The first devices of this process."""
    if _local()[0].device_type == "CPU":
        make_virtual_cpus(count)
    found = _local()
    kind, present = found[0].device_type, len(found)
    if present < count:
        advice = f"Take a mesh of at most {present} devices"
        if kind == "CPU":
            advice += (
                f", or set {VIRTUAL_CPUS_VARIABLE}={count} before TensorFlow starts "
                "(its CPU devices are fixed at first use)"
            )
        raise DeviceError(
            f"The mesh needs {count} devices; this process has {present} {kind} devices. {advice}."
        )
    return [f"{kind}:{i}" for i in range(count)]


def _short(name: str) -> str:
    parts = name.upper().lstrip("/").replace("DEVICE:", "").split("/")[-1].split(":")
    if len(parts) == 1:
        parts.append("0")
    if len(parts) != 2 or not parts[1].isdigit():
        raise DeviceError(f'Cannot read device name {name!r}; write for example "GPU:0".')
    return ":".join(parts)


make_virtual_cpus()
multi_client.join()
