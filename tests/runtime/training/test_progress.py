import sys

import pytest

from mtf_models.runtime.training import progress
from mtf_models.runtime.training.progress import Progress

METRICS = {"loss": 2.0, "learning_rate": 0.01}


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets, in seconds."""
    times = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: times[0])

    def forward(seconds):
        times[0] += seconds

    return forward


def test_the_first_step_has_no_rate(clock, capsys):
    shown = Progress(10, 12)
    clock(7.25)
    assert shown.update(11, METRICS, 100) is None
    assert (
        capsys.readouterr().out
        == "step 11/12  loss 2.0000  lr 1.00e-02  7.2 s for the first step\n"
    )


def test_tokens_per_second(clock, capsys):
    shown = Progress(0, 100)
    clock(60)
    shown.update(1, METRICS, 100)
    clock(2)
    assert shown.update(2, METRICS, 100) == 50
    clock(1)
    assert shown.update(3, METRICS, 200) == 100


def test_other_work_takes_no_time(clock):
    shown = Progress(0, 100)
    shown.update(1, METRICS, 100)
    with shown.paused():
        clock(1000)
    clock(2)
    assert shown.update(2, METRICS, 100) == 50
    with pytest.raises(KeyError), shown.paused():
        raise KeyError


def test_a_line_now_and_then(clock, capsys):
    shown = Progress(0, 1000)
    shown.update(1, METRICS, 10)
    for step in range(2, 102):
        clock(1)
        shown.update(step, {"loss": float(step), "learning_rate": 0.5}, 10)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 6
    # The mean of the losses since the last line; 985 steps of a second are left.
    assert lines[1] == "step 16/1000  loss 9.0000  lr 5.00e-01  10 tokens/s  16:24 left"


def test_the_last_step_is_shown(clock, capsys):
    shown = Progress(0, 2)
    shown.update(1, METRICS, 10)
    clock(1)
    shown.update(2, METRICS, 10)
    assert "step 2/2  loss 2.0000  lr 1.00e-02  10 tokens/s  0:00 left" in capsys.readouterr().out


def test_a_bar_on_a_terminal(clock, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    shown = Progress(5, 10)
    for step in range(6, 11):
        clock(1)
        shown.update(step, METRICS, 10)
    shown.close()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "10/10" in captured.err
    assert "loss 2.0000  lr 1.00e-02  10 tokens/s" in captured.err
