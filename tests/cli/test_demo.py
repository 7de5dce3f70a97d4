"""The demo, small: the tables it prints, the files it leaves, its memory meter."""

from __future__ import annotations

import re
import subprocess
import sys
import time

import numpy as np
import pytest

from gramian import demo
from gramian.comparison import PeakMemory, peak_memory
from gramian.demo import _arguments, digits, flats
from gramian.demo.results import Result, in_own_process, table
from gramian.exceptions import GramianError, InputError, MissingPackageError

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
    assert done.stderr == ""
    return done.stdout, out / "new" / "folder"


@pytest.mark.slow
def test_table(printed):
    text, _ = printed
    rows = [match.groupdict() for match in map(LINE.match, text.splitlines()) if match]
    of_table, of_digits = rows[:3], rows[3:]
    assert [row["model"].split()[0] for row in of_digits] == ["gramian", "Nystroem(1000)", "SVC"]
    ours, nystroem, svc = (float(row["score"]) for row in of_digits)
    assert min(ours, nystroem, svc) > 0.9
    assert ours > nystroem - 0.01
    assert [row["model"].split()[0] for row in of_table] == [
        "gramian",
        "HistGradientBoostingRegressor",
        "Nystroem(1000)",
    ]
    ours, boosting, nystroem = (float(row["score"]) for row in of_table)
    assert flats.NOISE < ours < min(boosting, nystroem)
    assert {row["rows"] for row in rows} == {"3,200"}
    assert all(float(row["peak"].split()[0]) > 0 for row in rows)


@pytest.mark.slow
def test_steps_are_told(printed):
    text, out = printed
    for words in (
        "Making 4,000 flats of 10 columns, words and gaps among them",
        "800 held-out flats",
        "it looks at",
        "3,200 to train on, 800 held out",
        "within 300MB",
        "Nystroem + RidgeClassifier on the same rows",
        "exact SVC on 3,200",
        "MEKA holds 3,200² entries (81.9 MB)",
        "forest of 300 trees",
        "gm.compress(forest, cost='2us')",
        str(out / "gram.png"),
    ):
        assert words in text


@pytest.mark.slow
def test_files(printed):
    _, out = printed
    X, y = np.load(out / "train.npy", mmap_mode="r"), np.load(out / "train_labels.npy")
    assert (X.shape, X.dtype, y.shape) == ((3200, 64), np.uint8, (3200,))
    assert np.load(out / "test.npy", mmap_mode="r").shape == (800, 64)
    assert (out / "flats.csv").read_text(encoding="utf-8").count("\n") == 4001
    assert (out / "gram.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_fast_forest_is_as_good_and_much_faster(printed):
    text, _ = printed
    found = re.findall(r"accuracy ([\d.]+) +([\d.]+) µs a row", text)
    (slow, slow_time), (fast, fast_time) = (map(float, one) for one in found)
    assert fast > slow - 0.03
    assert fast_time < 0.5 * slow_time


def test_no_original_on_both_sides(tmp_path, monkeypatch):
    used = []
    real = digits.make_digits

    def watched(path, n_rows, *, originals, random_state):
        made = real(path, n_rows, originals=originals, random_state=random_state)
        assert set(made.source) <= set(originals)
        used.append(set(originals))
        return made

    monkeypatch.setattr(digits, "make_digits", watched)
    digits.make_rows(tmp_path, 1000)
    train, test = used
    assert not train & test
    assert train | test == set(range(1797))


def test_a_small_budget_lowers_the_sizes(tmp_path):
    digits.make_rows(tmp_path, 3000)
    roomy = demo.work("gramian", 3000, "300MB", tmp_path)
    tight = demo.work("gramian", 3000, "15MB", tmp_path)
    assert roomy.note != tight.note
    assert min(roomy.score, tight.score) > 0.85


@pytest.mark.slow
def test_errors(tmp_path, capfd):
    with pytest.raises(InputError, match=r"rows=10 is too few: the demo needs at least 500"):
        demo.main(10, out=tmp_path)
    with pytest.raises(InputError, match="is not a size"):
        demo.main(1000, "much", tmp_path)
    assert demo.run(["--rows", "10", "--out", str(tmp_path)]) == 2
    assert "error: rows=10 is too few" in capfd.readouterr().err
    digits.make_rows(tmp_path, 2500)
    with pytest.raises(GramianError, match=r"worker 'gramian' ended with exit status 2"):
        in_own_process("gramian", 2500, "1MB", tmp_path)
    assert "memory_budget=1 MB is too small" in capfd.readouterr().err


def test_without_matplotlib_the_table_still_comes(tmp_path, monkeypatch, capsys):
    def missing(out):
        raise MissingPackageError("Run: pip install 'gramian[plot]'")

    monkeypatch.setattr(digits, "draw", missing)
    monkeypatch.setattr(
        demo, "in_own_process", lambda name, rows, memory, out: Result(name, 1, 0.5, 1.0, 2.0, 3e6, "a note")
    )
    monkeypatch.setattr(demo.forest, "made_fast", lambda out: ["a fast forest"])
    demo.main(500, out=tmp_path)
    text = capsys.readouterr().out
    assert "no picture: Run: pip install 'gramian[plot]'" in text
    assert "  a note\n" in text
    assert "nystroem     1    0.5000  1.0 s    2.0 s         3 MB" in text


def test_table_is_aligned_and_admits_what_it_does_not_know():
    lines = table(
        [
            Result("a", 1000, 0.98765, 1.25, 0.05, 2.5e8),
            Result("longer", 5, 15.0, 100.0, 20.0, float("nan")),
        ],
        "error",
    ).splitlines()
    assert lines[0].split()[:3] == ["model", "rows", "error"]
    assert lines[3].split()[:3] == ["longer", "5", "15.00"]
    assert len({len(line) for line in lines}) == 1
    assert lines[2].split() == ["a", "1,000", "0.9877", "1.2", "s", "0.1", "s", "250", "MB"]
    assert lines[3].endswith("unknown")


def test_arguments():
    options = _arguments([])
    assert (options.rows, options.memory, str(options.out)) == (200_000, "300MB", "demo-output")
    assert options.worker is None


def test_peak_memory_sees_what_was_freed():
    with PeakMemory() as memory:
        block = np.ones(8_000_000)
        time.sleep(20 * peak_memory.SAMPLING)
        del block
    assert 50e6 < memory.growth < 120e6


def test_peak_memory_leaves_out_mapped_files(tmp_path):
    np.save(tmp_path / "big.npy", np.ones(8_000_000, np.uint8))
    mapped = np.load(tmp_path / "big.npy", mmap_mode="r")
    with PeakMemory() as memory:
        assert int(mapped.sum(dtype=np.int64)) == 8_000_000
    if peak_memory._anonymous() is not None:
        assert memory.growth < 4e6


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
