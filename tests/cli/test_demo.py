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
from gramian.demo import _arguments, flats, forest, island
from gramian.demo.results import Result, in_own_process, table
from gramian.exceptions import GramianError, InputError, MissingPackageError
from gramian.reporting.drawing import Picture

pytest.importorskip("matplotlib").use("Agg")

LINE = re.compile(
    r"^(?P<model>.+?)  +(?P<rows>[\d,]+)  +(?P<score>[\d.]+)( +[\d.]+ s){2}  +(?P<peak>[\d.]+ \w?B)$"
)


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "gramian.demo", "--rows", "4000", "--out", str(out / "new" / "folder")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    return done.stdout, out / "new" / "folder"


@pytest.mark.slow
def test_table(printed):
    text, _ = printed
    rows = [match.groupdict() for match in map(LINE.match, text.splitlines()) if match]
    assert [row["model"].split()[0] for row in rows] == ["gramian", "HistGradientBoostingRegressor"]
    ours, boosting = (float(row["score"]) for row in rows)
    assert flats.NOISE < ours < boosting
    assert {row["rows"] for row in rows} == {"3,200"}
    assert all(float(row["peak"].split()[0]) > 0 for row in rows)


@pytest.mark.slow
def test_steps_are_told(printed):
    text, out = printed
    for words in (
        "4,000 flats of 10 columns",
        "800 held-out flats",
        "it looks at",
        "90 % intervals hold",
        "forest of 300 trees",
        "gm.compress(forest, n_units=96, …)",
        "4,000 rows in 300MB",
        "4,000 rows learned in",
        "their Gram matrix would be 128 MB",
        f"python {out / island.SCRIPT} 300MB",
        str(out / "demo.html"),
    ):
        assert words in text


@pytest.mark.slow
def test_files(printed):
    _, out = printed
    places, heights = np.load(out / "places.npy", mmap_mode="r"), np.load(out / "heights.npy")
    assert (places.shape, places.dtype, heights.shape) == ((4000, 2), np.float32, (4000,))
    assert (out / "flats.csv").read_text(encoding="utf-8").count("\n") == 4001
    page = Page((out / "demo.html").read_text(encoding="utf-8"))
    page.assert_self_contained()
    assert page.elements.count("figure") == 5


@pytest.mark.slow
def test_the_forest_and_its_fast_copy_are_scored(printed):
    """How fast the copy is depends on the machine, how good it is does not: its sizes are given."""
    text, _ = printed
    found = re.findall(r"accuracy ([\d.]+) +([\d,]+) ns a row", text)
    (slow, slow_time), (fast, fast_time) = ((float(a), float(t.replace(",", ""))) for a, t in found)
    assert 0.8 < slow < 0.92 < fast
    assert min(slow_time, fast_time) > 0


def test_no_original_on_both_sides(tmp_path, monkeypatch):
    used = []
    real = forest.make_digits

    def watched(path, n_rows, *, originals, random_state):
        made = real(path, 100, originals=originals, random_state=random_state)
        assert set(made.source) <= set(originals)
        used.append(set(originals))
        return made

    monkeypatch.setattr(forest, "make_digits", watched)
    (rows, labels), (test, _) = forest.make_rows(tmp_path)
    assert rows.shape == test.shape == (100, 64)
    assert len(labels) == 100
    train, held = used
    assert not train & held
    assert train | held == set(range(1797))


@pytest.mark.slow
def test_the_island_is_learned_from_noisy_measurements(tmp_path):
    island.make(tmp_path, 20_000)
    found = island.learn(tmp_path, "2GB")
    assert found.rows == 20_000
    assert 0.0 < found.error < 0.8 * island.NOISE
    assert 10e6 < found.before <= found.peak
    assert len(island.pictures(tmp_path)) == 3
    heights = np.load(tmp_path / "heights.npy")
    errors = heights - island.height(np.load(tmp_path / "places.npy"))
    assert 0.9 * island.NOISE < errors.std() < 1.1 * island.NOISE


@pytest.mark.slow
def test_a_limit_that_python_alone_exceeds_is_told(tmp_path, capfd):
    island.make(tmp_path, 1000)
    with pytest.raises(GramianError, match=r"two_million.py ended with exit status 1.*raise --memory"):
        island.learn(tmp_path, "5MB")
    assert "--memory 1 B is too small" in capfd.readouterr().err


@pytest.mark.promise
def test_two_million_rows_take_300_megabytes(tmp_path):
    island.make(tmp_path, 2_000_000)
    found = island.learn(tmp_path, "300MB")
    assert found.peak < 300e6
    assert found.error < 0.3 * island.NOISE


@pytest.mark.slow
def test_errors(tmp_path, capfd):
    with pytest.raises(InputError, match=r"rows=10 is too few: the demo needs at least 500"):
        demo.main(10, out=tmp_path)
    with pytest.raises(InputError, match="is not a size"):
        demo.main(1000, "much", tmp_path)
    assert demo.run(["--rows", "10", "--out", str(tmp_path)]) == 2
    assert "error: rows=10 is too few" in capfd.readouterr().err
    with pytest.raises(GramianError, match=r"worker 'table' ended with exit status 2"):
        in_own_process("table", 2500, "1KB", tmp_path)
    assert "error: " in capfd.readouterr().err


@pytest.fixture
def quick(monkeypatch):
    """Make the parts of the demo return at once."""
    monkeypatch.setattr(
        demo, "in_own_process", lambda name, rows, memory, out: Result(name, 1, 0.5, 1.0, 2.0, 3e6, "a note")
    )
    speeds = [forest.Speed("slow", 0.9, 5000.0, 1.0), forest.Speed("fast", 0.91, 50.0, 2.0)]
    monkeypatch.setattr(forest, "made_fast", lambda out: speeds)
    learned = island.IslandReport(2_000_000, 4.0, 2e8, 2.7e8, 0.07)
    monkeypatch.setattr(island, "learn", lambda out, memory: learned)
    monkeypatch.setattr(island, "pictures", lambda out: [Picture("Learned", "A map.", "data:,")])


def test_the_page_shows_the_three_parts(tmp_path, capsys, quick):
    demo.main(500, out=tmp_path)
    text = capsys.readouterr().out
    page = Page((tmp_path / "demo.html").read_text(encoding="utf-8"))
    page.assert_self_contained()
    for told in (
        "A table with categories",
        "A slow model made fast",
        "100 times as fast",
        "peak memory of the process 270 MB",
        "32 TB",
    ):
        assert told in page.text
        assert told in text
    assert "a note" in page.text
    assert page.elements.count("figure") == 3
    assert "  a note\n" in text
    assert re.search(r"^table boosting +1 +0.5000 +1.0 s +2.0 s +3 MB$", text, re.M)


def test_without_matplotlib_the_text_still_comes(tmp_path, monkeypatch, capsys, quick):
    def missing(out):
        raise MissingPackageError("Run: pip install 'gramian[plot]'")

    monkeypatch.setattr(island, "pictures", missing)
    demo.main(500, out=tmp_path)
    text = capsys.readouterr().out
    assert "No page with pictures: Run: pip install 'gramian[plot]'" in text
    assert "2,000,000 rows learned in 4.0 s" in text


def test_table_is_aligned_and_admits_what_it_does_not_know():
    lines = table(
        [Result("a", 1000, 0.98765, 1.25, 0.05, 2.5e8), Result("longer", 5, 15.0, 100.0, 20.0, float("nan"))],
        "error",
    ).splitlines()
    assert lines[0].split()[:3] == ["model", "rows", "error"]
    assert lines[3].split()[:3] == ["longer", "5", "15.00"]
    assert len({len(line) for line in lines}) == 1
    assert lines[2].split() == ["a", "1,000", "0.9877", "1.2", "s", "0.1", "s", "250", "MB"]
    assert lines[3].endswith("unknown")


def test_arguments():
    options = _arguments([])
    assert (options.rows, options.memory, str(options.out)) == (2_000_000, "300MB", "demo-output")
    assert options.worker is None


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
    X, y = flats.make_flats(3000)
    again, prices = flats.make_flats(3000)
    assert X.tolist() == again.tolist()
    np.testing.assert_array_equal(y, prices)
    gaps = np.equal(X, None).mean(axis=0)
    np.testing.assert_allclose(gaps[[1, 7]], 0.1, atol=0.03)
    assert gaps.sum() == gaps[1] + gaps[7]
    lift, floor = X[:, 8].astype(bool), X[:, 2].astype(float)
    slope = [np.polyfit(floor[side], y[side], 1)[0] for side in (lift, ~lift)]
    assert slope[0] > 2 > -2 > slope[1]
    assert abs(np.corrcoef(X[:, 5].astype(float), y)[0, 1]) < 0.05


def test_the_file_of_flats_is_what_the_workers_learn(tmp_path):
    frames = pytest.importorskip("pyarrow.csv")
    flats.write_csv(tmp_path / "flats.csv", 600)
    read = frames.read_csv(tmp_path / "flats.csv")
    assert read.schema.names == [*flats.COLUMNS, "price"]
    data = flats.Flats.made(600)
    assert (len(data.y), len(data.y_test)) == (480, 120)
    np.testing.assert_array_equal(read["price"].to_numpy()[:480], data.y)
    assert read["town"].to_pylist()[480:] == data.X_test[:, 6].tolist()
