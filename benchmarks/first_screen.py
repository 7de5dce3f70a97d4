"""Pictures of the site's first screen: two million rows, an interval, and error against seconds.

python benchmarks/first_screen.py [--draw]

The first two are measured here, into results/first_screen.json; the third shows stored lines of
``learning_curves.py`` and ``tables.py --full``. With --draw the island and the interval stay as they are.
Each picture is narrow, so that its letters can be read on a telephone.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
RESULT, FIGURES = HERE / "results" / "first_screen.json", HERE.parent / "docs" / "figures"
ROWS, MEMORY, SET = 2_000_000, "300MB", "diamonds"
#: Inches, dots an inch and points of letters: 14 pixels a letter where a picture is 340 pixels wide.
WIDTH, DPI, LETTERS = 4.2, 160, 12


def save(figure, name: str) -> None:
    figure.savefig(FIGURES / f"first_{name}.png", dpi=DPI, metadata={"Software": None})


def island(plt) -> dict[str, object]:
    """Learn the island of the demo, and draw what was measured, what was learned, and the truth."""
    import numpy as np

    from gramian import demo

    with tempfile.TemporaryDirectory() as folder:
        lines = demo.show_island(ROWS, MEMORY, Path(folder))
        places, heights = (np.load(Path(folder) / f"{name}.npy") for name in ("places", "heights"))
        learned = np.load(Path(folder) / "learned.npy")
    true, side = demo.height(demo.grid()), demo.SIDE
    column, row = (places * side).astype(int).clip(0, side - 1).T
    single = np.full((side, side), np.nan)
    single[row, column] = heights
    figure, axes = plt.subplots(1, 3, figsize=(WIDTH, 1.8), layout="constrained")
    most = float(np.abs(true).max())
    for ax, values, title in zip(
        axes, (single, learned, true), ("measured", "learned", "truth"), strict=True
    ):
        ax.imshow(values.reshape(side, side), origin="lower", cmap="terrain", vmin=-0.6 * most, vmax=most)
        ax.set_title(title)
        ax.set_axis_off()
    save(figure, "rows")
    return {
        "rows": ROWS,
        "seconds": float(re.search(r"in ([\d.]+) s", lines[0])[1]),
        "megabytes": float(re.search(r"process (\d+) MB", lines[1])[1]),
        "rmse": float(re.search(r"truth ([\d.]+)", lines[2])[1]),
        "noise": demo.HEIGHT_NOISE,
    }


def interval(plt) -> dict[str, object]:
    """Draw the 90 % interval of rows whose noise grows along a column, and count what it holds."""
    import numpy as np

    import gramian as gm

    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 3000)
    y = 3.0 * np.sin(x) + (0.1 + 0.2 * x) * rng.standard_normal(3000)
    model = gm.TabularRegressor(random_state=0).fit(x[:1000, None], y[:1000])
    low, high = model.predict_interval(x[1000:, None], 0.9).T
    inside = (low <= y[1000:]) & (y[1000:] <= high)
    figure, ax = plt.subplots(figsize=(WIDTH, 3.2), layout="constrained")
    line = np.linspace(0, 10, 300)[:, None]
    ax.fill_between(line[:, 0], *model.predict_interval(line, 0.9).T, color="#9fc3e8", label="90 % interval")
    ax.plot(line, model.predict(line), color="#0060a8", label="prediction")
    ax.plot(x[1000:1400], y[1000:1400], ".", color="#2b2b2b", markersize=2.5, label="new rows")
    ax.set_xlabel("a column of a made-up table")
    ax.set_ylabel("target")
    ax.legend(frameon=False, fontsize=LETTERS - 1, loc="upper left")
    save(figure, "interval")
    return {"training rows": 1000, "new rows": 2000, "held": float(inside.mean())}


def curve(plt) -> None:
    """Draw error against seconds to fit, for more and more of a table's rows, from stored lines."""
    figure, ax = plt.subplots(figsize=(WIDTH, 3.2), layout="constrained")
    texts = [
        text
        for name in ("learning_curves", "tables_full")
        for text in (HERE / "results" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    lines = {
        (line["set"], line["method"], line["n_train"]): line
        for line in map(json.loads, texts)
        if "error" in line
    }
    for method, name, colour, mark in (
        ("gramian", "gramian", "#0060a8", "o"),
        ("catboost", "CatBoost", "#c05000", "s"),
    ):
        own = sorted(
            (rows, line["fit_seconds"], line["error"])
            for (of, by, rows), line in lines.items()
            if (of, by) == (SET, method)
        )
        rows, seconds, errors = zip(*own, strict=True)
        ax.plot(seconds, errors, mark, color=colour, linestyle="-", label=name)
        for at in (0, -1):
            place = {
                "xytext": (0, 9 if at == 0 else -18),
                "textcoords": "offset points",
                "ha": "center",
                "fontsize": LETTERS - 2,
            }
            ax.annotate(f"{rows[at]:,} rows", (seconds[at], errors[at]), **place)
    ax.set_xscale("log")
    ax.set_xticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    ax.minorticks_off()
    ax.margins(0.16, 0.14)
    ax.set_xlabel("seconds to fit, 2 threads")
    ax.set_ylabel("RMSE / deviation")
    ax.legend(frameon=False)
    save(figure, "curve")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draw", action="store_true", help="the curve alone, from stored lines")
    options = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from suite.machine import describe

    plt.rcParams.update({"font.size": LETTERS, "axes.spines.top": False, "axes.spines.right": False})
    curve(plt)
    if not options.draw:
        found = {"island": island(plt), "interval": interval(plt), "machine": describe(os.cpu_count() or 1)}
        RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
