import operator

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import mtf_models as mtf
from mtf_models.errors import ShapeError
from mtf_models.mesh.size import Size, UnknownSizeError

SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
BATCH, LENGTH = Size.of("batch", 7), Size.of("length", 5, most=100)
OPERANDS = [1, 2, 3, BATCH, LENGTH]


def number(size):
    return size.value if isinstance(size, Size) else size


def traced(function):
    return tf.function(function, autograph=False)(tf.zeros([14]))


class TestArithmetic:
    @given(st.lists(st.tuples(st.sampled_from("+-*"), st.sampled_from(OPERANDS)), max_size=6))
    def test_is_that_of_whole_numbers(self, steps):
        size, expected = BATCH, 7
        for sign, operand in steps:
            size = SIGNS[sign](size, operand)
            expected = SIGNS[sign](expected, number(operand))
            assert number(size) == expected
            assert number(SIGNS[sign](operand, size)) == SIGNS[sign](number(operand), expected)

    def test_divides_what_has_the_factor(self):
        assert (4 * BATCH * LENGTH + 8) // 4 == LENGTH * BATCH + 2
        assert BATCH - BATCH == 0
        assert hash(2 * BATCH + LENGTH) == hash(LENGTH + BATCH + BATCH)


class TestComparison:
    def test_of_what_is_certain(self):
        assert LENGTH + 1 <= LENGTH + 12
        assert LENGTH <= 100 < LENGTH + 100
        assert not LENGTH > 100
        assert LENGTH * LENGTH <= 100**2
        assert min(1, LENGTH) == 1
        assert max(LENGTH, 1) is LENGTH
        assert 0 < BATCH

    @pytest.mark.parametrize(
        "decide",
        [
            lambda: LENGTH < 100,
            lambda: BATCH <= 1000,
            lambda: LENGTH > BATCH,
            lambda: BATCH // 2,
            lambda: LENGTH // BATCH,
            lambda: int(BATCH),
            lambda: float(BATCH),
            lambda: range(BATCH),
            lambda: np.zeros(BATCH),
            lambda: traced(lambda x: tf.reshape(x, [BATCH, 2])),
            lambda: traced(lambda x: tf.broadcast_to(x, BATCH)),
        ],
    )
    def test_of_what_is_not_is_refused(self, decide):
        with pytest.raises(UnknownSizeError, match=r"(batch|length).* known only when the graph"):
            decide()


class TestOneGraph:
    """Each case is traced once and run with several sizes."""

    def run(self, function, arrays, names):
        mesh = mtf.Mesh()

        @tf.function(
            autograph=False, input_signature=[tf.TensorSpec([None] * 2, a.dtype) for a in arrays[0]]
        )
        def graph(*values):
            tensors = []
            for value, dims in zip(values, names, strict=True):
                sizes = [Size.of(n, tf.shape(value)[i], 50) for i, n in enumerate(dims)]
                tensors.append(mtf.import_tf_tensor(mesh, value, zip(dims, sizes, strict=True)))
            return function(*tensors).value

        for given_arrays in arrays:
            yield graph(*map(tf.constant, given_arrays)).numpy()
        assert graph.experimental_get_tracing_count() == 1

    def inputs(self):
        draw = np.random.default_rng(0)
        return [[draw.integers(1, 9, [rows, n]).astype(np.int32)] for rows, n in [(1, 1), (3, 5)]]

    def check(self, function, reference):
        arrays = self.inputs()
        found = list(self.run(function, arrays, [("batch", "length")]))
        for value, (x,) in zip(found, arrays, strict=True):
            np.testing.assert_array_equal(value, reference(x))

    def test_pad_and_slice(self):
        def function(x):
            padded = mtf.pad(x, [2, 3], "length")
            return mtf.slice(padded, 1, x.shape.dims[1].size + 2, "length")

        self.check(function, lambda x: np.pad(x, [[0, 0], [2, 3]])[:, 1:-2])

    @pytest.mark.parametrize("offset", [1, -1])
    def test_shift(self, offset):
        def reference(x):
            y = np.roll(x, offset, 1)
            y[:, 0 if offset > 0 else -1] = 0
            return y

        self.check(lambda x: mtf.shift(x, offset, x.shape.dims[1], wrap=False), reference)

    def test_hypotheses_of_rows(self):
        def function(x):
            batch, length = x.shape.dims
            beam = mtf.Dimension("beam", 2)
            x = mtf.broadcast(x, [batch, beam, length])
            x = mtf.reshape(x, [("batch", batch.size * 2), length])
            back = mtf.reshape(x, [("batch", x.shape.dims[0].size // 2), beam, length])
            assert back.shape.dims[0] == batch
            return mtf.reshape(back, [("flat", back.shape.size)])

        self.check(function, lambda x: np.repeat(x, 2, 0).reshape(-1))

    def test_gather_of_own_positions(self):
        def function(x):
            length = x.shape.dims[1]
            last = length.size - 1 - mtf.mtf_range(x.mesh, length)
            other = mtf.rename_dimension(x, "length", "memory_length")
            return mtf.gather(other, last, other.shape.dims[1], x.shape)

        self.check(function, lambda x: x[:, ::-1])

    def test_scatter_counts(self):
        def function(x):
            vocab = mtf.Dimension("vocab", 9)
            return mtf.scatter(mtf.ones_like(x), x, vocab, x.shape.dims[:1] + (vocab,))

        self.check(function, lambda x: (x[..., None] == np.arange(9)).sum(1))

    def test_one_hot_along_an_unknown(self):
        def function(x):
            batch, length = x.shape.dims
            at = mtf.mtf_range(x.mesh, mtf.Dimension("place", batch.size))
            hot = mtf.one_hot(at, mtf.Dimension("batch", batch.size), dtype=tf.int32)
            return mtf.einsum([hot, x], [hot.shape.dims[0], length])

        self.check(function, lambda x: x)

    def test_loop(self):
        def function(x):
            zero = mtf.constant(x.mesh, 0, dtype=tf.int32)
            _, total = mtf.while_loop(
                lambda i, total: mtf.less(i, 4),
                lambda i, total: (i + 1, mtf.add(total, x, output_shape=x.shape)),
                [zero, mtf.zeros_like(x)],
            )
            return total

        self.check(function, lambda x: 4 * x)

    def test_mean_divides_by_the_number(self):
        def function(x):
            return mtf.reduce_sum(mtf.to_float(x)) / x.shape.size

        self.check(function, lambda x: x.mean(dtype=np.float32))

    def test_two_sizes_of_one_name_are_refused(self):
        def function(x):
            longer = mtf.pad(x, [0, 1], "length")
            return x + longer

        with pytest.raises(ShapeError, match="length has the sizes"):
            list(self.run(function, self.inputs(), [("batch", "length")]))
