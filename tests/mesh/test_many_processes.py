"""What a mesh is told of several processes; the processes themselves are not there."""

import threading
from types import SimpleNamespace

import pytest

from mtf_models import processes
from mtf_models.errors import DeviceError
from mtf_models.mesh import Mesh, devices
from mtf_models.mesh.engines import dtensor


@pytest.fixture
def second_of_two(monkeypatch):
    monkeypatch.setattr(processes, "current", lambda: SimpleNamespace(index=1, count=2))


def test_processes_have_equal_parts_of_the_devices(second_of_two):
    names = ["task:0/CPU:0", "task:0/CPU:1", "task:1/CPU:0", "task:1/CPU:1"]
    assert Mesh("batch:2;model:2").devices == names
    assert devices.own_part(names) == ["CPU:0", "CPU:1"]
    assert devices.available() == 16  # eight virtual CPUs each


@pytest.mark.parametrize("shape", ["", "batch:3"])
def test_a_mesh_that_cannot_be_spread_is_refused(second_of_two, shape):
    with pytest.raises(DeviceError, match="cannot be spread over 2 processes"):
        _ = Mesh(shape).devices


def test_each_process_is_asked_for_its_part_of_the_devices_alone(second_of_two):
    with pytest.raises(DeviceError, match="needs 20 devices; this process has 8"):
        _ = Mesh("batch:40").devices


def test_devices_of_several_processes_have_no_names(second_of_two):
    with pytest.raises(DeviceError, match="there are 2 processes, each with its own"):
        _ = Mesh("batch:2", devices=["CPU:0", "CPU:1"])


def test_another_thread_may_not_call(second_of_two, monkeypatch):
    monkeypatch.setattr(dtensor, "_device_mesh", lambda axes, devices: None)
    engine = dtensor.DTensorEngine({"batch": 2}, ["CPU:0"])
    with engine.locked():
        pass
    raised = []

    def call():
        try:
            engine.locked()
        except DeviceError as error:
            raised.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert len(raised) == 1 and "one thread" in raised[0]
