import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from mtf_models.errors import ShapeError
from mtf_models.testing import ONE_DEVICE, Placement, check_op

V, D = mtf.Dimension("vocab", 16), mtf.Dimension("d_model", 8)
TABLE = np.random.default_rng(0).normal(size=(16, 8))
# In range at both ends, just out of it, far out of it.
IDS = np.int32([0, 15, -1, 16, 7, 1000, -1000, 7])
INSIDE = (IDS >= 0) & (IDS < 16)
SPLIT = [
    ONE_DEVICE,
    Placement("all:8", "vocab:all"),
    Placement("all:8", "d_model:all"),
    Placement("all:8", "batch:all"),
    Placement("all:8", "vocab:all,batch:all"),
    Placement("a:2;b:4", "vocab:b,batch:a"),
]


class TestOutOfRange:
    def test_gather_gives_zeros_and_sends_no_gradient(self):
        def slope(dy, table, ids):
            one_hot = (ids[:, None] == np.arange(16)) * 1.0
            return {"table": one_hot.T @ dy[0]}

        check_op(
            lambda table, ids: mtf.gather(table, ids, V),
            {"table": ([V, D], TABLE), "ids": ("batch:8", IDS)},
            lambda table, ids: np.where(INSIDE[:, None], table[ids % 16], 0),
            gradient_reference=slope,
            placements=SPLIT,
        )

    def test_gather_does_not_pass_on_what_it_does_not_take(self):
        table = np.where(np.arange(16) == 0, np.nan, 1.0)
        check_op(
            lambda table, ids: mtf.gather(table, ids, V),
            {"table": ([V], table), "ids": ("batch:8", np.int32([-1, 16, 1, 2, 3, 4, 5, 6]))},
            lambda table, ids: np.float64([0, 0, 1, 1, 1, 1, 1, 1]),
            gradient_reference=lambda dy, table, ids: {
                "table": np.bincount(ids[2:], dy[0][2:], 16)
            },
            placements=SPLIT[:2],
        )

    def test_one_hot_is_off_everywhere(self):
        check_op(
            lambda ids: mtf.one_hot(ids, V, on_value=1.0, off_value=-1.0),
            {"ids": ("batch:8", IDS)},
            lambda ids: np.where(ids[:, None] == np.arange(16), 1.0, -1.0),
            placements=[p for p in SPLIT if p.layout != "vocab:all,batch:all"],
        )

    def test_bool_and_integer_tables(self):
        for dtype in (bool, np.int32):
            table = (TABLE > 0).astype(dtype)
            check_op(
                lambda table, ids: mtf.gather(table, ids, V),
                {"table": ([V, D], table), "ids": ("batch:8", IDS)},
                lambda table, ids: np.where(INSIDE[:, None], table[ids % 16], 0).astype(
                    table.dtype
                ),
                placements=SPLIT[:2],
            )


class TestGather:
    def test_a_scalar_index(self):
        # On a mesh, the gradient of a selection by a scalar ends the process.
        check_op(
            lambda table, ids: mtf.gather(table, ids, V),
            {"table": ([D, V], TABLE.T), "ids": ("", np.int32(3))},
            lambda table, ids: table[:, 3],
            placements=SPLIT[:3],
        )

    def test_indices_may_have_the_dimension_that_is_replaced(self):
        ids = np.random.default_rng(0).integers(0, 16, (8, 4)).astype(np.int32)
        check_op(
            lambda table, ids: mtf.gather(table, ids, V),
            {"table": ([V, D], TABLE), "ids": ("batch:8,vocab:4", ids)},
            lambda table, ids: table[ids],
            placements=[
                ONE_DEVICE,
                Placement("all:4", "vocab:all"),
                Placement("all:8", "batch:all"),
            ],
        )

    @pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint32, np.int64])
    def test_every_integer_is_an_index(self, dtype):
        mesh = mtf.Mesh()
        table = mtf.import_tf_tensor(mesh, np.arange(300), "long:300")
        ids = mtf.import_tf_tensor(mesh, np.array([127, 0], dtype), "n:2")
        found = mtf.gather(table, ids, table.shape.dims[0])
        np.testing.assert_array_equal(found.numpy(), [127, 0])
        assert mtf.one_hot(ids, table.shape.dims[0]).numpy().sum() == 2

    def test_other_dtypes_are_not(self):
        x = mtf.ones(mtf.Mesh(), "n:2")
        for function in (lambda: mtf.gather(x, x, x.shape.dims[0]), lambda: mtf.one_hot(x, V)):
            with pytest.raises(ShapeError, match=r"integer indices, not float32 Shape\[n=2\]"):
                function()

    def test_a_name_of_two_sizes_and_absent_dimensions_are_refused(self):
        table = mtf.ones(mtf.Mesh(), [V, D])
        ids = mtf.zeros(mtf.Mesh(), [("d_model", 4)], tf.int32)
        with pytest.raises(ShapeError, match="d_model=8 has another size in the indices"):
            mtf.gather(table, ids, V)
        with pytest.raises(ShapeError, match="no dimension vocab=17"):
            mtf.gather(table, ids, mtf.Dimension("vocab", 17))

    def test_indices_that_are_known_to_be_in_range(self):
        check_op(
            lambda table, ids: mtf.gather(table, ids, V, in_range=True),
            {"table": ([V, D], TABLE), "ids": ("batch:8", IDS % 16)},
            lambda table, ids: table[ids],
            placements=SPLIT,
        )


class TestTopK:
    @pytest.mark.parametrize("count", [1, 3])
    def test_of_a_long_row_the_first_of_equal_entries_come_first(self, count):
        values = np.random.default_rng(0).integers(0, 400, (3, 64 * 100)).astype(np.float32)
        values[1] = 7.0
        values[2, :] = -np.inf
        values[2, 4000] = 1.0
        x = mtf.import_tf_tensor(mtf.Mesh(), values, "n:3 long:6400")
        best, place = mtf.top_k(x, x.shape.dims[1], mtf.Dimension("k", count))
        right = np.argsort(-values, axis=1, kind="stable")[:, :count]
        np.testing.assert_array_equal(place, right)
        np.testing.assert_array_equal(best, np.take_along_axis(values, right, 1))


class TestWriting:
    def test_an_entry_of_other_dimensions_is_refused(self):
        x = mtf.ones(mtf.Mesh(), [V, D])
        with pytest.raises(ShapeError, match=r"the entry is Shape\[\], not Shape\[d_model=8\]"):
            mtf.with_entry(x, mtf.ones(x.mesh, ""), mtf.constant(x.mesh, 3, dtype=tf.int32), V)


class TestCutting:
    X = np.arange(16 * 8, dtype=np.float32).reshape(16, 8)

    @pytest.mark.parametrize(("begin", "size"), [(0, 17), (-1, 4), (16, 1), (3, 0), (9, 8)])
    def test_a_slice_is_all_there(self, begin, size):
        x = mtf.import_tf_tensor(mtf.Mesh(), self.X, [V, D])
        with pytest.raises(ShapeError, match="vocab=16"):
            mtf.slice(x, begin, size, "vocab")

    def test_unknown_dimensions_are_named(self):
        x = mtf.import_tf_tensor(mtf.Mesh(), self.X, [V, D])
        functions = [
            lambda: mtf.slice(x, 0, 1, "length"),
            lambda: mtf.pad(x, [0, 1], "length"),
            lambda: mtf.shift(x, 1, mtf.Dimension("length", 4), wrap=True),
        ]
        for function in functions:
            with pytest.raises(ShapeError, match="length"):
                function()

    def test_far_shifts(self):
        x = mtf.import_tf_tensor(mtf.Mesh(), self.X, [V, D])
        for offset in (-40, -16, 0, 16, 40):
            rolled = mtf.shift(x, offset, V, wrap=True).numpy()
            np.testing.assert_array_equal(rolled, np.roll(self.X, offset, 0))
            if offset:
                assert not mtf.shift(x, offset, V, wrap=False).numpy().any()

    def test_cut_and_join_split_dimensions_in_one_compiled_function(self):
        # The split must spread neither forwards nor backwards into what cannot be run split.
        def cut(x):
            y = mtf.slice(mtf.sin(x), 4, 8, "vocab")
            y = mtf.shift(y * 2, 3, y.shape.dims[0], wrap=True)
            return mtf.pad(mtf.cos(y), [5, 3], "vocab") * x

        check_op(
            cut,
            {"x": ([V, D], self.X / 100)},
            lambda x: np.pad(np.cos(np.roll(2 * np.sin(x[4:12]), 3, 0)), [(5, 3), (0, 0)]) * x,
            placements=SPLIT[:3] + [Placement("a:2;b:4", "vocab:b,d_model:a")],
        )
