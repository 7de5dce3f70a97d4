"""Shared parts of all displays: palette under colour blindness, tick labels, names that do not overlap."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import numpy as np
import pytest

from gramian.exceptions import InputError, MissingPackageError

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot as plt

import gramian as gm
from gramian import plotting
from gramian.plotting.canvas import (
    COLOURS,
    MARK_SIZES,
    MARKS,
    checked_unit,
    colour_and_mark,
    padded,
    scale_axis,
    text_of,
)

#: Linear RGB as a dichromat sees it (Machado, Oliveira and Fernandes 2009, severity 1).
SIGHTS = {
    "trichromat": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def oklab(linear):
    """Ottosson's OKLab, where a distance of 2 is just seen."""
    to_cones = [[0.41222, 0.53633, 0.05145], [0.21190, 0.68070, 0.10740], [0.08830, 0.28172, 0.62998]]
    to_lab = [[0.21045, 0.79362, -0.00407], [1.97800, -2.42859, 0.45059], [0.02590, 0.78277, -0.80868]]
    return 100.0 * np.cbrt(np.clip(linear, 0, 1) @ np.transpose(to_cones)) @ np.transpose(to_lab)


@pytest.mark.parametrize("sight", SIGHTS)
def test_colours_differ_for_all_eyes(sight):
    values = np.array([matplotlib.colors.to_rgb(colour) for colour in COLOURS])
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    seen = oklab(linear @ np.transpose(SIGHTS[sight]))
    distances = np.linalg.norm(seen[:, None] - seen, axis=2)[np.triu_indices(len(COLOURS), 1)]
    assert distances.min() > 9.0


def contrast_on_white(colour):
    values = np.array(matplotlib.colors.to_rgb(colour))
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    return 1.05 / (linear @ [0.2126, 0.7152, 0.0722] + 0.05)


def test_colours_stand_out_on_white():
    assert len(COLOURS) == len(MARKS) == len(MARK_SIZES) == 10
    assert contrast_on_white("#777777") == pytest.approx(4.478, abs=1e-3)  # the textbook's grey
    for colour in COLOURS:
        assert contrast_on_white(colour) >= 2.99
    assert len({colour_and_mark(k) for k in range(100)}) == 100


def test_texts_of_ticks():
    assert [text_of(v, "s") for v in (0.0, 3e-9, 1e-3, 0.9999, 60.0, 7200.0)] == [
        "0",
        "3 ns",
        "1 ms",
        "1 s",
        "60 s",
        "7,200 s",
    ]
    assert [text_of(v) for v in (0.0, -0.5, 1e-5, 2e-5, 12345.0, 3e7)] == [
        "0",
        "−0.5",
        "10⁻⁵",
        "2·10⁻⁵",
        "12,345",
        "3·10⁷",
    ]
    assert (text_of(0.05, "%"), text_of(2e9, "B")) == ("5 %", "2 GB")
    with pytest.raises(InputError, match=r"cost_unit='sec' is unknown. Choose 's' for seconds"):
        checked_unit("cost_unit", "sec")


@pytest.mark.parametrize(
    ("limits", "log", "unit", "expected"),
    [
        ((0.045, 0.085), True, "%", ["5 %", "6 %", "7 %", "8 %"]),
        ((0.008, 0.3), True, "", ["0.01", "0.02", "0.05", "0.1", "0.2"]),
        ((1e-3, 2e3), True, "s", ["1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s", "1,000 s"]),
        ((9e-7, 2.0), True, "", ["10⁻⁶", "10⁻⁵", "10⁻⁴", "10⁻³", "10⁻²", "10⁻¹", "1"]),
        ((-1.2, 1.2), False, "", ["−1", "−0.5", "0", "0.5", "1"]),
    ],
)
def test_ticks_fit_their_span(limits, log, unit, expected):
    _, ax = plt.subplots()
    scale_axis(ax, "y", limits, unit=unit, log=log)
    ax.figure.canvas.draw()
    low, high = limits
    seen = [
        text.get_text()
        for at, text in zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
        if low <= at <= high
    ]
    assert seen == expected
    assert ax.get_ylim() == limits


def test_limits_around_one_value():
    low, high = padded(np.array([5.0]), log=True)
    assert low < 5.0 < high
    assert padded(np.array([0.0]), log=False, share=0.5) == (-0.5, 0.5)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_names_of_ten_methods_keep_clear(seed):
    rng = np.random.default_rng(seed)
    start, error = 10 ** rng.uniform(-1, 1.5, (10, 1)), 10 ** rng.uniform(-2, -0.7, (10, 1))
    cost = start * 10 ** (np.arange(3) * 0.5)
    errors = error * 10 ** (-np.arange(3) * rng.uniform(0.05, 0.25, (10, 1)))
    names = [f"method {'abcdefghij'[k] * (3 + k % 5)}" for k in range(10)]
    display = plotting.FrontierDisplay(names, cost, errors, cost_name="Time", error_name="Error").plot()
    display.figure_.canvas.draw()
    legend = display.ax_.get_legend()
    assert sorted(text.get_text() for text in legend.get_texts()) == sorted(names)
    found = [text.get_window_extent() for text in legend.get_texts()]
    frame, page = display.ax_.get_window_extent(), display.figure_.bbox
    for k, box in enumerate(found):
        assert page.containsx(box.x0)
        assert page.containsx(box.x1)
        assert page.containsy(box.y0)
        assert page.containsy(box.y1)
        assert not box.overlaps(frame)
        assert not any(box.overlaps(other) for other in found[:k])


def test_names_stand_in_the_order_of_the_ends():
    cost, error = np.array([1.0, 2.0] * 3), [3.0, 1.0, 4.0, 3.0, 5.0, 2.0]
    display = plotting.ErrorMemoryDisplay(list("aabbcc"), cost, error).plot()
    legend = display.ax_.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["b", "c", "a"]
    colours = [line.get_color() for line in legend.get_lines()]
    assert colours == [display.lines_[k].get_color() for k in (1, 2, 0)]


def test_axes_of_the_caller():
    figure, axes = plt.subplots(1, 2)
    display = plotting.PosteriorDisplay([0, 1], [0, 1], [1, 1])
    assert display.plot(axes[0]).ax_ is axes[0]
    assert display.figure_ is figure
    with pytest.raises(InputError, match=r"ax has 2 axes, but PosteriorDisplay draws on one. Pass one of"):
        display.plot(axes)
    with pytest.raises(InputError, match=r"ax has type str; expected matplotlib axes. Pass one of plt"):
        display.plot("axes")


DRAWN = {
    "AlphaPathDisplay": plotting.AlphaPathDisplay([1, 2], [[-1], [-2]], (0, 0)),
    "ErrorMemoryDisplay": plotting.ErrorMemoryDisplay(["a"], [1.0], [1.0]),
    "ExplanationDisplay": plotting.ExplanationDisplay(
        gm.KernelRidge(alpha=0.1).fit(np.eye(3), [0.0, 1.0, 2.0]).explain(np.eye(3))
    ),
    "FrontierDisplay": plotting.FrontierDisplay(["a"], [1.0], [1.0], cost_name="", error_name=""),
    "GramDisplay": plotting.GramDisplay(np.eye(2), np.eye(2), np.zeros(2, int)),
    "ImportanceDisplay": plotting.ImportanceDisplay([1.0]),
    "LearningDisplay": plotting.LearningDisplay([[1.0]], [500], 0),
    "PosteriorDisplay": plotting.PosteriorDisplay([0, 1], [0, 1], [1, 1]),
    "SpectrumDisplay": plotting.SpectrumDisplay([1.0, 0.5]),
}
MAKERS = {
    "AlphaPathDisplay": lambda d: d.from_estimator(None),
    "ErrorMemoryDisplay": lambda d: d.from_approximations([], None),
    "ExplanationDisplay": lambda d: d.from_estimator(None, None),
    "FrontierDisplay": lambda d: d.from_estimators({}, None, None),
    "GramDisplay": lambda d: d.from_estimator(None, None),
    "ImportanceDisplay": lambda d: d.from_estimator(None),
    "LearningDisplay": lambda d: d.from_estimator(None),
    "PosteriorDisplay": lambda d: d.from_estimator(None, None),
    "SpectrumDisplay": lambda d: d.from_estimator(None, None),
}


@pytest.mark.parametrize("name", plotting.__all__)
def test_without_matplotlib_each_says_how_to_get_it_before_any_work(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = rf"^{name} draws with matplotlib, which is not installed. Run: pip install 'gramian\[plot\]'$"
    with pytest.raises(MissingPackageError, match=text):
        DRAWN[name].plot()
    with pytest.raises(MissingPackageError, match=text):
        MAKERS[name](type(DRAWN[name]))


def test_one_file_imports_matplotlib_and_only_to_draw():
    for path in sorted(Path(plotting.__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        ours = [node for node in imports if "matplotlib" in ast.unparse(node)]
        assert bool(ours) == (path.name == "canvas.py")
        assert not set(ours) & set(tree.body)
