"""The demo, small: the tables it prints, the files it leaves, its memory meter."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from html_page import Page

from gramian import demo
from gramian.exceptions import GramianError, InputError, MissingPackageError
from gramian.reporting.document import Picture

pytest.importorskip("matplotlib").use("Agg")


@pytest.mark.slow
def test_the_demo_labels_its_rows_and_leaves_a_page(tmp_path, capfd):
    out = tmp_path / "new" / "folder"
    demo.main(2000, "300MB", out)
    said, errors = capfd.readouterr()
    assert "Warning" not in errors
    for words in (
        "made-up flats",
        "1,600 training rows and 400 new rows",
        "90 % intervals of the default hold",
        "scikit-learn's images of digits",
        "1,437 training rows and 360 new rows",
        "learned the labels too",
        "2,000 made-up measurements of an island in 300MB",
        "2,000 rows learned in",
        "their Gram matrix would be 32 MB",
        f"python -m gramian.demo 300MB {out}",
        str(out / "demo.html"),
    ):
        assert words in said
    kernels, boosting, both = map(float, re.findall(r"(?:alone|both) +(\d+\.\d+) ", said))
    assert demo.PRICE_NOISE < both < boosting
    assert demo.PRICE_NOISE < kernels < boosting
    accuracies = [float(each) for each in re.findall(r"accuracy ([\d.]+)", said)]
    assert len(accuracies) == 3
    assert min(accuracies) > 0.95
    assert (out / "flats.csv").read_text(encoding="utf-8").count("\n") == 2001
    page = Page((out / "demo.html").read_text(encoding="utf-8"))
    page.assert_self_contained()
    assert page.elements.count("figure") == 4


@pytest.mark.slow
def test_the_island_is_learned_from_noisy_measurements(tmp_path):
    lines = demo.show_island(20_000, "2GB", tmp_path)
    assert 0.0 < float(re.search(r"truth ([\d.]+)", "\n".join(lines))[1]) < 0.8 * demo.HEIGHT_NOISE
    assert [each.title for each in demo.draw_island(tmp_path)] == ["Measured", "Learned", "Truth"]
    heights = np.load(tmp_path / "heights.npy")
    errors = heights - demo.height(np.load(tmp_path / "places.npy"))
    assert 0.9 * demo.HEIGHT_NOISE < errors.std() < 1.1 * demo.HEIGHT_NOISE


@pytest.mark.slow
def test_a_limit_that_python_alone_exceeds_is_told(tmp_path, capfd):
    with pytest.raises(GramianError, match=r"process ended with status 1.*raise --memory"):
        demo.show_island(1000, "5MB", tmp_path)
    assert re.match("error: .*1 B is too small", capfd.readouterr().err)


@pytest.mark.promise
def test_two_million_rows_take_300_megabytes(tmp_path):
    lines = demo.show_island(2_000_000, "300MB", tmp_path)
    assert float(re.search(r"process (\d+) MB", lines[1])[1]) < 300
    assert float(re.search(r"truth ([\d.]+)", lines[2])[1]) < 0.3 * demo.HEIGHT_NOISE


def test_errors(tmp_path):
    with pytest.raises(InputError, match=r"rows=10 is too few: the demo needs at least 500"):
        demo.main(10, out=tmp_path)
    with pytest.raises(InputError, match="is not a size"):
        demo.main(1000, "much", tmp_path)


def test_the_page_shows_what_was_printed_and_text_comes_without_matplotlib(tmp_path, capsys, monkeypatch):
    picture = Picture("Learned", "A map.", "data:,")
    monkeypatch.setattr(demo, "show_table", lambda *_: ["RMSE 15"])
    monkeypatch.setattr(demo, "show_forest", lambda: ["100 ns"])
    monkeypatch.setattr(demo, "show_island", lambda *_: ["270 MB"])
    monkeypatch.setattr(demo, "draw_island", lambda _: [picture])
    demo.main(500, out=tmp_path)
    text, page = capsys.readouterr().out, Page((tmp_path / "demo.html").read_text(encoding="utf-8"))
    page.assert_self_contained()
    for told in ("made-up flats", "RMSE 15", "images of digits", "100 ns", "made-up measurements", "270 MB"):
        assert told in page.text
        assert told in text
    assert page.elements.count("figure") == 1

    def missing(_):
        raise MissingPackageError("Run: pip install 'gramian[plot]'")

    monkeypatch.setattr(demo, "draw_island", missing)
    demo.main(500, out=tmp_path)
    text = capsys.readouterr().out
    assert "No page with pictures: Run: pip install 'gramian[plot]'" in text
    assert "270 MB" in text


def test_resident_bytes_are_the_systems(monkeypatch):
    now, most = demo.resident("VmRSS"), demo.resident("VmHWM")
    if Path("/proc/self/status").exists():
        block = np.ones(8_000_000)
        assert 0 < now <= most
        assert demo.resident("VmRSS") - now > 50e6
        del block
    monkeypatch.setattr(Path, "exists", lambda _: False)
    assert np.isnan(demo.resident("VmRSS"))


def test_prices_are_what_the_table_says():
    names, X, y = demo.make_flats(3000)
    _, again, prices = demo.make_flats(3000)
    assert X.tolist() == again.tolist()
    np.testing.assert_array_equal(y, prices)
    missing = dict(zip(names, np.equal(X, None).mean(axis=0), strict=True))
    np.testing.assert_allclose([missing["age"], missing["heating"]], 0.1, atol=0.03)
    assert sum(missing.values()) == missing["age"] + missing["heating"]
    columns = dict(zip(names, X.T, strict=True))
    lift, floor = columns["lift"].astype(bool), columns["floor"].astype(float)
    slope = [np.polyfit(floor[side], y[side], 1)[0] for side in (lift, ~lift)]
    assert slope[0] > 2 > -2 > slope[1]
    assert abs(np.corrcoef(columns["tax"].astype(float), y)[0, 1]) < 0.05
