"""`mtf` at a terminal of its own: what standard input is becomes the one that controls it."""

import os
import signal
import sys

from mtf_models.cli.main import main

if __name__ == "__main__":
    # What is started in the background of a shell ignores Ctrl-C, and so do its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.open(os.ttyname(0), os.O_RDWR)  # The first terminal that the leader of a session opens.
    sys.exit(main(sys.argv[1:]))
