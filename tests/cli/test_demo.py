"""The demo, small: the tables it prints, the files it leaves, its memory meter."""

from __future__ import annotations

import re
import subprocess
import sys
import threading

import numpy as np
import pytest
from html_page import Page

from gramian import demo
from gramian.comparison import PeakMemory, peak_memory
from gramian.exceptions import GramianError, InputError, MissingPackageError
from gramian.reporting.drawing import Picture

pytest.importorskip("matplotlib").use("Agg")


@pytest.mark.slow
def test_the_demo_labels_its_rows_and_leaves_a_page(tmp_path):
    out = tmp_path / "new" / "folder"
    command = [sys.executable, "-m", "gramian.demo", "--rows", "2000", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    for words in (
        "made-up flats",
        "1,600 training rows and 400 new rows",
        "90 % intervals of the default hold",
        "deformed copies of bundled digits",
        "4,000 training rows and 2,000 new rows",
        "learned the labels too",
        "2,000 made-up measurements of an island in 300MB",
        "2,000 rows learned in",
        "their Gram matrix would be 32 MB",
        f"--worker --memory 300MB --out {out}",
        str(out / "demo.html"),
    ):
        assert words in done.stdout
    prices = re.findall(r"(?:alone|both) +(\d+\.\d+) ", done.stdout)
    kernels, boosting, both = map(float, prices)
    assert demo.PRICE_NOISE < both < boosting
    assert demo.PRICE_NOISE < kernels < boosting
    slow, fast, imitated = map(float, re.findall(r"accuracy ([\d.]+)", done.stdout))
    assert 0.8 < slow < 0.92 < min(fast, imitated)
    assert (out / "flats.csv").read_text(encoding="utf-8").count("\n") == 2001
    page = Page((out / "demo.html").read_text(encoding="utf-8"))
    page.assert_self_contained()
    assert page.elements.count("figure") == 3


def test_no_original_on_both_sides(tmp_path, monkeypatch):
    used = []
    real = demo.make_digits

    def watched(path, n_rows, *, originals, random_state):
        made = real(path, 100, originals=originals, random_state=random_state)
        assert set(made.source) <= set(originals)
        used.append(set(originals))
        return made

    monkeypatch.setattr(demo, "make_digits", watched)
    (rows, labels), (test, _) = demo.split_digits(tmp_path)
    assert rows.shape == test.shape == (100, 64)
    assert len(labels) == 100
    train, held = used
    assert not train & held
    assert train | held == set(range(1797))


@pytest.mark.slow
def test_the_island_is_learned_from_noisy_measurements(tmp_path):
    lines, draw = demo.show_island(20_000, "2GB", tmp_path)
    assert 0.0 < float(re.search(r"truth ([\d.]+)", "\n".join(lines))[1]) < 0.8 * demo.HEIGHT_NOISE
    assert [each.title for each in draw()] == ["Measured", "Learned", "Truth"]
    heights = np.load(tmp_path / "heights.npy")
    errors = heights - demo.height(np.load(tmp_path / "places.npy"))
    assert 0.9 * demo.HEIGHT_NOISE < errors.std() < 1.1 * demo.HEIGHT_NOISE


@pytest.mark.slow
def test_a_limit_that_python_alone_exceeds_is_told(tmp_path, capfd):
    with pytest.raises(GramianError, match=r"process ended with status 2.*raise --memory"):
        demo.show_island(1000, "5MB", tmp_path)
    assert "1 B is too small" in capfd.readouterr().err


@pytest.mark.promise
def test_two_million_rows_take_300_megabytes(tmp_path):
    lines, _ = demo.show_island(2_000_000, "300MB", tmp_path)
    assert float(re.search(r"process (\d+) MB", lines[1])[1]) < 300
    assert float(re.search(r"truth ([\d.]+)", lines[2])[1]) < 0.3 * demo.HEIGHT_NOISE


def test_errors(tmp_path, capsys):
    with pytest.raises(InputError, match=r"rows=10 is too few: the demo needs at least 500"):
        demo.main(10, out=tmp_path)
    with pytest.raises(InputError, match="is not a size"):
        demo.main(1000, "much", tmp_path)
    assert demo.run(["--rows", "10", "--out", str(tmp_path)]) == 2
    assert "error: rows=10 is too few" in capsys.readouterr().err


def test_the_page_shows_what_was_printed_and_text_comes_without_matplotlib(tmp_path, capsys, monkeypatch):
    picture = Picture("Learned", "A map.", "data:,")
    monkeypatch.setattr(demo, "show_table", lambda *_: (["RMSE 15"], tuple))
    monkeypatch.setattr(demo, "show_forest", lambda *_: (["100 ns"], tuple))
    monkeypatch.setattr(demo, "show_island", lambda *_: (["270 MB"], lambda: [picture]))
    demo.main(500, out=tmp_path)
    text, page = capsys.readouterr().out, Page((tmp_path / "demo.html").read_text(encoding="utf-8"))
    page.assert_self_contained()
    for told in ("made-up flats", "RMSE 15", "bundled digits", "100 ns", "made-up measurements", "270 MB"):
        assert told in page.text
        assert told in text
    assert page.elements.count("figure") == 1

    def missing():
        raise MissingPackageError("Run: pip install 'gramian[plot]'")

    monkeypatch.setattr(demo, "show_island", lambda *_: (["270 MB"], missing))
    demo.main(500, out=tmp_path)
    text = capsys.readouterr().out
    assert "No page with pictures: Run: pip install 'gramian[plot]'" in text
    assert "270 MB" in text


def test_peak_memory_sees_what_was_freed(monkeypatch):
    held, looks = [100e6], threading.Semaphore(0)

    def anonymous():
        found = held[0]
        looks.release()
        return found

    monkeypatch.setattr(peak_memory, "_anonymous", anonymous)
    with PeakMemory() as memory:
        held[0] = 164e6
        while looks.acquire(blocking=False):
            pass
        for _ in range(2):  # the first of these looks may have begun before
            looks.acquire()
        held[0] = 110e6
    assert memory.growth == 64e6


def test_memory_is_that_of_arrays():
    before = peak_memory._now()
    block = np.ones(8_000_000)
    assert peak_memory._now() - before > 50e6 or np.isnan(before)
    del block


def test_peak_memory_leaves_out_mapped_files(tmp_path):
    np.save(tmp_path / "big.npy", np.ones(64_000_000, np.uint8))
    mapped = np.load(tmp_path / "big.npy", mmap_mode="r")
    with PeakMemory() as memory:
        assert int(mapped.sum(dtype=np.int64)) == 64_000_000
    if peak_memory._anonymous() is not None:
        assert memory.growth < 32e6


def test_peak_memory_without_proc(monkeypatch):
    monkeypatch.setattr(peak_memory, "_anonymous", lambda: None)
    with PeakMemory() as memory:
        pass
    assert memory.growth >= 0 or np.isnan(memory.growth)
    monkeypatch.setitem(sys.modules, "resource", None)
    assert np.isnan(peak_memory._resident_peak())


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
