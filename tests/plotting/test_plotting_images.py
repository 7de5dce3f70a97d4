"""Each display, with numbers made here, looks as its picture in tests/plotting/images does.

The pictures have lines, marks, bands and ticks, but no words. To draw them anew, run this file: ``python
tests/plotting/test_plotting_images.py``, and look at them before they are committed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.testing.compare import compare_images
from matplotlib.text import Text
from PIL import Image

from gramian import plotting

IMAGES = Path(__file__).parent / "images"
#: Root mean square over the pixels, of 255: above what few colours and other releases of matplotlib change
#: (4, from 3.8 to 3.11, and 14 where cells of a matrix end a pixel earlier), and below what a picture loses
#: with what is drawn in it (13 and more, and 64).
TOLERANCE = dict.fromkeys(
    ("spectrum", "error_memory", "alpha_path", "frontier", "posterior", "importance", "learning"), 7.0
)
TOLERANCE["gram"] = 20.0
COLOURS = 128
STYLE = {"savefig.dpi": 48, "figure.dpi": 100}


def gram():
    rng = np.random.default_rng(0)
    labels = np.sort(rng.integers(0, 4, 24))
    rows = labels + 0.2 * rng.standard_normal(24)
    order = rng.permutation(24)
    K = np.exp(-((rows[:, None] - rows) ** 2))[np.ix_(order, order)]
    values, vectors = np.linalg.eigh(K)
    close = (vectors[:, -4:] * values[-4:]) @ vectors[:, -4:].T
    return plotting.GramDisplay(K, close, labels[order], name="MEKA")


def spectrum():
    exact = 0.7 ** np.arange(100.0)
    close = exact[:30] * np.r_[np.ones(20), np.linspace(1, 0.05, 10)]
    return plotting.SpectrumDisplay(exact, close, alpha=1e-3, rank=30, n_all=5000, name="Nystrom")


def error_memory():
    sizes = np.array([1.0, 2.0, 4.0]) * 1e5
    return plotting.ErrorMemoryDisplay(
        np.repeat(["MEKA", "Nystrom", "RandomFourier"], 3),
        np.concatenate([sizes, 1.3 * sizes, sizes]),
        errors := np.array([0.05, 0.02, 0.006, 0.03, 0.012, 0.005, 0.3, 0.2, 0.14]),
        low=0.8 * errors,
        high=1.25 * errors,
        n_rows=3000,
    )


def alpha_path():
    alphas = np.logspace(-4, 2, 9)
    curves = [0.1 * (1 + 0.3 * (np.log10(alphas) - best) ** 2) for best in (-3.0, -1.0, 1.0)]
    return plotting.AlphaPathDisplay(
        alphas,
        -np.column_stack(curves) * [1.2, 1.0, 1.5],
        (4, 1),
        gammas=[0.1, 1.0, 10.0],
        standard_errors=np.full((9, 3), 0.01),
        degrees_of_freedom=np.outer(np.linspace(60, 4, 9), [1.0, 2.0, 3.0]),
        n_rows=[3000, 3000, 1000],
    )


def frontier():
    names = [f"method {letter}" for letter in "ABCDEFGHIJ"]
    rng = np.random.default_rng(3)
    cost = 10 ** (rng.uniform(-1, 1.5, (10, 1)) + np.array([0.0, 0.5, 1.0]))
    error = 10 ** (rng.uniform(-1.7, -0.7, (10, 1)) - np.array([0.0, 0.15, 0.25]))
    return plotting.FrontierDisplay(
        names, cost, error, cost_name="Time to fit", error_name="Misclassified", cost_unit="s", error_unit="%"
    )


def posterior():
    rng = np.random.default_rng(0)
    grid = np.linspace(-0.5, 10.5, 100)
    rows = np.concatenate([rng.uniform(0, 4, 30), rng.uniform(6.5, 10, 20)])
    return plotting.PosteriorDisplay(
        grid,
        np.sin(grid),
        0.05 + 0.3 * np.exp(-((grid - 5.2) ** 2)),
        rows=rows,
        targets=np.sin(rows) + 0.1 * rng.standard_normal(50),
        samples=np.sin(grid)[:, None] + 0.3 * np.exp(-((grid - 5.2) ** 2))[:, None] * [-0.8, 0.5],
        feature_name="age",
        fixed="income = 3",
    )


def importance():
    shares = 0.7 ** np.arange(12.0)
    return plotting.ImportanceDisplay(shares[::-1] / shares.sum(), n_features=9)


def learning():
    ends = np.array([1.0, 0.03, *np.logspace(0, 3, 10)])
    start = np.full(12, 10.0)
    values = start * (ends / start) ** np.array([[0.5], [0.9], [1.1], [1.0]])
    return plotting.LearningDisplay(
        values,
        [500, 2000, 3000, 3000],
        2,
        names=["signal variance", "noise", *(f"lengthscale[{i}]" for i in range(10))],
        losses=[0.5, 0.4, 0.3, 0.31],
        starts=values[0] * np.array([[1.0], [1.5], [0.4]]),
        start_losses=[0.5, 0.6, 0.7],
    )


MAKERS = (gram, spectrum, error_memory, alpha_path, frontier, posterior, importance, learning)
CASES = {make.__name__: make for make in MAKERS}


def drawn(name):
    # Margins are fixed, and sizes whole pixels, which releases round to one side or the other.
    panels = 3 if name == "gram" else 1
    figure, axes = plt.subplots(1, panels, figsize=(4.0 * panels, 4.5) if panels > 1 else (7.0, 4.5))
    figure.subplots_adjust(left=0.1, right=0.95, bottom=0.12, top=0.82, wspace=0.3)
    return CASES[name]().plot(axes)


def save(display, path):
    # Without words, which no two releases set alike; the other tests read them.
    for text in display.figure_.findobj(Text):
        text.set_visible(False)
    # And without a word of the release that drew it, so that the same picture is the same file.
    display.figure_.savefig(path, metadata={"Software": None})
    plt.close(display.figure_)


@pytest.fixture(autouse=True)
def style():
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield
    plt.close("all")


@pytest.mark.parametrize("name", CASES)
def test_picture(name, tmp_path):
    path = tmp_path / f"{name}.png"
    save(drawn(name), path)
    difference = compare_images(str(IMAGES / path.name), str(path), TOLERANCE[name])
    script = Path("tests", "plotting", Path(__file__).name)
    assert difference is None, f"{difference} If the change is meant, run python {script}."


@pytest.mark.parametrize("name", CASES)
def test_a_picture_without_its_artists_is_another(name, tmp_path):
    display = drawn(name)
    for ax in display.figure_.axes:
        for artist in [*ax.lines, *ax.collections, *ax.images, *ax.patches]:
            artist.set_visible(False)
    path = tmp_path / f"{name}.png"
    save(display, path)
    assert compare_images(str(IMAGES / path.name), str(path), TOLERANCE[name]) is not None


if __name__ == "__main__":
    matplotlib.rcParams.update(STYLE)
    IMAGES.mkdir(exist_ok=True)
    for name in CASES:
        path = IMAGES / f"{name}.png"
        save(drawn(name), path)
        Image.open(path).convert("RGB").quantize(COLOURS).save(path, optimize=True)
