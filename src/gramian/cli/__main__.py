"""Entry point of ``python -m gramian.cli``."""

from gramian.cli import main

main()
