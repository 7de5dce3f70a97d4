"""Print the least versions that pyproject.toml allows, as pins for pip.

python tools/least_versions.py EXTRA_OR_PACKAGE... : the core dependencies, those extras, and those packages
of whichever extra.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
LEAST = re.compile(r"(?P<package>[\w.-]+(\[[\w,]+\])?)>=(?P<version>[\d.]+)$")


def least(project: dict, wanted: list[str]) -> dict[str, str]:
    """Return {package with its extras: least version}.

    Raises ``SystemExit`` for a name that is neither an extra nor a package of one, and for a dependency
    without a least version.
    """
    extras = project["optional-dependencies"]
    known = {
        match["package"]: text for group in extras.values() for text in group if (match := LEAST.match(text))
    }
    unknown = [name for name in wanted if name not in extras and name not in known]
    if unknown:
        raise SystemExit(f"{', '.join(unknown)}: neither an extra of pyproject.toml nor a package of one.")
    lines = [*project["dependencies"]]
    for name in wanted:
        lines += extras[name] if name in extras else [known[name]]
    found = {}
    for line in lines:
        match = LEAST.match(line)
        if match is None:
            raise SystemExit(f"{line!r} has no least version. Write it as name>=version.")
        found[match["package"]] = match["version"]
    return found


def main() -> None:
    """Print one pin a line."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    for package, version in least(project, sys.argv[1:]).items():
        print(f"{package}=={version}")


if __name__ == "__main__":
    main()
