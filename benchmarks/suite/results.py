"""JSON lines: written as they come, so that a run goes on where it stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gramian.exceptions import InputError

Line = dict[str, Any]
#: What makes two lines the same figure.
KEY = ("set", "method", "size", "search_seconds")


def read(path: Path, names: tuple[str, ...] = KEY) -> list[Line]:
    """Read the lines; of two of the same figure, which ``names`` tell apart, the later."""
    if not path.exists():
        return []
    lines: dict[tuple[Any, ...], Line] = {}
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            line = json.loads(text)
            lines[key(line, names)] = line
        except (json.JSONDecodeError, KeyError) as damage:
            raise InputError(
                f"{path}, line {number} is not a result ({damage}). Delete that line; the run makes it again."
            ) from damage
    return list(lines.values())


def key(line: Line, names: tuple[str, ...] = KEY) -> tuple[Any, ...]:
    """Return what identifies a line."""
    return tuple(line[name] for name in names)


def append(path: Path, line: Line) -> None:
    """Add a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def forget(path: Path, sets: list[str], methods: list[str]) -> int:
    """Remove the lines of these methods on these sets; return how many lines that were."""
    if not path.exists():
        return 0
    before = path.read_text(encoding="utf-8").splitlines()
    lines = [json.loads(text) for text in before]
    kept = [
        text for text, line in zip(before, lines) if line["set"] not in sets or line["method"] not in methods
    ]
    path.write_text("".join(f"{text}\n" for text in kept), encoding="utf-8")
    return len(before) - len(kept)


def of_sizes(lines: list[Line]) -> list[Line]:
    """Return the measured ones: no searches, no failures."""
    return [line for line in lines if "error" in line and "fit_seconds" in line]
