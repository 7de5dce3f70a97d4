"""``python -m gramian.cli``."""

from gramian.cli import main

main()
