"""Starts TensorFlow for a command without the log lines that it writes while it starts."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


def start_tensorflow() -> None:
    """Imports TensorFlow and looks for devices; errors alone are logged from then on.

    Whoever sets TF_CPP_MIN_LOG_LEVEL to 0 or 1 gets every line. Devices are looked for but not
    initialised, so that virtual ones can still be made.
    """
    if os.environ.setdefault(LOG_LEVEL, "2") in ("0", "1"):
        return
    with _native_stderr_held():
        import tensorflow as tf

        tf.config.list_physical_devices()


@contextmanager
def _native_stderr_held() -> Iterator[None]:
    """Keeps back what native code writes to standard error, and shows it if the block fails.

    TensorFlow logs its first lines before it reads TF_CPP_MIN_LOG_LEVEL. Ctrl-C is no failure.
    """
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except KeyboardInterrupt:
            raise
        except BaseException:
            held.seek(0)
            os.write(stderr, held.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
