import pytest

import mtf_models as mtf
from mtf_models.errors import LayoutError
from mtf_models.mesh.layout import (
    check_rules,
    clashing,
    layout_faults,
    merge_faults,
    raise_faults,
    tensor_layout,
)

AXES = {"data": 8, "model": 8}
# The rules that the original's configs begin with.
ORIGINAL_RULES = "ensemble:ensemble,batch:batch,d_ff:model,heads:model,vocab:model,experts:batch"


def faults(rules, axes, **shapes):
    """The faults of several tensors, named by keyword."""
    rules = mtf.LayoutRules(rules)
    found = []
    for name, text in shapes.items():
        shape = mtf.Shape(text)
        found += layout_faults(shape, tensor_layout(shape, rules, axes), axes, name)
    return merge_faults(found)


class TestRules:
    @pytest.mark.parametrize(
        "rules",
        [
            *(f"d_ff:model{separator}heads:model" for separator in ";,. "),
            [("heads", "model"), ("d_ff", "model")],
            mtf.LayoutRules("d_ff:model,heads:model,d_ff:model"),
        ],
    )
    def test_equal_in_every_spelling(self, rules):
        rules = mtf.LayoutRules(rules)
        assert rules == mtf.LayoutRules("d_ff:model,heads:model")
        assert hash(rules) == hash(mtf.LayoutRules("heads:model,d_ff:model"))
        assert (rules.axis_of("heads"), rules.axis_of("batch")) == ("model", None)

    def test_text_gives_the_same_rules_again(self):
        rules = mtf.LayoutRules(ORIGINAL_RULES)
        assert mtf.LayoutRules(str(rules)) == rules
        assert mtf.LayoutRules("") == mtf.LayoutRules([])

    @pytest.mark.parametrize("text", ["d_ff;model", "d_ff:model:batch", "d_ff:", ":model"])
    def test_unreadable_text_is_refused(self, text):
        with pytest.raises(LayoutError, match="layout rules"):
            mtf.LayoutRules(text)

    def test_a_dimension_goes_to_one_axis(self):
        with pytest.raises(LayoutError, match="a to p and q; b to q and r"):
            mtf.LayoutRules("a:p,b:q,a:q,b:r,c:p")


class TestTensorLayout:
    def test_is_one_axis_or_none_for_each_dimension(self):
        rules = mtf.LayoutRules("batch:batch,d_ff:model,heads:model")
        shape = mtf.Shape("batch:128,length:500,d_ff:2048")
        assert tensor_layout(shape, rules, {"batch": 4, "model": 8}) == ("batch", None, "model")

    def test_absent_axes_and_axes_of_one_part_split_nothing(self):
        rules = mtf.LayoutRules("a:p,b:q,c:r")
        assert tensor_layout(mtf.Shape("a:3,b:4,c:5"), rules, {"p": 1, "q": 2}) == (None, "q", None)

    def test_clashing_dimensions_come_after_the_first_of_their_axis(self):
        shape = mtf.Shape("a:8,b:8,c:8,d:8,e:8")
        found = clashing(shape, ("p", None, "q", "p", None))
        assert found == [mtf.Dimension("d", 8)]


class TestFaults:
    def test_sizes_that_do_not_divide_are_listed_with_their_tensors_and_nearest_sizes(self):
        found = faults(
            "batch:data,heads:model,vocab:model,d_ff:model",
            AXES,
            ids="batch:4,length:128",
            q="d_model:64,heads:6,d_kv:8",
            k="d_model:64,heads:6,d_kv:8",
            embedding="vocab:32100,d_model:64",
            wi="d_model:64,d_ff:512",
        )
        assert [fault.tensors for fault in found] == [("ids",), ("q", "k"), ("embedding",)]
        batch, heads, vocab = map(str, found)
        assert "batch of size 4" in batch and "8 parts of axis data" in batch
        assert "nearest sizes that fit are 8" in batch and "(in ids)" in batch
        assert "heads of size 6" in heads and "fit are 8" in heads and "(in q, k)" in heads
        assert "vocab of size 32100" in vocab and "remainder 4" in vocab
        assert all(word in vocab for word in ("32104", "32128", "pad_vocab", "embedding"))

    @pytest.mark.parametrize(
        ("size", "nearest"), [(3, "fit are 4"), (5, "4 or 8"), (4095, "4092 or 4096")]
    )
    def test_nearest_sizes(self, size, nearest):
        (fault,) = faults("a:model", {"model": 4}, x=f"a:{size}")
        assert nearest in str(fault)

    def test_two_dimensions_on_one_axis_are_named_with_tensor_and_axis(self):
        (fault,) = faults("batch:all,d_ff:all", {"all": 2}, h="batch:4,length:3,d_ff:6")
        assert all(word in str(fault) for word in ("batch", "d_ff", "axis all", "in h", "drop"))
        assert "length" not in str(fault)

    def test_many_tensors_are_counted(self):
        shapes = {f"x{i}": "a:3" for i in range(5)}
        (fault,) = faults("a:model", {"model": 4}, **shapes)
        assert "in x0, x1, x2 and 2 more" in str(fault)

    def test_one_error_lists_them_all(self):
        rules = mtf.LayoutRules("a:data,b:data")
        found = faults(rules, AXES, x="a:4,b:16", y="b:5")
        with pytest.raises(LayoutError) as error:
            raise_faults(found, rules, AXES)
        text = str(error.value)
        assert '"a:data,b:data"' in text and '"data:8,model:8"' in text
        assert [line[:4] for line in text.splitlines()[1:]] == ["  1.", "  2.", "  3."]

    def test_none_is_no_error(self):
        raise_faults([], mtf.LayoutRules(), {})


class TestNames:
    DENSE = ["batch", "length", "d_model", "d_ff", "heads", "d_kv", "vocab"]

    def test_idle_rules_are_told(self):
        assert check_rules(
            mtf.LayoutRules(ORIGINAL_RULES), {"batch": 2, "model": 4}, self.DENSE
        ) == [
            "ensemble:ensemble",
            "experts:batch",
        ]

    @pytest.mark.parametrize("axes", [{}, {"batch": 1}, {"all": 8}, {"batch": 4}, {"data": 2}])
    def test_the_originals_rules_work_on_every_mesh(self, axes):
        check_rules(mtf.LayoutRules(ORIGINAL_RULES), axes, self.DENSE)

    def test_a_dimension_of_the_model_needs_no_glossary(self):
        assert check_rules(mtf.LayoutRules("pixels:model"), {"model": 2}, ["pixels"]) == []

    @pytest.mark.parametrize(
        ("rules", "expected"),
        [
            ("heds:model", ["heds", "did you mean heads"]),
            ("heads:modle", ["modle", "did you mean model"]),
            ("heads:modell", ["modell", "did you mean model"]),
            ("batch:bacth", ["bacth", "did you mean batch"]),
            ("qqqq:model", ["qqqq", "known: "]),
            ("heads:zzzz", ["zzzz", "known: batch, model"]),
            ("heds:model,heads:modle", ["1. heds", "2. heads:modle"]),
        ],
    )
    def test_misspelt_names_are_refused(self, rules, expected):
        with pytest.raises(LayoutError) as error:
            check_rules(mtf.LayoutRules(rules), {"batch": 2, "model": 4}, self.DENSE)
        assert all(part in str(error.value) for part in expected)

    def test_a_known_axis_that_resembles_a_present_one_is_refused(self):
        with pytest.raises(LayoutError, match="did you mean models"):
            check_rules(mtf.LayoutRules("heads:model"), {"models": 4}, self.DENSE)

    def test_a_misspelt_axis_is_refused_on_one_device_too(self):
        with pytest.raises(LayoutError, match="did you mean model"):
            check_rules(mtf.LayoutRules("heads:modle"), {}, self.DENSE)
