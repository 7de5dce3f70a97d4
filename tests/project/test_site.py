"""Build and check of the site: docstrings for numpydoc, formulas as MathML, a browser or advice."""

from __future__ import annotations

import importlib
import inspect
import runpy
import sys
import textwrap
from pathlib import Path

import pytest

import gramian as gm

ROOT = Path(__file__).parents[2]
EXTENSIONS = ROOT / "docs" / "_ext"


@pytest.fixture(scope="module")
def docstrings():
    return runpy.run_path(str(EXTENSIONS / "docstrings.py"))


@pytest.fixture
def check_site():
    return runpy.run_path(str(ROOT / "docs" / "check_site.py"))


def lines(text: str) -> list[str]:
    return textwrap.dedent(text).strip().splitlines()


def test_text_beside_a_name_is_no_type(docstrings):
    source = lines(
        """
        Do it.

        Parameters
        ----------
        alpha : float, default=1.0
            Penalty.
        rows : (n, d), dense or CSR; at most twenty
            of them are looked at.
        a, b : as in scikit-learn.
        """
    )
    assert docstrings["rewrite"](source)[4:] == lines(
        """
        alpha : float, default=1.0
            Penalty.
        rows
            (n, d), dense or CSR; at most twenty
            of them are looked at.
        a, b
            as in scikit-learn.
        """
    )


def test_paragraphs_after_the_entries_are_notes(docstrings):
    source = lines(
        """
        Do it.

        Attributes
        ----------
        rank_ : int
            Total.
        Others as of the base.

        Time O(n). Raises ``InputError``.

        Examples
        --------
        >>> 1
        1
        """
    )
    text = "\n".join(docstrings["rewrite"](source))
    notes = "Notes\n-----\nOthers as of the base.\n\nTime O(n). Raises ``InputError``.\n"
    assert text.index(notes) < text.index("Examples")
    assert text.index("Attributes") < text.index(notes)


def test_entries_without_a_heading_get_one(docstrings):
    source = lines(
        """
        Choose.

        rows : of the data
        count : how many

        Returns numbers.
        """
    )
    assert docstrings["rewrite"](source)[:-1] == lines(
        """
        Choose.

        Parameters
        ----------
        rows
            of the data
        count
            how many


        Notes
        -----
        Returns numbers.
        """
    )


def test_parameters_are_shown_in_groups(docstrings):
    names = ["alpha", "kernel, rank, gamma", "tol", "metric", "n_jobs", "verbose"]
    shown = [":Parameters:", ""]
    for name in names:
        shown += [f"    **{name}** : int", f"        About {name}.", ""]
    rest = [":Attributes:", "", "    **rank_** : int"]
    found = docstrings["grouped"]([*shown, *rest])
    order = [line.strip().strip("*").split("**")[0] for line in found if line.startswith("    *")]
    groups = ["Model", "alpha", "tol", "Kernel", "kernel, gamma", "metric", "Size", "rank", "Resources"]
    assert order == [*groups, "n_jobs", "verbose", "rank_"]
    assert found.count("        About kernel, rank, gamma.") == 2
    few = [*shown[:8], *rest]
    assert docstrings["grouped"](few) == few


def test_a_docstring_without_entries_stays(docstrings):
    source = lines("Return x.\n\nTime O(1).")
    assert docstrings["rewrite"](source) == source


def documented(docstrings, obj) -> list[str]:
    names: list[str] = []
    text = docstrings["rewrite"](inspect.cleandoc(obj.__doc__ or "").splitlines())
    for heading, entries in docstrings["sections"](text):
        for line in entries if heading == "Parameters" else ():
            if line[:1].strip() and (match := docstrings["ENTRY"].match(line)):
                names += [name.strip("* ") for name in match[1].split(",")]
    return names


@pytest.mark.parametrize("module", ["gramian", "gramian.data", "gramian.kernels", "gramian.plotting"])
def test_documented_parameters_are_those_of_the_signature(docstrings, module):
    if module == "gramian.plotting":
        pytest.importorskip("matplotlib", reason="of the plots: pip install 'gramian[plot]'")
    here = importlib.import_module(module)
    for name in here.__all__:
        obj = getattr(here, name)
        if callable(obj) and not (isinstance(obj, type) and issubclass(obj, Exception)):
            unknown = set(documented(docstrings, obj)) - set(inspect.signature(obj).parameters)
            assert not unknown, f"{module}.{name} documents {unknown}"


def test_the_basis_of_all_docstrings_has_every_parameter(docstrings):
    # The others say "as for MEKA", "as for KernelRidge".
    for basis in (gm.MEKA, gm.KernelRidge):
        assert set(documented(docstrings, basis)) == set(inspect.signature(basis).parameters)


class Node:
    """What the renderer asks of a node."""


def test_formulas_become_mathml(monkeypatch):
    pytest.importorskip("latex2mathml", reason="of the site: pip install 'gramian[docs]'")
    pytest.importorskip("sphinx", reason="of the site: pip install 'gramian[docs]'")
    mathml = runpy.run_path(str(EXTENSIONS / "mathml.py"))
    made = mathml["to_mathml"](Node(), r"x \in \mathcal X, \mathbb R^n, \mathbf 1, \mathcal H", "inline")
    assert all(letter in made for letter in "𝒳ℝ𝟏ℋ")
    assert made.startswith("<math")
    said = []
    monkeypatch.setattr(mathml["logger"], "warning", lambda text, *values, **_: said.append(text % values))
    mathml["to_mathml"](Node(), r"\nonsense x", "inline")
    mathml["to_mathml"](Node(), r"\frac{1", "inline")
    assert mathml["to_mathml"](Node(), r"\frac", "inline") == r"<code>\frac</code>"
    assert "command that is not converted" in said[0]
    assert "lacks a part of a mfrac" in said[1]
    assert "cannot convert" in said[2]


def test_without_a_browser_the_check_says_what_to_install(check_site, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CHROMIUM", raising=False)
    with pytest.raises(SystemExit, match="apt-get install chromium"):
        check_site["browser_path"]()
    browser = tmp_path / "my-chrome"
    browser.write_text("#!/bin/sh\n", encoding="utf-8")
    browser.chmod(0o755)
    monkeypatch.setenv("CHROMIUM", str(browser))
    assert check_site["browser_path"]() == str(browser)


def test_without_a_site_the_check_says_what_to_run(check_site, tmp_path):
    pytest.importorskip("playwright", reason="of the site: pip install 'gramian[docs]'")
    with pytest.raises(SystemExit, match="run make docs first"):
        check_site["check"](tmp_path)


def test_without_playwright_the_check_says_what_to_install(check_site, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "playwright.sync_api", None)
    with pytest.raises(SystemExit, match=r"pip install 'gramian\[docs\]'"):
        check_site["check"](tmp_path)
