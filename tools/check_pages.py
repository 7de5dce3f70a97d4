"""Run the snippets of the pages in environments made by the command that each page tells the reader to run.

python tools/check_pages.py WHEEL FOLDER [--all | PAGE ...]. A page needs what its ``pip install '…'``
commands name together; a page without one needs what the README names. Pages with the same needs share an
environment, made anew in FOLDER. The wheel stands for the clone or for the package's name; constraints.txt
fixes the versions. Without further arguments the first page of each environment runs:
tests/project/test_docs.py runs the snippets of all pages in the environment of the developers.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: As ``pip install '.[cli,files,jit,plot]' pandas``: extras, and packages after them.
COMMAND = re.compile(r"pip install '(?:\.|gramian)\[([a-z,]+)\]'((?: [a-z][\w-]*)*)")
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Not the main module: processes that a snippet starts would run that again.
RUNNER = """
import sys
names = {"__name__": "__page__"}
for path in sys.argv[1:]:
    exec(compile(open(path, encoding="utf-8").read(), path, "exec"), names)
"""


def needs_of(page: Path) -> tuple[str, tuple[str, ...]] | None:
    """Return extras and further packages that a page says it needs; None where it says nothing."""
    commands = COMMAND.findall(page.read_text(encoding="utf-8"))
    extras = sorted({extra for named, _ in commands for extra in named.split(",")})
    packages = sorted({package for _, named in commands for package in named.split()})
    return (",".join(extras), tuple(packages)) if commands else None


def environment(folder: Path, wheel: Path, extras: str, packages: tuple[str, ...]) -> Path:
    """Return the Python of a new environment with the wheel, the extras and the packages."""
    venv = folder / "-".join([*extras.split(","), *packages])
    shutil.rmtree(venv, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    python = venv / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*install, "-c", ROOT / "constraints.txt", f"gramian[{extras}] @ {wheel.as_uri()}", *packages],
        check=True,
    )
    return python


def run(python: Path, page: Path) -> bool:
    """Run a page from top to end in an empty folder and say whether it did."""
    text, begin = page.read_text(encoding="utf-8"), time.perf_counter()
    name = page.relative_to(ROOT).as_posix()
    with tempfile.TemporaryDirectory() as folder:
        code = []
        for number, found in enumerate(SNIPPET.finditer(text)):
            # Blank lines before the code, so that a traceback has the page's line numbers.
            code.append(Path(folder, f"{page.stem}-{number}.py"))
            code[-1].write_text("\n" * text.count("\n", 0, found.start(1)) + found[1], encoding="utf-8")
        clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "GRAMIAN_DATA")}
        done = subprocess.run(
            [python, "-c", RUNNER, *map(str, code)],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env={**clean, "MPLBACKEND": "Agg"},
        )
    print(
        f"{'ok' if done.returncode == 0 else 'FAILED':6} {name}: {time.perf_counter() - begin:.0f} s",
        flush=True,
    )
    if done.returncode:
        print(done.stderr.strip(), flush=True)
    return done.returncode == 0


def main() -> None:
    """Make the environments and run the pages."""
    wheel, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    usual = needs_of(pages[0])
    if usual is None:
        raise SystemExit("pages: README.md names no pip install '.[extras]'")
    groups: dict[tuple[str, tuple[str, ...]], list[Path]] = defaultdict(list)
    named = sys.argv[3:]
    chosen = pages if named in ([], ["--all"]) else [Path(name).resolve() for name in named]
    for page in chosen:
        if SNIPPET.search(page.read_text(encoding="utf-8")):
            groups[needs_of(page) or usual].append(page)
    failed = []
    for (extras, packages), members in groups.items():
        print(f"-- pip install 'gramian[{extras}]' {' '.join(packages)}", flush=True)
        python = environment(folder, wheel, extras, packages)
        failed += [page.name for page in (members if named else members[:1]) if not run(python, page)]
    if failed:
        raise SystemExit(f"pages: the snippets of {', '.join(failed)} failed")


if __name__ == "__main__":
    main()
