"""Bad input: one error that lists all that is wrong with a call, by tensor, dimension and axis."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from mtf_models.errors import DeviceError, LayoutError, ShapeError

ONE = mtf.Mesh()
A, B = mtf.Dimension("a", 8), mtf.Dimension("b", 4)


def x():
    return mtf.ones(ONE, [A, B])


def ids(*dims):
    return mtf.zeros(ONE, dims, tf.int32)


class TestDimensions:
    @pytest.mark.parametrize("size", [0, -3, 2.0, "2", None, True])
    def test_a_size_is_a_whole_number_from_1(self, size):
        with pytest.raises(ShapeError, match="a whole number from 1"):
            mtf.Dimension("batch", size)

    @pytest.mark.parametrize("name", ["", "a b", "a:b", "a,b", "a.b", 3, None])
    def test_a_name_can_be_written_in_a_text(self, name):
        with pytest.raises(ShapeError, match="A name is a text without"):
            mtf.Dimension(name, 2)

    def test_numbers_of_numpy_are_numbers(self):
        assert mtf.Dimension("a", np.int64(8)) == A
        assert type(mtf.Dimension("a", np.int64(8)).size) is int

    def test_a_shape_lists_all_that_are_none(self):
        with pytest.raises(ShapeError) as error:
            mtf.Shape([("a", 0), ("b", 2), "c", ("d", 1.5), ("e f", 3)])
        for part in ("a=0", "'c'", "d=1.5", "'e f' is no name"):
            assert part in str(error.value)
        assert "b=2" not in str(error.value)

    def test_mappings_are_shapes_and_rules(self):
        assert mtf.Shape({"a": 8, "b": 4}) == mtf.Shape([A, B])
        mesh = mtf.Mesh({"all": 8}, {"a": "all"})
        assert mesh.layout(mtf.Shape([A, B])) == ("all", None)


class TestMeshes:
    @pytest.mark.parametrize("rules", [["batch"], [("batch",)], [("batch", 3)], [("", "all")]])
    def test_rules_are_pairs_of_names(self, rules):
        with pytest.raises(LayoutError, match="Not a layout rule"):
            mtf.Mesh("all:8", rules)

    def test_devices_may_be_those_of_tensorflow(self):
        devices = tf.config.list_logical_devices("CPU")[2:4]
        assert mtf.Mesh("all:2", devices=devices).devices == ["CPU:2", "CPU:3"]

    @pytest.mark.parametrize("devices", ["CPU:0", [0]])
    def test_devices_are_names(self, devices):
        with pytest.raises(DeviceError, match="a list of names"):
            mtf.Mesh(devices=devices)

    def test_a_layout_lists_all_faults(self):
        mesh = mtf.Mesh("r:2;c:4", "a:r,b:r,d:c")
        with pytest.raises(LayoutError) as error:
            mtf.zeros(mesh, [A, B, ("d", 6)])
        for part in ("a and b", "axis r", "d of size 6", "axis c", "in constant"):
            assert part in str(error.value)


# Each call, and what its one error says.
CALLS = {
    "add": (
        lambda: mtf.add(x(), ids(("b", 3)), output_shape=[A]),
        ["float32", "int32", "b has the sizes 3 and 4", "the result lacks b=4, b=3"],
    ),
    "add_n": (
        lambda: mtf.add_n([x(), ids(("b", 3)), mtf.ones(ONE, "a:2", tf.float64)]),
        ["float32 and float64 and int32", "a has the sizes 2 and 8", "b has the sizes 3 and 4"],
    ),
    "where": (
        lambda: mtf.where(x() > 0, ids(("a", 2)), x()),
        ["float32 and int32", "a has the sizes 2 and 8"],
    ),
    "einsum": (
        lambda: mtf.einsum([x(), ids(("b", 3))], reduced_dims=[("d", 2)]),
        ["float32 and int32", "b has the sizes 3 and 4", "no operand has d=2"],
    ),
    "concat": (
        lambda: mtf.concat([x(), ids(A, ("e", 2))], "b"),
        ["has no b", "the other dimensions differ", "the dtypes differ"],
    ),
    "split": (lambda: mtf.split(x(), B, 3), ["b=4 cannot be cut into 3"]),
    "stack": (
        lambda: mtf.stack([x(), ids(A)], "a", axis=5),
        ["the dimensions differ", "the dtypes differ", "has a already", "axis 5"],
    ),
    "slice": (lambda: mtf.slice(x(), 3, 9, "a"), ["entries 3 to 12 are not all in a=8"]),
    "pad": (lambda: mtf.pad(x(), [1, -1], "a"), ["[1, -1]"]),
    "dynamic_shift": (
        lambda: mtf.dynamic_shift(x(), mtf.ones(ONE, [("d", 2)]), ("d", 2), wrap=False),
        ["no d=2", "the offset has d too", "not of integers"],
    ),
    "halo_exchange": (
        lambda: mtf.halo_exchange(x(), ("n", 3), ("m", 2), -1),
        ["no n=3, m=2", "a margin of -1"],
    ),
    "top_k": (
        lambda: mtf.top_k(x(), ("d", 2), ("a", 3)),
        ["no d=2", "keeps a a", "fewer than 3"],
    ),
    "nth_largest_element": (
        lambda: mtf.nth_largest_element(x(), 4, B),
        ["numbers go from 0 to 3"],
    ),
    "gather": (lambda: mtf.gather(x(), ids(("a", 3)), B), ["a=8 has another size"]),
    "scatter": (
        lambda: mtf.scatter(x(), ids(("d", 2)), ("v", 9), output_shape="e:3,a:8"),
        ["the updates lack Shape[d=2]", "nothing has Shape[e=3]", "the result lacks"],
    ),
    "sample_with_temperature": (
        lambda: mtf.sample_with_temperature(x(), ("v", 2), -1.0),
        ["no v=2", "-1.0 is negative"],
    ),
    "pool_tensor_1d": (
        lambda: mtf.pool_tensor_1d(x(), ("d", 3), pool_size=2),
        ["no d=3", "no multiple of 2"],
    ),
    "conv2d": (
        lambda: mtf.conv2d(x(), mtf.ones(ONE, "fh:3,in:2,out:4"), [1, 0], "FULL"),
        ["2 spatial dimensions", "'FULL'", "strides [1, 0]"],
    ),
    "conv1d": (
        lambda: mtf.conv1d(
            mtf.ones(ONE, "n:2,h:8,in:3"), mtf.ones(ONE, "h:3,in:2,out:4", tf.float64)
        ),
        ["not in=2", "Shape[h=3]", "the dtypes differ"],
    ),
    "slicewise": (
        lambda: mtf.slicewise(lambda v: v, [x()], [A], tf.int32),
        ["[8, 4] is not Shape[a=8]", "float32, not int32"],
    ),
    "while_loop": (
        lambda: mtf.while_loop(
            lambda y: mtf.reduce_all(y > 0), lambda y: [mtf.to_int32(y), y], [x()]
        ),
        ["2 tensors for a state of 1", "int32"],
    ),
    "while_loop's condition": (
        lambda: mtf.while_loop(lambda y: y > 0, lambda y: [y], [x()]),
        ["bool Shape[a=8, b=4], not one bool"],
    ),
}


def bools():
    return mtf.zeros(ONE, [A, B], tf.bool)


# Each call, and what of its dtypes or numbers is refused.
REFUSED = {
    "exp": (lambda: mtf.exp(ids(A)), "mtf.exp of int32 Shape[a=8]: TensorFlow does not compute"),
    "gelu": (lambda: mtf.gelu(ids(A)), "mtf.gelu of int32"),
    "reciprocal": (lambda: mtf.reciprocal(ids(A)), "mtf.reciprocal of int32"),
    "softmax": (lambda: mtf.softmax(ids(A), A), "mtf.softmax of int32"),
    "cumsum": (lambda: mtf.cumsum(bools(), A), "mtf.cumsum of bool"),
    "einsum": (lambda: mtf.einsum([bools(), bools()]), "mtf.einsum of bool"),
    "+": (lambda: bools() + bools(), "mtf.add of bool Shape[a=8, b=4], bool Shape[a=8, b=4]"),
    "-": (lambda: 1 - bools(), "mtf.sub of bool"),
    "None": (lambda: x() + None, "None is neither a named tensor nor a number"),
    "text": (lambda: x() * "2", "'2' is neither a named tensor nor a number"),
    "add_n": (lambda: mtf.add_n([]), "nothing to add"),
    "shift": (lambda: mtf.shift(x(), 1.5, A, wrap=True), "whole numbers, not by 1.5"),
    "reduce_sum": (lambda: mtf.reduce_sum(x(), reduced_dim="a"), "Not a dimension: 'a'"),
}


@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_there_is_no_operation_for_is_refused_by_name(name, is_compiled):
    call, part = REFUSED[name]
    if is_compiled and name in ("einsum", "reciprocal"):
        pytest.skip("TensorFlow looks for kernels when the graph runs")
    run = tf.function(lambda: call().value, autograph=False) if is_compiled else call
    with pytest.raises(ShapeError) as error:
        run()
    assert part in str(error.value)


def test_pairs_are_dimensions_everywhere():
    pair = ("a", 8)
    for result in (
        mtf.mtf_range(ONE, pair, tf.float32),
        mtf.one_hot(ids(B), pair),
        mtf.softmax(x(), pair),
        mtf.log_softmax(x(), pair),
        mtf.reduce_logsumexp(x(), pair),
        mtf.reduce_max(x(), reduced_dim=pair),
        mtf.reduce_sum(x(), reduced_dim=[pair, B]),
        mtf.in_blocks(lambda begin, rows: [mtf.sin(rows)], [x()], [], pair, size=4)[0],
    ):
        assert np.isfinite(result.numpy()).all()


@pytest.mark.parametrize("name", CALLS)
def test_a_call_lists_all_its_faults(name):
    call, parts = CALLS[name]
    with pytest.raises(ShapeError) as error:
        call()
    message = str(error.value)
    assert [part for part in parts if part not in message] == [], message


def test_nan_does_not_leak_through_a_selection():
    array = np.float32([np.nan, 1, -np.inf, 2])
    y = mtf.import_tf_tensor(ONE, array, "a:4")
    with tf.GradientTape() as tape:
        tape.watch(y.value)
        chosen = mtf.where(mtf.equal(y, y), mtf.where(y > 0, y, 0), 0)
        loss = mtf.reduce_sum(chosen)
    assert chosen.numpy().tolist() == [0, 1, 0, 2]
    assert mtf.gradients(tape, loss, [y])[0].numpy().tolist() == [0, 1, 0, 1]


def test_an_operation_is_called_what_the_call_says():
    mesh = mtf.Mesh("all:8", "a:all,c:all")
    with pytest.raises(LayoutError, match="in attention_scores"):
        mtf.add(mtf.ones(mesh, [A]), mtf.ones(mesh, [("c", 8)]), name="attention_scores")
