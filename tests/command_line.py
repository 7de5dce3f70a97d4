"""Commands of ``gramian`` run in this process, and what they print."""

from __future__ import annotations

from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from gramian.cli.app import app


def run(*arguments: Any, given: bytes | None = None) -> Result:
    """Run a command on what stands on standard input."""
    return CliRunner().invoke(app, [str(a) for a in arguments], input=given)


def good(*arguments: Any) -> str:
    """Return what a command prints that must succeed."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output + str(result.exception)
    return " ".join(result.stdout.split())


def bad(*arguments: Any, code: int = 1) -> str:
    """Return the error of a command that must end with an exit code, and no traceback."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit)
    return " ".join(result.stderr.split())
