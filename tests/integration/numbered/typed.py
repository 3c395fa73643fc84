"""`mtf` at a terminal of its own: what standard input is becomes the one that controls it."""

import os
import sys

from mtf_models.cli.main import main

if __name__ == "__main__":
    os.open(os.ttyname(0), os.O_RDWR)  # The first terminal that the leader of a session opens.
    sys.exit(main(sys.argv[1:]))
