import pytest

import mtf_models as mtf
from mtf_models.errors import MtfError, ShapeError
from mtf_models.mesh.dimension import is_subsequence

X, Y = mtf.Dimension("x", 4), mtf.Dimension("y", 8)


class TestConvert:
    @pytest.mark.parametrize(
        "value",
        [
            "x:4;y:8",
            "x:4.y:8",
            "x:4 y:8",
            "x:4,y:8",
            " x:4 ,\n y:8; ",
            [X, Y],
            [("x", 4), ("y", 8)],
        ],
    )
    def test_to_a_shape(self, value):
        assert mtf.convert_to_shape(value) == mtf.Shape([X, Y])
        assert str(mtf.Shape(value)) == mtf.Shape(value).to_string == "Shape[x=4, y=8]"

    def test_nothing_and_emptiness_differ(self):
        assert mtf.convert_to_shape(None) is None
        assert mtf.convert_to_shape([]) == mtf.convert_to_shape("") == mtf.Shape([])
        assert mtf.convert_to_shape(shape := mtf.Shape([X])) is shape

    @pytest.mark.parametrize(
        "text", ["x;4", "x", "x:", ":4", "x:4:5", "x:four", "x:-4", "x:0", "x:4.5"]
    )
    def test_unreadable_text_is_refused(self, text):
        with pytest.raises(ShapeError) as error:
            mtf.convert_to_shape(text)
        assert text.split(";")[0] in str(error.value)

    def test_all_unreadable_parts_are_listed(self):
        with pytest.raises(ShapeError, match="'x', '4', 'z:'"):
            mtf.Shape("x;4,y:8,z:")

    def test_to_a_dimension(self):
        assert mtf.convert_to_dimension(("x", 4)) == X
        assert mtf.convert_to_dimension(X) is X
        assert mtf.convert_to_dimension(None) is None

    @pytest.mark.parametrize("value", ["x:4", ("x",), ("x", "4"), ("x", 4.5), (4, "x"), 4])
    def test_anything_else_is_no_dimension(self, value):
        with pytest.raises(ShapeError):
            mtf.convert_to_dimension(value)

    def test_errors_are_value_errors_and_ours(self):
        assert issubclass(ShapeError, ValueError) and issubclass(ShapeError, MtfError)


class TestShape:
    SHAPE = mtf.Shape([X, Y])

    def test_facts(self):
        shape = self.SHAPE
        assert (shape.ndims, shape.size, len(shape), list(shape)) == (2, 32, 2, [X, Y])
        assert (shape.dims, shape[1], shape[-1:]) == ((X, Y), Y, (Y,))
        assert (shape.dimension_names, shape.to_integer_list) == (["x", "y"], [4, 8])
        assert (shape.axis(Y), shape.get_dim_by_name("y"), shape.has("z")) == (1, Y, False)
        assert mtf.Shape().size == 1

    def test_equality_is_of_names_sizes_and_order(self):
        assert self.SHAPE == mtf.Shape("x:4,y:8")
        assert hash(self.SHAPE) == hash(mtf.Shape("x:4,y:8"))
        assert self.SHAPE not in (mtf.Shape("y:8,x:4"), mtf.Shape("x:4,y:9"), (X, Y))
        assert X in self.SHAPE and mtf.Dimension("x", 5) not in self.SHAPE

    @pytest.mark.parametrize("dims", ["x:4,x:4", "x:4,y:8,x:5"])
    def test_a_name_occurs_once(self, dims):
        with pytest.raises(ShapeError, match="repeats x"):
            mtf.Shape(dims)

    def test_sums(self):
        z = mtf.Dimension("z", 2)
        for more in (z, [z], mtf.Shape([z]), "z:2"):
            assert self.SHAPE + more == mtf.Shape([X, Y, z])
        with pytest.raises(ShapeError, match="repeats x"):
            self.SHAPE + X

    def test_differences(self):
        for less in (X, [X], mtf.Shape([X]), [X, ("z", 2)]):
            assert self.SHAPE - less == mtf.Shape([Y])
        assert self.SHAPE - None == self.SHAPE
        with pytest.raises(ShapeError, match="no dimension z=2"):
            self.SHAPE - mtf.Dimension("z", 2)

    def test_renaming_and_resizing(self):
        assert self.SHAPE.rename_dimension("x", "z") == mtf.Shape("z:4,y:8")
        assert self.SHAPE.resize_dimension("y", 3) == mtf.Shape("x:4,y:3")
        for change in (self.SHAPE.rename_dimension, self.SHAPE.resize_dimension):
            with pytest.raises(ShapeError, match="'w'"):
                change("w", "v")
        with pytest.raises(ShapeError, match="repeats y"):
            self.SHAPE.rename_dimension("x", "y")


def test_combined_and_replaced_dimensions():
    shape = mtf.Shape("a:2,x:4,y:8,b:3")
    assert mtf.combined_dimension([X, Y]) == mtf.Dimension("x", 32)
    assert mtf.combined_dimension([X, Y], "xy") == mtf.Dimension("xy", 32)
    assert mtf.replace_dimensions(shape, [X, Y], ("xy", 32)) == mtf.Shape("a:2,xy:32,b:3")
    assert mtf.replace_dimensions(shape, X, [("p", 2), ("q", 2)]).ndims == 5
    with pytest.raises(ShapeError, match="not a run"):
        mtf.replace_dimensions(shape, [Y, X], ("xy", 32))


@pytest.mark.parametrize(
    ("short", "long", "expected"),
    [([], [], True), ([X], [X, Y], True), ([Y, X], [X, Y], False), ([X, X], [X, Y], False)],
)
def test_subsequences(short, long, expected):
    assert is_subsequence(short, long) is expected
