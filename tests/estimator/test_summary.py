"""Summaries as values, as HTML and in rich: complete, escaped, and never in need of an optional package."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from html_page import Page, told

import gramian as gm
from gramian.summary import Grid, Shown, Summary, short, spread_grid
from gramian.summary.html import body, fragment, tables_html

NASTY = "<b>&\"'</td>[red]"


SAMPLE = Summary(
    NASTY,
    ((f"fact {NASTY}", NASTY),),
    (Grid(f"grid {NASTY}", ("a", NASTY), (("1", NASTY),), f"note {NASTY}"),),
    (f"warning {NASTY}",),
    f"closing {NASTY}",
)


@pytest.mark.parametrize("write", [fragment, body])
def test_html_shows_every_text_as_it_is(write):
    page = Page(write(SAMPLE))
    page.assert_self_contained()
    assert "b" not in page.elements
    assert page.text.count(NASTY) == 9
    assert ("style" in page.elements) is (write is fragment)


def test_details_are_folded_unless_asked_for():
    assert "<details open>" not in body(SAMPLE)
    assert tables_html([*SAMPLE.grids, *SAMPLE.grids], opened=1).count("<details open>") == 1


def test_style_leaves_the_colour_of_text_to_the_page():
    assert "color:inherit" in fragment(SAMPLE)
    assert "color:#" not in fragment(SAMPLE).replace("background-color", "")
    assert "http" not in fragment(SAMPLE)


def test_text_has_every_text():
    assert str(SAMPLE).count(NASTY) == 9
    assert "Warning: warning" in str(SAMPLE)


def test_rich_reads_no_markup():
    class Thing(Shown):
        def summary(self):
            return SAMPLE

    assert told(Thing()).count(NASTY) == 9


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match=r"A row of 'sizes' has 1 texts, but there are 2 columns\."):
        Grid("sizes", ("a", "b"), (("1",),))


def test_sizes_are_spread():
    grid = spread_grid("Blocks", "level", [("0", [3]), ("1", [1, 2, 30_000]), ("2", [])])
    assert grid.rows[0] == ("0", "1", "3", "3", "3", "3")
    assert grid.rows[1] == ("1", "3", "1", "2", "30,000", "30,003")
    assert grid.rows[2][-1] == "0"


def test_long_texts_are_cut():
    assert short("x" * 500, 10) == "x" * 9 + "…"
    assert short("a\n  b") == "a b"


# ---- plans and reports -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    X = np.random.default_rng(0).random((300, 2))
    model = gm.MultiResolution(gamma=30.0, root_rank=20, rank=6, n_blocks=4, random_state=0)
    return model.fit(X), X


def test_a_plan_shows_sizes_bytes_and_seconds(fitted):
    plan = fitted[0].plan_
    page = Page(plan._repr_html_())
    page.assert_self_contained()
    for text in ("300", "root rank 20", "4 blocks of rank 6", "predicted peak", "operator", "1 GB"):
        assert text in page.text
    assert [row[0] for row in plan.phases().rows] == ["sample", "bases", "operator"]
    assert "4 blocks of rank 6" in told(plan)
    assert str(plan).startswith("multiresolution: root rank 20")


def test_a_plan_that_is_not_carried_out_took_no_time(fitted):
    model, X = fitted
    plan = model.plan(X)
    assert plan.n_rows == len(X)
    assert "took" not in [name for name, _ in plan.summary().facts]
    Page(plan._repr_html_())


def test_a_report_shows_the_error_with_its_interval_and_every_block(fitted):
    model, X = fitted
    report = model.report(X[:], n_rows=50, random_state=0)
    page = Page(report._repr_html_())
    page.assert_self_contained()
    assert f"95 % within {report.frobenius.low:.3g} and {report.frobenius.high:.3g}" in page.text
    assert report.judgement in page.text
    assert "Error by block: the worst 4 of 4" in page.text
    assert report.judgement.split()[0] in told(report)
    assert model.report().judgement in Page(model.report()._repr_html_()).text


def test_a_report_warns_of_clipped_eigenvalues(fitted):
    from dataclasses import replace

    clipped = replace(fitted[0].report(), clipped=0.5)
    assert clipped.summary().warnings == (
        "Negative eigenvalues with sum -0.5 were clipped to zero in a solve.",
    )


@pytest.mark.slow
def test_without_rich_all_but_rich_works():
    code = """
import sys
sys.modules["rich"] = None
import numpy as np, gramian as gm
model = gm.Nystrom(rank=5, gamma=3.0).fit(np.random.default_rng(0).random((50, 2)))
assert "gramian-summary" in model._repr_html_()
assert "gramian-summary" in model.plan_._repr_html_()
print(model, model.plan_, model.report(), model.plan_.summary())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_rich_prints_a_plan_by_itself(fitted, capsys):
    pytest.importorskip("rich").print(fitted[0].plan_)
    assert "Phases of the fit" in capsys.readouterr().out
