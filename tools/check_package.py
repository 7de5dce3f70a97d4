"""Build sdist and wheel, look into both, and install the wheel into a new environment without extras.

python tools/check_package.py FOLDER. FOLDER is made anew: ``dist`` holds the archives, ``sdist`` the unpacked
source, ``venv`` the environment. Stops with a text at the first thing that is wrong.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from packaging.metadata import Metadata

ROOT = Path(__file__).parents[1]
#: What a source archive must bring, so that documentation and tests can be made from it alone.
IN_SOURCE = [
    *("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile", "PKG-INFO", "README.md"),
    *("SECURITY.md", "conftest.py", "constraints.txt", "pyproject.toml", "docs/index.md", "docs/conf.py"),
    *("src/gramian/__init__.py", "src/gramian/py.typed", "tests/project/test_packaging.py", "tools/smoke.py"),
]
FOLDERS_IN_SOURCE = ("benchmarks", "docs", "examples", "src", "tests", "tools")
#: Left behind by runs, and never part of an archive.
LITTER = re.compile(r"__pycache__|\.pyc$|\.nb[ic]$|\.gramian$|auto_examples|/generated/")


def check(holds: bool, said: str) -> None:
    """Stop with a text where something does not hold."""
    if not holds:
        raise SystemExit(f"package: {said}")


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Run a command and return what it printed; its output and an end otherwise."""
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(dist: Path) -> tuple[Path, Path]:
    """Return sdist and wheel, the wheel made from the sdist and the same as one made from the tree."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", dist)
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", dist / "tree")
    (source,), (wheel,), (other,) = dist.glob("*.tar.gz"), dist.glob("*.whl"), (dist / "tree").glob("*.whl")
    check(contents(wheel) == contents(other), "the wheel of the sdist and that of the tree differ")
    return source, wheel


def contents(wheel: Path) -> dict[str, bytes]:
    """Return {name: bytes} of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def check_wheel(wheel: Path) -> None:
    """The package with its data files, its metadata and the licence; nothing else."""
    held = contents(wheel)
    package = ROOT / "src" / "gramian"
    expected = {
        str(path.relative_to(package.parent))
        for path in package.rglob("*")
        if path.is_file() and not LITTER.search(str(path))
    }
    found = {name for name in held if not name.split("/")[0].endswith(".dist-info")}
    check(
        found == expected, f"in the wheel and not in src, or the other way round: {sorted(found ^ expected)}"
    )
    check("gramian/py.typed" in found, "the wheel has no py.typed")
    (licence,) = [name for name in held if name.endswith("/LICENSE")]
    check(held[licence] == (ROOT / "LICENSE").read_bytes(), "the wheel has another licence")
    (text,) = [held[name] for name in held if name.endswith(".dist-info/METADATA")]
    check_metadata(text)


def check_metadata(text: bytes) -> None:
    """Every field is one that indexes accept, and the README is what they will show."""
    metadata = Metadata.from_email(text, validate=True)
    version = re.search(
        r'__version__ = "(.+)"', (ROOT / "src/gramian/__init__.py").read_text(encoding="utf-8")
    )
    check(
        str(metadata.version) == (version and version[1]), f"the metadata has the version {metadata.version}"
    )
    check(metadata.description_content_type == "text/markdown", "the README is not marked as Markdown")
    check(bool(metadata.summary) and len(metadata.summary or "") <= 512, "the summary is missing or too long")
    check(metadata.license_expression == "BSD-3-Clause", "the licence is not named")
    check(metadata.description == (ROOT / "README.md").read_text(encoding="utf-8"), "the README is not in it")


def unpack(source: Path, folder: Path) -> Path:
    """Check what the sdist holds and return the unpacked tree."""
    with tarfile.open(source) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames()]
        archive.extractall(folder, filter="data")
    lacking = [name for name in IN_SOURCE if name not in names]
    lacking += [
        folder for folder in FOLDERS_IN_SOURCE if not any(name.startswith(folder + "/") for name in names)
    ]
    check(not lacking, f"the sdist lacks {', '.join(lacking)}")
    litter = [name for name in names if LITTER.search(name)]
    check(not litter, f"the sdist holds {', '.join(litter[:5])}")
    (tree,) = folder.iterdir()
    return tree


def install(wheel: Path, venv: Path) -> Path:
    """Return the Python of a new environment with the wheel and no extra."""
    run(sys.executable, "-m", "venv", venv)
    python = venv / "bin" / "python"
    run(
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "-c",
        "constraints.txt",
        wheel,
    )
    run(python, "-m", "pip", "check", "--disable-pip-version-check")
    return python


def check_types(python: Path, folder: Path) -> None:
    """A user's strict type checker sees the types of the installed wheel."""
    shutil.copy(ROOT / "tools" / "user_program.py", folder)
    command = ("-m", "mypy", "--strict", "--no-incremental", "--python-executable", python, "user_program.py")
    run(sys.executable, *command, cwd=folder)


def main() -> None:
    """Do all of it."""
    folder = Path(sys.argv[1]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    source, wheel = build(folder / "dist")
    check_wheel(wheel)
    unpack(source, folder / "sdist")
    python = install(wheel, folder / "venv")
    with tempfile.TemporaryDirectory() as elsewhere:
        print(run(python, "-I", ROOT / "tools" / "smoke.py", cwd=Path(elsewhere)).strip())
        check_types(python, Path(elsewhere))
    for path in (source, wheel):
        print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
