"""TensorFlow's runtime, joined over the processes of one program."""

from __future__ import annotations

import os

import tensorflow as tf
from tensorflow.experimental import dtensor

from mtf_models import processes
from mtf_models.errors import DeviceError


def join() -> None:
    """Lets meshes span all processes; of a process alone it does nothing.

    It comes before TensorFlow starts its devices.

    Raises:
        DeviceError: if the address of this process cannot be used, or TensorFlow has started.
    """
    cluster = processes.current().cluster
    if cluster.count == 1:
        return
    os.environ["DTENSOR_JOB_NAME"] = "worker"
    os.environ["DTENSOR_JOBS"] = ",".join(cluster.addresses)
    os.environ["DTENSOR_NUM_CLIENTS"] = str(cluster.count)
    os.environ["DTENSOR_CLIENT_ID"] = str(cluster.index)
    try:
        # Its coordination service would wait for ever for a process that does not come, deaf to
        # signals; `processes` notices who is gone.
        dtensor.initialize_accelerator_system(
            dtensor.preferred_device_type(), enable_coordination_service=False
        )
    except (tf.errors.OpError, ValueError) as error:
        raise DeviceError(
            f"TensorFlow cannot join the other processes as {cluster.name(cluster.index)}: "
            f"{str(error).splitlines()[0]} Give the process an address of this machine whose port "
            "is free."
        ) from error
