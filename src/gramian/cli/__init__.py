"""The command ``gramian``: fit, predict, plan, report, compare and demo. Needs the extra ``cli``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; without typer and rich, say how to install them and exit with 1."""
    try:
        # Imported here, so that a missing extra ends in one line and not in a traceback.
        from gramian.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("typer", "rich"):
            raise
        print(
            f"Error: the command line needs the package {error.name}. Run: pip install 'gramian[cli,files]'",
            file=sys.stderr,
        )
        raise SystemExit(1) from None
    app()
