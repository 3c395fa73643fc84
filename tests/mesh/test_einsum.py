import itertools

import numpy as np
import pytest
import tensorflow as tf

import mtf_models as mtf
from mtf_models.errors import ShapeError
from mtf_models.testing import Placement, check_op

MESH = mtf.Mesh()
K = mtf.Dimension("memory_length", 16)
RANDOM = np.random.default_rng(0)


def normal(shape):
    shape = mtf.Shape(shape)
    return shape, RANDOM.normal(size=shape.to_integer_list)


def ones(shape, dtype=tf.float32):
    return mtf.ones(MESH, shape, dtype)


class TestForms:
    X, Y = "a:2,b:3", "b:3,c:4"

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            ({}, "a:2,c:4"),
            ({"output_shape": "c:4,a:2"}, "c:4,a:2"),
            ({"output_shape": "c:4,d:5,b:3"}, "c:4,d:5,b:3"),
            ({"output_shape": []}, ""),
            ({"reduced_dims": [mtf.Dimension("c", 4)]}, "a:2,b:3"),
            ({"reduced_dims": []}, "a:2,b:3,c:4"),
            ({"output_shape": [], "reduced_dims": mtf.Shape("a:2,b:3,c:4").dims}, ""),
        ],
    )
    def test_the_three_ways_to_say_what_stays(self, arguments, expected):
        x, y = ones(self.X), ones(self.Y)
        found = mtf.einsum([x, y], **arguments)
        assert found.shape == mtf.Shape(expected)
        summed = np.prod([d.size for d in mtf.Shape("a:2,b:3,c:4") if d not in found.shape])
        np.testing.assert_array_equal(found.numpy(), np.full(found.shape.to_integer_list, summed))

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"reduced_dims": [mtf.Dimension("d", 4)]}, "no operand has d=4 to reduce"),
            (
                {"output_shape": "a:2", "reduced_dims": [mtf.Dimension("a", 2)]},
                "the output keeps a=2",
            ),
            ({"output_shape": "a:7"}, "a has the sizes 2 and 7"),
        ],
    )
    def test_contradictions_are_refused(self, arguments, message):
        with pytest.raises(ShapeError, match=message):
            mtf.einsum([ones(self.X), ones(self.Y)], **arguments)

    def test_operands_that_do_not_fit_are_refused(self):
        with pytest.raises(ShapeError, match="b has the sizes 3 and 5.*c has the sizes 4 and 6"):
            mtf.einsum([ones("b:3,c:4"), ones("b:5,c:6")])


class TestOrder:
    """Products of several come in any order; what meets on the way need not fit on the mesh."""

    CHAIN = {"x": normal("i:8,u:8"), "y": normal("j:8,u:8"), "z": normal("i:8,v:8")}
    MESH = "a:2;b:4"

    def test_an_order_is_taken_in_which_every_product_fits(self):
        # The product of the first two would have i and j, both on axis a.
        check_op(
            lambda x, y, z: mtf.einsum([x, y, z], output_shape="j:8"),
            {"x": normal("i:8,p:8"), "y": normal("j:8,p:8"), "z": normal("i:8")},
            lambda x, y, z: np.einsum("ip,jp,i->j", x, y, z),
            placements=[Placement(self.MESH, "i:a,j:a"), Placement(self.MESH, "i:b,j:b,p:a")],
        )

    def test_where_no_order_fits_a_dimension_is_made_whole_on_the_way(self):
        check_op(
            lambda x, y, z: mtf.einsum([x, y, z], output_shape="j:8,v:8"),
            self.CHAIN,
            lambda x, y, z: np.einsum("iu,ju,iv->jv", x, y, z),
            placements=[Placement(self.MESH, "i:a,j:a,u:b,v:b")],
        )

    def test_the_cheapest_product_comes_first(self):
        mesh = MESH.abstract()
        with tf.Graph().as_default() as graph:
            x, w, mask = (mtf.ones(mesh, shape) for shape in ("i:8,u:8", "u:8,v:99", "i:8"))
            mtf.einsum([x, w, mask], output_shape="i:8,v:99")
        products = [node for node in graph.get_operations() if node.type == "Einsum"]
        sizes = [[value.shape.num_elements() for value in node.inputs] for node in products]
        assert sorted(sizes[0]) == [8, 64]

    def test_four_operands(self):
        check_op(
            lambda x, y, z, w: mtf.einsum([x, y, z, w], output_shape="j:8,v:8,k:16"),
            {**self.CHAIN, "w": normal("k:16,u:8")},
            lambda x, y, z, w: np.einsum("iu,ju,iv,ku->jvk", x, y, z, w),
            placements=[Placement(self.MESH, "i:a,j:a,u:b,v:b")],
        )


class TestOrderOfDimensions:
    """Whatever the order in which operands and result have them, values and slopes are right."""

    SIZES = {"batch": 2, "rows": 3, "columns": 4, "summed": 5, "also_summed": 6}

    @pytest.mark.parametrize("left", list(itertools.permutations(["batch", "rows", "summed"])))
    def test_one_of_each_kind(self, left):
        for right in itertools.permutations(["batch", "summed", "columns"]):
            for output in itertools.permutations(["batch", "rows", "columns"]):
                self.check(left, right, output)

    @pytest.mark.parametrize(
        "left", list(itertools.permutations(["rows", "summed", "also_summed"]))
    )
    @pytest.mark.parametrize("output", [["rows"], ["rows", "columns"], ["columns", "rows"]])
    def test_two_that_are_summed(self, left, output):
        others = ["summed", "also_summed", *(set(output) - {"rows"})]
        for right in itertools.permutations(others):
            self.check(left, right, output)

    def check(self, left, right, output):
        names = list(self.SIZES)
        terms = [[names.index(name) for name in names_of] for names_of in (left, right, output)]
        shapes = [
            mtf.Shape([mtf.Dimension(name, self.SIZES[name]) for name in names_of])
            for names_of in (left, right, output)
        ]
        x, y, slope = (RANDOM.normal(size=shape.to_integer_list) for shape in shapes)
        with tf.GradientTape() as tape:
            a, b = (
                mtf.import_tf_tensor(MESH, v, s) for v, s in zip((x, y), shapes[:2], strict=True)
            )
            tape.watch([a.value, b.value])
            found = mtf.einsum([a, b], output_shape=shapes[2])
        slopes = tape.gradient(found.value, [a.value, b.value], tf.constant(slope))
        a, b, o = terms
        for value, expected in (
            (found.value, np.einsum(x, a, y, b, o)),
            (slopes[0], np.einsum(slope, o, y, b, a)),
            (slopes[1], np.einsum(slope, o, x, a, b)),
        ):
            np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12)


class TestDtypes:
    @pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.float64, tf.bfloat16])
    def test_the_dtype_stays(self, dtype):
        for mesh in (MESH, mtf.Mesh("all:8", "b:all"), mtf.Mesh("all:8", "a:all")):
            x, y = mtf.ones(mesh, "a:8,b:8", dtype), mtf.ones(mesh, "b:8,c:3", dtype)
            found = mtf.einsum([x, y])
            assert found.dtype == dtype
            np.testing.assert_array_equal(found.numpy().astype(int), np.full((8, 3), 8))


def test_one_operand_is_summed_and_broadcast():
    check_op(
        lambda x: mtf.einsum([x], output_shape="c:3,b:8"),
        {"x": normal("a:8,b:8")},
        lambda x: np.broadcast_to(x.sum(0), (3, 8)),
    )


def test_attention_over_every_split():
    check_op(
        lambda q, k, v: mtf.einsum(
            [mtf.softmax(mtf.einsum([q, k], reduced_dims=[("d_kv", 8)]), K), v],
            output_shape="batch:8,length:8,heads:8,d_kv:8",
        ),
        {
            "q": normal("batch:8,length:8,heads:8,d_kv:8"),
            "k": normal("batch:8,memory_length:16,heads:8,d_kv:8"),
            "v": normal("batch:8,memory_length:16,heads:8,d_kv:8"),
        },
        placements=[
            Placement("all:8", "batch:all"),
            Placement("all:8", "memory_length:all"),
            Placement("a:2;b:4", "batch:a,heads:b"),
            Placement("a:2;b:4", "length:a,d_kv:b"),
        ],
    )
