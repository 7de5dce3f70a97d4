"""README, docs and examples: every snippet runs; paths, links, names, commands and options exist."""

from __future__ import annotations

import re
import runpy
import shlex
import tomllib
from fnmatch import fnmatch
from functools import cache
from importlib import import_module
from pathlib import Path
from textwrap import indent

import pytest

import gramian
from gramian import MEKA, MultiResolution
from gramian.approximations import auto
from gramian.approximations.meka import MEKABuilder
from gramian.kernels import KERNEL_NAMES

pytestmark = pytest.mark.whole  # each configuration is about another page or file

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: What the site's build writes beside the pages.
MADE = {"auto_examples", "generated"}
SITE = sorted(p for p in DOCS.rglob("*.md") if not MADE & set(p.relative_to(DOCS).parts))
PAGES = [*(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")), *SITE]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

#: A fenced block: ``python``, ``console``, or a directive of the site such as ``{toctree}``.
FENCE = re.compile(r"^(`{3,}|:{3,})(\{?[\w-]*\}?)[^\n]*\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
#: What looks like a file or folder of this repository.
NAMED = re.compile(
    r"(?:(?:src|tests|benchmarks|docs|examples)/[\w./-]*|[\w./-]+\.(?:py|md|toml|cff)|Makefile|LICENSE)"
)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


pages = pytest.mark.parametrize("page", PAGES, ids=name_of)


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """Return (lines before the code, code) for each fenced block of a language."""
    text = page.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start(3)), match[3])
        for match in FENCE.finditer(text)
        if match[2] == language
    ]


#: Pages that newcomers and contributors read first: the quick suite runs their snippets, the whole one all.
FIRST_PAGES = {"README.md", "docs/getting-started.md", "docs/where-to-add.md"}


def with_snippets():
    for page in PAGES:
        if blocks(page, "python"):
            marks = () if name_of(page) in FIRST_PAGES else pytest.mark.slow
            yield pytest.param(page, marks=marks, id=name_of(page))


@pytest.mark.parametrize("page", list(with_snippets()))
def test_snippets_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__page__"}
    for lines, code in blocks(page, "python"):
        # Blank lines before the code, so that a traceback has the page's line numbers.
        # The future statement of this file is not theirs.
        exec(compile("\n" * lines + code, str(page), "exec", dont_inherit=True), namespace)


@pytest.mark.slow
@pytest.mark.repeat  # the gallery of the site runs them, in make docs
@pytest.mark.parametrize("script", EXAMPLES, ids=name_of)
def test_examples_run(script, tmp_path, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="the gallery draws: pip install 'gramian[plot]'")
    monkeypatch.chdir(tmp_path)
    pyplot.switch_backend("Agg")
    pyplot.close("all")
    runpy.run_path(str(script), run_name="__main__")
    drawn = pyplot.get_fignums()
    pyplot.close("all")
    assert drawn, f"{script.name} draws nothing"


@pytest.mark.parametrize("script", EXAMPLES, ids=name_of)
def test_examples_are_short_and_in_the_gallery(script):
    text = script.read_text(encoding="utf-8")
    assert script.name.startswith("plot_")
    assert len(text.splitlines()) <= 100
    assert re.match(r'r?"""\n?[^\n]+\n===+\n\n\S', text), f"{script.name} begins with title, ===, text"


@pages
def test_links_lead_somewhere(page):
    for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if not target.startswith(("https://", "http://")):
            assert not target.split("#")[0] or (page.parent / target.split("#")[0]).exists(), target


@pages
def test_named_files_exist(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    named = [code for code in CODE.findall(text) if NAMED.fullmatch(code)]
    for name in named:
        # A name may begin at the repository or at the package.
        known = any((folder / name).exists() for folder in (ROOT, ROOT / "src" / "gramian"))
        assert known, f"{page.name} names {name}"


def entries(page: Path) -> set[Path]:
    """Return the pages that a page's toctrees list."""
    listed: set[Path] = set()
    for _, code in blocks(page, "{toctree}"):
        for line in code.splitlines():
            name = re.sub(r"^.*<(.*)>$", r"\1", line.strip())
            if name and not name.startswith(":"):
                pattern = (page.parent / f"{name}.md").resolve().as_posix()
                listed |= {one for one in SITE if fnmatch(one.as_posix(), pattern)}
    return listed


def test_every_page_is_reached_by_the_toctrees():
    reached, ahead = set(), {DOCS / "index.md"}
    while ahead:
        reached |= ahead
        ahead = set().union(*(entries(page) for page in ahead)) - reached
    assert [name_of(page) for page in SITE if page not in reached] == []


def reference() -> set[tuple[str, str]]:
    """Return (module, name) of everything that the reference lists."""
    found, module = set(), ""
    for page in sorted((DOCS / "api").glob("*.md")):
        for _, code in blocks(page, "{eval-rst}"):
            for line in code.splitlines():
                if line.startswith(".. currentmodule:: "):
                    module = line.split()[-1]
                elif re.fullmatch(r"   \w+", line):
                    found.add((module, line.strip()))
    return found


def test_the_reference_has_every_public_name():
    listed = reference()
    assert {name for module, name in listed if module == "gramian"} == set(gramian.__all__)
    for package in ("approximations", "data", "operators", "spectra"):
        assert {name for _, name in listed} >= set(import_module(f"gramian.{package}").__all__), package
    pytest.importorskip("matplotlib", reason="of the plots: pip install 'gramian[plot]'")
    plots = {name for module, name in listed if module == "gramian.plotting"}
    assert plots == set(import_module("gramian.plotting").__all__)


def test_what_the_reference_lists_exists():
    for module, name in sorted(reference()):
        if module == "gramian.engine_dask":
            pytest.importorskip("dask", reason="of the cluster: pip install 'gramian[dask]'")
        assert hasattr(import_module(module), name), f"{module}.{name}"


@cache
def commands():
    typer = pytest.importorskip("typer")
    from gramian.cli.app import app

    return typer.main.get_command(app).commands


def options_of(command) -> set[str]:
    names = {"--help"}
    for parameter in command.params:
        names |= {*parameter.opts, *parameter.secondary_opts}
    return names


def console_lines(start: str) -> list[tuple[str, list[str]]]:
    found = []
    for page in PAGES:
        for _, code in blocks(page, "console"):
            for line in code.splitlines():
                words = [word for word in shlex.split(line) if not re.fullmatch(r"[A-Z_]+=\S*", word)]
                if words[:1] == [start]:
                    found.append((page.name, words[1:]))
    return found


def test_gramian_lines_name_commands_and_options():
    lines = console_lines("gramian")
    assert {words[0] for _, words in lines} == set(commands())
    for page, words in lines:
        given = {word for word in words[1:] if word.startswith("--")}
        unknown = given - options_of(commands()[words[0]])
        assert not unknown, f"{page}: gramian {words[0]} has no {unknown}"


def test_help_of_every_command():
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from gramian.cli.app import app

    for name in commands():
        assert CliRunner().invoke(app, [name, "--help"]).exit_code == 0


def test_option_table_is_that_of_fit():
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    table = "\n".join(line for line in text.splitlines() if line.startswith("| `--"))
    in_table = set(re.findall(r"--[a-z-]+", table))
    assert in_table == options_of(commands()["fit"]) - {"--help", "train_file"}


def test_python_lines_name_scripts_and_options():
    for page, (script, *words) in console_lines("python"):
        path = ROOT / script
        assert path.exists(), f"{page}: {script}"
        for option in (word for word in words if word.startswith("--")):
            assert f'"{option}"' in path.read_text(encoding="utf-8"), f"{page}: {script} {option}"


def test_choosing_has_the_numbers_of_auto():
    text = " ".join((ROOT / "docs" / "choosing.md").read_text(encoding="utf-8").split())
    for phrase in (
        f"probe of at most {auto.PROBE_ROWS} rows",
        f"**n ≤ {auto.EXACT_ROWS:,}.**",
        f"A root of rank {auto.LONE_ROOT:,} alone",
        f"A root of rank {auto.SHARED_ROOT} and n/{auto.BLOCK_ROWS} blocks (2 to {auto.MAX_BLOCKS:,}) "
        f"of rank {auto.BLOCK_RANK}",
    ):
        assert phrase in text, phrase


def test_choosing_has_the_defaults():
    text = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
    for kind, names in ((MultiResolution, ("root_rank", "rank", "n_blocks")), (MEKA, ("rank", "n_blocks"))):
        sizes = ", ".join(f"{name}={getattr(kind(), name)}" for name in names)
        assert f"`{kind.__name__}` has `{sizes}`" in " ".join(text.split())
    assert MEKA().oversampling is None
    sampled = MEKABuilder().bounds.landmarks / MEKABuilder().rank
    assert f"{sampled} for `MEKA`, {MultiResolution().oversampling} for `MultiResolution`" in text


@cache
def layers_of_the_contract() -> list[list[str]]:
    return runpy.run_path(str(DOCS / "figures" / "layers.py"))["layers"]()


def test_the_contract_has_a_layer_for_every_folder():
    package = ROOT / "src" / "gramian"
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    files = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
    assert {name for names in layers_of_the_contract() for name in names} == folders | files


def test_layers_are_those_of_the_contract():
    lines = (DOCS / "layers.md").read_text(encoding="utf-8").splitlines()
    rows = [line.split("|")[1] for line in lines if line.startswith("| `gramian.")]
    named = [[name.removeprefix("gramian.") for name in CODE.findall(row)] for row in rows]
    assert named == layers_of_the_contract()
    assert max(len(cell) for line in lines if line.startswith("|") for cell in line.split("|")) < 500


def test_layers_name_the_contracts():
    text = (DOCS / "layers.md").read_text(encoding="utf-8")
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    for contract in contracts:
        assert f"- **{contract['name']}**" in text


def test_layers_show_the_fits_as_they_are():
    text = (DOCS / "layers.md").read_text(encoding="utf-8")
    shown = re.findall(r"The fit of `([^`]+)`:\n\n```text\n(.*?)```", text, re.DOTALL)
    assert len(shown) == 3
    for file, lines in shown:
        assert indent(lines, 8 * " ") in (ROOT / file).read_text(encoding="utf-8"), file


def test_the_picture_of_the_layers_is_up_to_date():
    drawing = runpy.run_path(str(DOCS / "figures" / "layers.py"))["drawing"]
    drawn = drawing(layers_of_the_contract())
    stored = (DOCS / "figures" / "layers.svg").read_text(encoding="utf-8")
    assert stored == drawn, "run: python docs/figures/layers.py"


def test_kernels_has_every_name():
    text = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
    for name in KERNEL_NAMES:
        assert f'`"{name}"`' in text, name


def test_make_lines_name_targets():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    everywhere = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    targets = {word for _, words in console_lines("make") for word in words}
    targets |= set(re.findall(r"`make ([a-z-]+)`", everywhere))
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_first_page_sends_tables_to_the_estimators_for_tables():
    first = (
        (DOCS / "index.md").read_text(encoding="utf-8").partition("grid-item-card}")[2].partition(":::")[0]
    )
    assert first.lstrip().startswith("Tables")
    assert "`TabularRegressor`, `TabularClassifier`" in first


def test_model_files_names_every_estimator_that_a_file_may_hold():
    from gramian.approximations.methods import METHODS
    from gramian.model_file.parts import KNOWN

    text = (ROOT / "docs" / "model-files.md").read_text(encoding="utf-8")
    methods = {kind.__name__ for kind in METHODS.values()}
    assert [name for name in KNOWN if name not in methods and f"`{name}`" not in text] == []
    assert any(f"`{name}`" in text for name in methods)


def test_readme_and_first_page_name_the_same_other_libraries():
    def rows(path: Path) -> dict[str, set[str]]:
        text = path.read_text(encoding="utf-8").partition("## When not to use it")[2].partition("\n## ")[0]
        cells = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| ")]
        return {have.replace(",", ""): set(re.findall(r"\*\*(.*?)\*\*", take)) for have, take in cells}

    assert rows(ROOT / "README.md") == rows(DOCS / "index.md")
    assert {"LightGBM", "AutoGluon", "GPyTorch"} <= set().union(*rows(ROOT / "README.md").values())


def test_readme_and_first_page_say_the_same_in_one_sentence():
    openings = [(path / name).read_text(encoding="utf-8").split("\n\n")[1] for path, name in FIRST_TWO]
    assert openings[0] == openings[1]


FIRST_TWO = ((ROOT, "README.md"), (DOCS, "index.md"))
