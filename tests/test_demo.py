"""The demo, small: the table it prints, the files it leaves, its memory meter."""

from __future__ import annotations

import re
import subprocess
import sys
import time

import numpy as np
import pytest

from gramian import demo
from gramian.comparison import PeakMemory, peak_memory
from gramian.demo import Result, _arguments, table
from gramian.exceptions import GramianError, InputError, MissingPackageError

pytest.importorskip("matplotlib").use("Agg")

LINE = re.compile(
    r"^(?P<model>.+?)  +(?P<rows>[\d,]+)  +(?P<accuracy>[\d.]+)( +[\d.]+ s){2}  +(?P<peak>[\d.]+ \w?B)$"
)


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "gramian.demo", "--rows", "4000", "--out", str(out / "new" / "folder")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout, out / "new" / "folder"


def test_table(printed):
    text, _ = printed
    rows = [match.groupdict() for match in map(LINE.match, text.splitlines()) if match]
    assert [row["model"].split()[0] for row in rows] == ["gramian", "Nystroem(1000)", "SVC"]
    ours, nystroem, svc = (float(row["accuracy"]) for row in rows)
    assert min(ours, nystroem, svc) > 0.9
    assert ours > nystroem - 0.01
    assert {row["rows"] for row in rows} == {"3,200"}
    assert all(float(row["peak"].split()[0]) > 0 for row in rows)


def test_steps_are_told(printed):
    text, out = printed
    for words in (
        "3,200 to train on, 800 held out",
        "within 300MB",
        "Nystroem + RidgeClassifier on the same rows",
        "exact SVC on 3,200",
        "MEKA holds 3,200² entries (81.9 MB)",
        str(out / "gram.png"),
    ):
        assert words in text


def test_files(printed):
    _, out = printed
    X, y = np.load(out / "train.npy", mmap_mode="r"), np.load(out / "train_labels.npy")
    assert (X.shape, X.dtype, y.shape) == ((3200, 64), np.uint8, (3200,))
    assert np.load(out / "test.npy", mmap_mode="r").shape == (800, 64)
    assert (out / "gram.png").read_bytes().startswith(b"\x89PNG")


def test_no_original_on_both_sides(tmp_path, monkeypatch):
    used = []
    real = demo.make_digits

    def watched(path, n_rows, *, originals, random_state):
        digits = real(path, n_rows, originals=originals, random_state=random_state)
        assert set(digits.source) <= set(originals)
        used.append(set(originals))
        return digits

    monkeypatch.setattr(demo, "make_digits", watched)
    demo.make_rows(tmp_path, 1000)
    train, test = used
    assert not train & test
    assert train | test == set(range(1797))


def test_a_small_budget_lowers_the_sizes(tmp_path):
    demo.make_rows(tmp_path, 3000)
    roomy = demo.work("gramian", "300MB", tmp_path)
    tight = demo.work("gramian", "15MB", tmp_path)
    assert roomy.note != tight.note
    assert min(roomy.accuracy, tight.accuracy) > 0.85


def test_errors(tmp_path, capfd):
    with pytest.raises(InputError, match=r"rows=10 is too few: the demo needs at least 500"):
        demo.main(10, out=tmp_path)
    with pytest.raises(InputError, match="is not a size"):
        demo.main(1000, "much", tmp_path)
    assert demo.run(["--rows", "10", "--out", str(tmp_path)]) == 2
    assert "error: rows=10 is too few" in capfd.readouterr().err
    demo.make_rows(tmp_path, 2500)
    with pytest.raises(GramianError, match=r"worker 'gramian' ended with exit status 2"):
        demo._in_own_process("gramian", "1MB", tmp_path)
    assert "memory_budget=1 MB is too small" in capfd.readouterr().err


def test_without_matplotlib_the_table_still_comes(tmp_path, monkeypatch, capsys):
    def missing(out):
        raise MissingPackageError("Run: pip install 'gramian[plot]'")

    monkeypatch.setattr(demo, "draw", missing)
    monkeypatch.setattr(
        demo, "_in_own_process", lambda name, memory, out: Result(name, 1, 0.5, 1.0, 2.0, 3e6, "a note")
    )
    demo.main(500, out=tmp_path)
    text = capsys.readouterr().out
    assert "no picture: Run: pip install 'gramian[plot]'" in text
    assert "  a note\n" in text
    assert "nystroem     1    0.5000  1.0 s    2.0 s         3 MB" in text


def test_table_is_aligned_and_admits_what_it_does_not_know():
    lines = table(
        [
            Result("a", 1000, 0.98765, 1.25, 0.05, 2.5e8),
            Result("longer", 5, 1.0, 100.0, 20.0, float("nan")),
        ]
    ).splitlines()
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
