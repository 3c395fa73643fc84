import pytest

from mtf_models import errors


def test_an_error_ends_a_command_with_two_and_within_a_run_with_one():
    with pytest.raises(errors.DataError) as before:
        raise errors.DataError("bad")
    with pytest.raises(errors.DataError) as during, errors.failing_run():
        raise errors.DataError("bad")
    assert (before.value.exit_status, during.value.exit_status) == (2, 1)


def test_other_errors_pass_through_a_run():
    with pytest.raises(KeyError), errors.failing_run():
        raise KeyError("x")


def test_nearest_names():
    known = ["heads", "model", "batch"]
    assert errors.did_you_mean("heds", known) == "; did you mean heads?"
    assert errors.did_you_mean("zzz", known) == "; known: batch, heads, model."
