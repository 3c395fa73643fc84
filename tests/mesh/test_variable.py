import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from mtf_models.errors import ConfigError, LayoutError, ShapeError
from mtf_models.mesh import initializers
from mtf_models.testing import Placement, covering

SHAPE = mtf.Shape("a:8,b:16,c:24")
PLACEMENTS = covering([SHAPE])


@pytest.fixture
def store():
    return mtf.VariableStore(mtf.Mesh(), seed=1)


def made(mesh, name="w", shape="a:8,b:16", **options):
    """A variable of a store of its own."""
    store = mtf.VariableStore(mesh, seed=options.pop("seed", 0))
    with store.eager():
        mtf.get_variable(mesh, name, shape, **options)
    return store.variables[name]


class TestNames:
    def test_the_scope_is_part_of_the_name(self, store):
        with store.eager(), mtf.variable_scope("encoder") as outer:
            with mtf.variable_scope("block_000") as inner:
                mtf.get_variable(store.mesh, "kernel", "a:8")
            mtf.get_variable(store.mesh, "scale", "a:8")
        assert (outer, inner) == ("encoder", "encoder/block_000")
        assert list(store.variables) == ["encoder/block_000/kernel", "encoder/scale"]

    def test_one_name_is_one_variable(self, store):
        with store.eager():
            first = mtf.get_variable(store.mesh, "w", "a:8")
            second = mtf.get_variable(store.mesh, "w", "a:8")
        assert len(store.variables) == 1
        np.testing.assert_array_equal(first.numpy(), second.numpy())

    @pytest.mark.parametrize("mode", ["collecting", "eager"])
    def test_one_name_has_one_shape(self, store, mode):
        with getattr(store, mode)():
            mtf.get_variable(store.mesh, "w", "a:8")
            with pytest.raises(ShapeError, match=r"w is Shape\[a=8\].*Shape\[b=8\]"):
                mtf.get_variable(store.mesh, "w", "b:8")

    def test_without_a_store_is_refused(self):
        with pytest.raises(ShapeError, match="store"):
            mtf.get_variable(mtf.Mesh(), "w", "a:8")

    def test_a_failing_block_leaves_no_scope_and_no_store_behind(self, store):
        with pytest.raises(ZeroDivisionError), store.eager(), mtf.variable_scope("s"):
            raise ZeroDivisionError
        with store.eager():
            mtf.get_variable(store.mesh, "w", "a:8")
        assert list(store.variables) == ["w"]
        with pytest.raises(ShapeError, match="store"):
            mtf.get_variable(store.mesh, "w", "a:8")


class TestInitialValues:
    @pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
    def test_are_equal_on_every_layout(self, placement):
        expected = made(mtf.Mesh(), shape=SHAPE).numpy()
        found = made(placement.make(), shape=SHAPE).numpy()
        np.testing.assert_array_equal(found, expected)

    def test_depend_on_name_and_seed_only(self):
        mesh = mtf.Mesh()
        value = made(mesh, seed=1).numpy()
        np.testing.assert_array_equal(made(mesh, seed=1).numpy(), value)
        assert not np.array_equal(made(mesh, seed=2).numpy(), value)
        assert not np.array_equal(made(mesh, "v", seed=1).numpy(), value)

    def test_do_not_depend_on_the_other_variables(self, store):
        with store.eager():
            mtf.get_variable(store.mesh, "before", "a:8")
            value = mtf.get_variable(store.mesh, "w", "a:8,b:16").numpy()
        np.testing.assert_array_equal(made(mtf.Mesh(), seed=1).numpy(), value)


class TestInitializers:
    SEED = (1, 2)

    @pytest.mark.parametrize("sizes", [[50, 80], [3, 40, 60], [200]])
    def test_glorot_uniform_has_keras_bound(self, sizes):
        shape = mtf.Shape([(f"d{i}", size) for i, size in enumerate(sizes)])
        value = initializers.glorot_uniform(shape)(sizes, self.SEED).numpy()
        keras = tf.keras.initializers.GlorotUniform(seed=0)(sizes).numpy()
        for found, right in [(value, keras), (-value, -keras), (np.abs(value), np.abs(keras))]:
            np.testing.assert_allclose(found.max(), right.max(), rtol=0.06)

    def test_a_scalar_can_be_drawn(self):
        assert np.abs(initializers.glorot_uniform(mtf.Shape())([], self.SEED).numpy()) < 3**0.5

    def test_normal_and_truncated_normal(self):
        normal = initializers.random_normal(3.0)([10000], self.SEED).numpy()
        truncated = initializers.truncated_normal(3.0)([10000], self.SEED).numpy()
        np.testing.assert_allclose([normal.mean(), normal.std()], [0, 3], atol=0.1)
        # The deviation of a standard normal cut at two is 0.8796.
        np.testing.assert_allclose([truncated.mean(), truncated.std()], [0, 2.639], atol=0.1)
        assert np.abs(truncated).max() < 6 < np.abs(normal).max()

    def test_constants(self):
        for make, value in [(initializers.zeros, 0), (initializers.ones, 1)]:
            np.testing.assert_array_equal(make()([2, 3], self.SEED), np.full([2, 3], value))
        assert initializers.constant(0.25)([], self.SEED).numpy() == 0.25


class TestDtypes:
    def test_one_dtype_is_all_three(self, store):
        with store.eager():
            value = mtf.get_variable(store.mesh, "w", "a:8", dtype="bfloat16")
        assert value.dtype == store.variables["w"].dtype == tf.bfloat16

    def test_kept_in_the_slice_dtype_and_read_in_the_activation_dtype(self, store):
        dtype = mtf.VariableDType(tf.float32, tf.float32, tf.bfloat16)
        with store.eager():
            value = mtf.get_variable(store.mesh, "w", "a:8", dtype)
            wide = mtf.get_variable(store.mesh, "w", "a:8", dtype, activation_dtype="float32")
        assert (value.dtype, wide.dtype) == (tf.bfloat16, tf.float32)
        kept = store.variables["w"].numpy()
        np.testing.assert_array_equal(wide.numpy(), kept)
        np.testing.assert_array_equal(value.numpy(), kept.astype(value.numpy().dtype))

    def test_an_unknown_dtype_is_named(self, store):
        with store.eager(), pytest.raises(ConfigError, match="flaot32"):
            mtf.get_variable(store.mesh, "w", "a:8", dtype="flaot32")


@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
class TestAssign:
    NEW = np.arange(8 * 16 * 24, dtype=np.float32).reshape(8, 16, 24)

    def test_arrays_and_tensors(self, placement):
        mesh = placement.make()
        variable = made(mesh, shape=SHAPE)
        same_mesh = mtf.import_tf_tensor(mesh, self.NEW.T, "c:24,b:16,a:8")
        one_device = mtf.import_tf_tensor(mtf.Mesh(), self.NEW, SHAPE)
        for value in [self.NEW, tf.constant(self.NEW), self.NEW.tolist(), one_device, same_mesh]:
            variable.assign(np.zeros(SHAPE.to_integer_list))
            variable.assign(value)
            np.testing.assert_array_equal(variable.numpy(), self.NEW)
            np.testing.assert_array_equal(variable.value.numpy(), self.NEW)

    def test_before_the_first_use_no_initial_value_is_drawn(self, placement):
        def fail(sizes, seed):
            raise AssertionError

        store = mtf.VariableStore(placement.make())
        with store.collecting():
            mtf.get_variable(store.mesh, "w", SHAPE, initializer=fail)
        store.variables["w"].assign(self.NEW)
        np.testing.assert_array_equal(store.variables["w"].numpy(), self.NEW)

    def test_the_value_is_cast(self, placement):
        variable = made(placement.make(), shape=SHAPE, dtype="bfloat16")
        variable.assign(np.full(SHAPE.to_integer_list, 1 + 2**-9))
        np.testing.assert_array_equal(variable.numpy().astype(np.float32), 1)

    def test_other_shapes_are_refused(self, placement):
        variable = made(placement.make(), shape=SHAPE)
        value = variable.numpy()
        with pytest.raises(ShapeError, match=r"w is .*\[8, 16\]"):
            variable.assign(self.NEW[:, :, 0])
        with pytest.raises(ShapeError, match="d=24"):
            variable.assign(mtf.import_tf_tensor(mtf.Mesh(), self.NEW, "a:8,b:16,d:24"))
        np.testing.assert_array_equal(variable.numpy(), value)

    def test_in_a_compiled_function_once_for_all_devices(self, placement):
        mesh = placement.make()
        variable = made(mesh, shape=SHAPE, initializer=initializers.zeros())
        step = tf.function(lambda: variable.assign(variable.value + 1), autograph=False)
        for _ in range(3):
            with mesh.calling():
                step()
        np.testing.assert_array_equal(variable.numpy(), np.full(SHAPE.to_integer_list, 3))


class TestAbstractPass:
    def test_allocates_nothing_and_lists_all_faults(self):
        mesh = mtf.Mesh("data:8;model:8", "batch:data,heads:model,vocab:model")
        abstract = mesh.abstract()
        store = mtf.VariableStore(mesh)
        with store.collecting(), mtf.variable_scope("decoder"):
            mtf.get_variable(abstract, "q", "d_model:1000000,heads:6")
            mtf.get_variable(abstract, "embedding", "vocab:32100,d_model:1000000")
        found = [(fault.tensors, fault.reason) for fault in abstract.engine.faults]
        assert [tensors for tensors, _ in found] == [("decoder/q",), ("decoder/embedding",)]
        assert "heads of size 6" in found[0][1]
        assert "vocab of size 32100" in found[1][1]
        with pytest.raises(LayoutError, match="heads of size 6"):
            store.variables["decoder/q"].layout  # noqa: B018

    def test_a_variable_says_how_it_lies(self):
        mesh = mtf.Mesh("data:2;model:4", "d_ff:model,batch:data")
        store = mtf.VariableStore(mesh)
        with store.collecting():
            mtf.get_variable(mesh, "wi", "d_model:8,d_ff:16", trainable=False)
        assert store.variables["wi"].layout == (None, "model")
        assert store.variables["wi"].trainable is False
        assert (
            repr(store.variables["wi"]) == "mtf.Variable('wi', Shape[d_model=8, d_ff=16], float32)"
        )


def test_values_are_served_from_a_table_and_cast_once(store):
    dtype = mtf.VariableDType(tf.float32, tf.float32, tf.bfloat16)
    with store.collecting():
        mtf.get_variable(store.mesh, "w", "a:8", dtype)
    table = store.read()
    with tf.GradientTape() as tape:
        tape.watch(table["w"])
        with store.serving(table):
            first = mtf.get_variable(store.mesh, "w", "a:8", dtype)
            assert mtf.get_variable(store.mesh, "w", "a:8", dtype) is first
        loss = mtf.reduce_sum(mtf.to_float(first) * 3)
    source = mtf.Tensor(store.mesh, mtf.Shape("a:8"), table["w"])
    (slope,) = mtf.gradients(tape, loss, [source])
    np.testing.assert_array_equal(slope.numpy(), np.full(8, 3))


def test_a_placement_with_a_variable_whose_parts_differ_holds_slices():
    mesh = Placement("r:2;c:4", "a:c,c:r").make()
    variable = made(mesh, shape=SHAPE)
    parts = dict(mesh.engine.slices(variable.held, variable.layout))
    assert sorted(parts) == [(a, 0, c) for a in (0, 2, 4, 6) for c in (0, 12)]
    for (a, b, c), part in parts.items():
        np.testing.assert_array_equal(part, variable.numpy()[a : a + 2, b:, c : c + 12])
