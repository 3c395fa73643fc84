import os
import subprocess
import sys

import pytest


def run(program, **environment):
    kept = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    return subprocess.run(
        [sys.executable, "-c", f"import os, sys\nfrom mtf_models.cli import start\n{program}"],
        capture_output=True,
        text=True,
        env={**kept, **environment},
    )


def test_tensorflow_starts_in_silence():
    process = run(
        "start.start_tensorflow(); import tensorflow as tf\n"
        "cpu = tf.config.list_physical_devices('CPU')[0]\n"
        "one = tf.config.LogicalDeviceConfiguration()\n"
        "tf.config.set_logical_device_configuration(cpu, [one] * 3)\n"
        "print(len(tf.config.list_logical_devices('CPU')))"
    )
    assert process.stderr == ""
    assert process.stdout.split() == ["3"]


@pytest.mark.parametrize("level", ["0", "1"])
def test_whoever_asks_for_log_lines_gets_them(level):
    process = run(
        "start.start_tensorflow(); print('tensorflow' in sys.modules)", TF_CPP_MIN_LOG_LEVEL=level
    )
    assert process.stdout.split() == ["False"]


def test_what_was_held_back_is_shown_if_the_start_fails():
    process = run(
        "with start._native_stderr_held():\n"
        "    os.write(2, b'why it failed')\n"
        "    raise SystemExit(3)"
    )
    assert process.returncode == 3
    assert process.stderr == "why it failed"


def test_errors_reach_standard_error_again_afterwards():
    process = run(
        "with start._native_stderr_held():\n"
        "    os.write(2, b'chatter')\n"
        "os.write(2, b'news'); print('error', file=sys.stderr)"
    )
    assert process.stderr == "newserror\n"


def test_what_was_held_back_is_not_shown_at_an_interrupt():
    process = run(
        "with start._native_stderr_held():\n"
        "    os.write(2, b'held back')\n"
        "    raise KeyboardInterrupt"
    )
    assert "KeyboardInterrupt" in process.stderr and "held back" not in process.stderr
