import numpy as np
import pytest
import tensorflow as tf
from tensorflow.experimental import dtensor

import mtf_models as mtf
from mtf_models.errors import DeviceError, LayoutError
from mtf_models.mesh import devices

RULES = "batch:batch,d_ff:model,heads:model"


def test_axes_sizes_and_layouts():
    mesh = mtf.Mesh("batch:4,model:8", RULES)
    assert (mesh.size, mesh.axes) == (32, {"batch": 4, "model": 8})
    assert mesh.layout(mtf.Shape("batch:128,length:500,d_ff:2048")) == ("batch", None, "model")
    assert mesh.splits(mtf.Dimension("heads", 16)) == 8
    assert mesh.splits(mtf.Dimension("length", 16)) == 1
    assert str(mesh) == "batch:4,model:8"


def test_one_device_splits_nothing():
    for mesh in (mtf.Mesh(layout=RULES), mtf.Mesh("batch:1,model:1", RULES)):
        assert mesh.size == 1
        assert mesh.layout(mtf.Shape("batch:3,d_ff:5")) == (None, None)
        assert mtf.zeros(mesh, "batch:3,d_ff:5").numpy().shape == (3, 5)


def test_dimensions_on_one_axis():
    mesh = mtf.Mesh("a:2;b:2", layout="batch:a,experts:a,heads:b,vocab:absent,length:absent")
    batch, experts, heads, vocab, length = (
        mtf.Dimension(n, 4) for n in ("batch", "experts", "heads", "vocab", "length")
    )
    assert mesh.share_an_axis(batch, experts)
    assert not mesh.share_an_axis(batch, heads)
    assert not mesh.share_an_axis(vocab, length)


def test_absent_axes_split_nothing():
    assert mtf.Mesh("all:8", "a:all,b:model").layout(mtf.Shape("a:8,b:3")) == ("all", None)


def test_whole_dimensions_are_left_out():
    mesh = mtf.Mesh("all:8", "a:all,b:all")
    a, b = mtf.Shape("a:8,b:3")
    assert mesh.layout(mtf.Shape([a, b]), [b]) == ("all", None)
    assert mesh.layout(mtf.Shape([a, ("c", 1)]), [a]) == (None, None)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("batch", "name:value"),
        ("batch:0", "positive"),
        ([("batch", 0), ("model", -2)], "batch=0, model=-2"),
        ("batch:2,batch:4", "repeats batch"),
        ([("batch", "two")], "Not a dimension"),
    ],
)
def test_unreadable_shapes_are_refused(shape, message):
    with pytest.raises(LayoutError, match=message):
        mtf.Mesh(shape)


class TestFaults:
    """What a tensor cannot be is said before TensorFlow is asked for it, eager or compiled."""

    MESH = mtf.Mesh("all:8", "x:all,y:all,z:all")
    X, Y, D = mtf.Dimension("x", 8), mtf.Dimension("y", 8), mtf.Dimension("d", 8)

    def ones(self, *dims):
        return mtf.import_tf_tensor(self.MESH, np.ones([d.size for d in dims], np.float32), dims)

    def clashing(self):
        x, y, xd = self.ones(self.X), self.ones(self.Y), self.ones(self.X, self.D)
        ids = mtf.to_int32(y)
        return {
            "add": lambda: x + y,
            "where": lambda: mtf.where(x > 0, x, y),
            "broadcast": lambda: mtf.broadcast(x, [self.X, self.Y]),
            "constant": lambda: mtf.zeros(self.MESH, [self.X, self.Y]),
            "einsum": lambda: mtf.einsum([x, y]),
            "gather": lambda: mtf.gather(xd, ids, self.D),
            "one_hot": lambda: mtf.one_hot(mtf.to_int32(x), self.Y),
            "rename_dimension": lambda: mtf.rename_dimension(xd, "d", "y"),
            "reshape": lambda: mtf.reshape(xd, [self.X, self.Y]),
            "import_tf_tensor": lambda: self.ones(self.X, self.Y),
        }

    @pytest.mark.parametrize("mode", ["eager", "compiled"])
    def test_two_dimensions_on_one_axis(self, mode):
        for name, make in self.clashing().items():
            function = tf.function(make, autograph=False) if mode == "compiled" else make
            with pytest.raises(LayoutError) as error, self.MESH.calling():
                function()
            for part in (" x and y ", "axis all", f"(in {name})", '"all:8"', "drop"):
                assert part in str(error.value), name

    def test_the_scope_is_named(self):
        with (
            mtf.variable_scope("decoder"),
            mtf.variable_scope("ffn"),
            pytest.raises(LayoutError, match=r"in decoder/ffn/add"),
        ):
            _ = self.ones(self.X) + self.ones(self.Y)

    @pytest.mark.parametrize(
        ("name", "make"),
        [
            ("slice", lambda x: mtf.slice(x, 0, 3, "x")),
            ("pad", lambda x: mtf.pad(x, [1, 0], "x")),
            ("mtf_range", lambda x: mtf.mtf_range(x.mesh, mtf.Dimension("y", 9))),
            ("rename_dimension", lambda x: mtf.rename_dimension(mtf.slice(x, 0, 3, "d"), "d", "y")),
        ],
    )
    def test_sizes_that_do_not_divide(self, name, make):
        with pytest.raises(LayoutError, match=rf"8 parts of axis all.*\(in {name}\)"):
            make(self.ones(self.D, self.X))


class TestDevices:
    def test_the_first_ones_are_taken(self):
        assert mtf.Mesh("all:4").devices == ["CPU:0", "CPU:1", "CPU:2", "CPU:3"]

    def test_named_ones_are_taken_in_order(self):
        names = ["CPU:5", "/device:CPU:3"]
        mesh = mtf.Mesh("all:2", "a:all", devices=names)
        x = mtf.import_tf_tensor(mesh, np.arange(4), "a:4")
        assert mesh.devices == ["CPU:5", "CPU:3"]
        np.testing.assert_array_equal((x + x).numpy(), [0, 2, 4, 6])

    def test_absent_ones_are_listed_beside_what_there_is(self):
        with pytest.raises(DeviceError) as error:
            mtf.Mesh("all:3", devices=["CPU:0", "GPU:99", "CPU:99"])
        assert "GPU:99, CPU:99" in str(error.value)
        assert "This machine has CPU:0, CPU:1" in str(error.value)

    @pytest.mark.parametrize("names", [["CPU:0"], ["CPU:0", "CPU:0"], ["CPU:0", "CPU:1", "CPU:2"]])
    def test_one_for_each_part(self, names):
        with pytest.raises(DeviceError, match="2 different"):
            mtf.Mesh("all:2", devices=names)

    def test_unreadable_names(self):
        with pytest.raises(DeviceError, match="GPU:0"):
            mtf.Mesh("all:1", devices=["gpu:first"])

    def test_too_few_are_counted_when_they_are_needed(self):
        mesh = mtf.Mesh("all:16", "a:all")
        assert mesh.layout(mtf.Shape("a:16")) == ("all",)
        with pytest.raises(DeviceError, match=r"needs 16.*has 8 CPU.*at most 8"):
            mtf.zeros(mesh, "a:16")

    def test_the_number_of_virtual_ones_is_a_number(self, monkeypatch):
        monkeypatch.setenv("MTF_VIRTUAL_CPUS", "eight")
        with pytest.raises(DeviceError, match="MTF_VIRTUAL_CPUS=eight"):
            devices.make_virtual_cpus()

    def test_a_mesh_may_take_one_device_of_many(self):
        x = mtf.import_tf_tensor(mtf.Mesh(devices=["CPU:7"]), np.arange(4), "a:4")
        assert (x * 2).value.device.endswith("CPU:7")


class TestEngine:
    MESH = mtf.Mesh("r:2;c:4", "a:c,b:r")

    @pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8", "bool"])
    def test_values_come_back_as_they_were_put(self, dtype):
        array = np.random.default_rng(0).integers(0, 2, (4, 8, 2, 3)).astype(dtype)
        for shape in ("a:4,b:8,c:2,d:3", "e:4,a:8,b:2,d:3", "d:4,e:8,f:2,g:3"):
            x = mtf.import_tf_tensor(self.MESH, array, shape)
            np.testing.assert_array_equal(x.numpy(), array)
            assert x.numpy().dtype == dtype

    def test_devices_hold_their_parts_and_replicas_are_equal(self):
        array = np.arange(32).reshape(8, 4)
        x = mtf.import_tf_tensor(self.MESH, array, "a:8,d:4")
        parts = [part.numpy() for part in dtensor.unpack(x.value)]
        for i, part in enumerate(parts):
            np.testing.assert_array_equal(part, array[i % 4 * 2 : i % 4 * 2 + 2])

    def test_meshes_of_several_kinds_live_together(self):
        for _ in range(2):
            for shape in ("", "a:2", "x:8", "r:2;c:4"):
                mesh = mtf.Mesh(shape, "a:a,b:x")
                x = mtf.import_tf_tensor(mesh, np.arange(16.0), "a:16")
                assert float(mtf.reduce_sum(x)) == 120
