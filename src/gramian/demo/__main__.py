"""Entry point of ``python -m gramian.demo``."""

import sys

from gramian.demo import run

if __name__ == "__main__":
    sys.exit(run())
