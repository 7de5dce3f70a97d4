"""The command line runs as a module too."""

from __future__ import annotations

import runpy
import sys

import pytest

import gramian

pytest.importorskip("typer")


def test_module_is_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gramian", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("gramian", run_name="__main__")
    assert not ended.value.code
    assert gramian.__version__ in capsys.readouterr().out
