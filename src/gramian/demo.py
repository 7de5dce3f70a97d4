"""The demo: a table with categories, a slow model made fast, and two million rows in little memory.

``python -m gramian.demo`` prints what each part did and writes it as a page with pictures, ``demo.html``. All
rows are made up, except scikit-learn's images of digits.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

import gramian as gm
from gramian._budget import format_bytes, parse_bytes
from gramian._files import complete_file
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array
from gramian.exceptions import GramianError, InputError, MissingPackageError
from gramian.explanation import Explanation
from gramian.fast.cost import seconds_per_row
from gramian.plotting import ExplanationDisplay
from gramian.reporting.document import Picture, Section, axes, code, document, draw_svg

#: Least --rows; most flats; fraction of the flats and of the digits that is kept as new.
LEAST_ROWS, MOST_FLATS, NEW = 500, 5_000, 0.2
#: Standard deviations of the random part of a price, and of the error of a measured height.
PRICE_NOISE, HEIGHT_NOISE = 12.0, 0.5
#: Trees of the slow model; sizes of the fast copies, given so that no clock decides how good they are.
TREES, SIZES = 300, {"n_levels": 0, "n_units": 96, "n_directions": 24}
#: Pixels of a side of the maps; octaves of the terrain, and waves in each.
SIDE, OCTAVES, WAVES = 220, 5, 4


def main(rows: int = 2_000_000, memory: str = "300MB", out: Path = Path("demo-output")) -> None:
    """Run the demo and print what it finds; about a minute on two quiet cores.

    rows : measurements of the island to make, 500 or more; flats too, 5,000 at most.
    memory : bound on the island's process as a whole, and on the working memory of a table's fit.
    out : folder for the rows (12 bytes each) and the page ``demo.html``, made if it does not exist.
    """
    if rows < LEAST_ROWS:
        raise InputError(f"rows={rows} is too few: the demo needs at least {LEAST_ROWS}.")
    parse_bytes(memory)  # report a mistyped budget before the rows are made
    out.mkdir(parents=True, exist_ok=True)
    why = list[Explanation]()
    parts: dict[str, Callable[[], list[str]]] = {
        "A table with categories and missing values: made-up flats": partial(
            show_table, rows, memory, out, why
        ),
        "A slow model made fast: scikit-learn's images of digits": show_forest,
        f"{rows:,} made-up measurements of an island in {memory}": partial(show_island, rows, memory, out),
    }
    sections = []
    for title, show in parts.items():
        print(f"{title} ...", flush=True)
        lines = "\n".join(show())
        print(indent(lines, "  "), end="\n\n", flush=True)
        sections.append(Section(title, code(lines)))
    try:
        sections[0] = replace(sections[0], pictures=draw_flat(why))
        sections[-1] = replace(sections[-1], pictures=draw_island(out))
    except MissingPackageError as missing:
        print(f"No page with pictures: {missing}")
        return
    title, subtitle = "gramian: kernel machines on a memory budget", "what the demo did on this machine"
    page = document("gramian demo", title, subtitle, (), sections, "Written by <code>gramian demo</code>.")
    with complete_file(out / "demo.html") as file:
        file.write(page.encode("utf-8"))
    print(f"The same with pictures: {out / 'demo.html'}")


def show_table(rows: int, memory: str, out: Path, why: list[Explanation]) -> list[str]:
    """Train on the raw table of flats: text, booleans, skewed numbers, missing values.

    The explanation of the first new flat's price is added to ``why``.
    """
    n = min(rows, MOST_FLATS)
    names, X, y = make_flats(n)
    cut, file = n - round(NEW * n), out / "flats.csv"
    cells, head = np.where(X == None, "", X), ",".join((*names, "price"))  # noqa: E711 (by elements)
    np.savetxt(file, np.column_stack([cells, y]), "%s", ",", header=head, comments="", encoding="utf-8")
    # scikit-learn's boosting takes text as codes of categories.
    codes, text = X.copy(), [isinstance(value, str) for value in X[X[:, 6] != None][0]]  # noqa: E711
    for j in np.flatnonzero(text):
        codes[:, j] = np.unique(X[:, j].astype(str), return_inverse=True)[1]
    boosting = HistGradientBoostingRegressor(categorical_features=text, random_state=0)
    ours = partial(gm.TabularRegressor, memory_budget=memory, random_state=0)
    default = ours()
    lines = [f"{cut:,} training rows and {n - cut:,} new rows in {file}; RMSE of the new prices:"]
    for name, model, rows_of in (
        ("gramian, kernel models alone", ours(include=()), X),
        ("scikit-learn's boosting alone", boosting, codes.astype(float)),  # None becomes NaN
        ("gramian's default: both", default, X),
    ):
        began = time.perf_counter()
        with threadpool_limits(1, user_api="openmp"):  # idle threads of OpenMP would disturb the others
            predicted = model.fit(rows_of[:cut], y[:cut]).predict(rows_of[cut:])
        error = np.sqrt(np.mean((predicted - y[cut:]) ** 2))
        lines.append(f"{name:30} {error:6.2f}   {time.perf_counter() - began:6.1f} s")
    low, high = default.predict_interval(X[cut:], 0.9).T
    held, shares = np.mean((low <= y[cut:]) & (y[cut:] <= high)), default.feature_importances_
    looks = ", ".join(f"{names[j]} {shares[j]:.0%}" for j in np.argsort(-shares)[:5])
    lines.append(f"{'the true price, unbeatable':30} {PRICE_NOISE:6.2f}")
    lines.append(f"90 % intervals of the default hold {held:.1%} of the new prices; it looks at {looks}")
    one = replace(gm.explain(default, X[cut : cut + 1], X_train=X[:cut]), names=names)
    why.append(one)
    assert one.values is not None
    assert one.base is not None
    parts = ", ".join(f"{names[j]} {one.values[0, j]:+.0f}" for j in one.largest_columns(0, 5))
    lines.append(f"the first new flat, {one.prediction[0]:.0f}: base {one.base[0]:.0f}, {parts}, …")
    return lines


def draw_flat(why: list[Explanation]) -> list[Picture]:
    """Return pictures of what the columns add to a price; they need matplotlib."""
    drawn = []
    for one in why:
        figure, ax = axes((6.4, 4.0))
        ExplanationDisplay(one).plot(ax)
        drawn.append(draw_svg(figure, "Why this price", "The first new flat, from the mean prediction on."))
    return drawn


def make_flats(n: int, seed: int = 0) -> tuple[tuple[str, ...], Array, Float64Array]:
    """Return names of columns, n flats as objects with None for missing values, and their prices.

    The tax and the agent have no effect. A tenth of the ages and of the heatings is missing.
    """
    rng = np.random.default_rng(seed)
    towns = ("Bath", "Derby", "Dover", "Exeter", "Hull", "Leeds", "Luton", "Poole", "Truro", "Wells", "York")
    area, age = rng.lognormal(4.3, 0.4, n), rng.uniform(0, 120, n)
    floor, centre, lift = rng.integers(0, 9, n), rng.gamma(2.0, 3.0, n), rng.random(n) < 0.5
    town, heating, agent = (rng.integers(0, count, n) for count in (len(towns), 3, 30))
    level, reach = 1.4 + 1.2 * rng.random(len(towns)), 4.0 + 10.0 * rng.random(len(towns))
    price = level[town] * area * np.exp(-centre / reach[town]) + 35.0 * np.cos(age / 19.0)
    price += np.where(lift, 5.0, -4.0) * floor + 20.0 * (heating == 2) + PRICE_NOISE * rng.standard_normal(n)
    values: dict[str, Any] = {
        "area": area.round(1), "age": age.round(1), "floor": floor, "centre": centre.round(2),
        "tax": rng.lognormal(5.0, 1.0, n).round(2), "town": np.asarray(towns, object)[town],
        "heating": np.asarray(("gas", "district", "pump"), object)[heating], "lift": lift,
        "agent": [f"agent {k}" for k in agent],
    }  # fmt: skip
    X = np.empty((n, len(values)), object)
    for j, (name, column) in enumerate(values.items()):
        X[:, j] = column
        if name in ("age", "heating"):
            X[rng.random(n) < 0.1, j] = None
    return tuple(values), X, price.round(1)


def show_forest() -> list[str]:
    """Make a slow model of the digits fast, with the labels and without."""
    X, new, y, truth = train_test_split(*load_digits(return_X_y=True), test_size=NEW, random_state=0)
    forest = RandomForestClassifier(TREES, random_state=0)
    lines = [f"{len(X):,} training rows and {len(new):,} new rows"]
    for name, make in {
        f"forest of {TREES} trees": lambda: forest.fit(X, y),
        "gm.compress(forest, X, y, n_units=96)": lambda: gm.compress(forest, X, y, **SIZES, random_state=0),
        "gm.compress(forest, X, n_units=96)": lambda: gm.compress(forest, X, **SIZES, random_state=0),
    }.items():
        began = time.perf_counter()
        model = make()
        seconds, right = time.perf_counter() - began, np.mean(model.predict(new) == truth)
        nanoseconds = 1e9 * seconds_per_row(model.predict, new)
        lines.append(f"{name:37} accuracy {right:.4f}  {nanoseconds:9,.0f} ns a row  made in {seconds:.1f} s")
    return [
        *lines,
        "The copy with y learned the labels too; the other one learned the forest's answers alone.",
        f"A row's time is that of predict in Python, for batches of {len(new):,} rows on one thread.",
    ]


def show_island(rows: int, memory: str, out: Path) -> list[str]:
    """Learn heights from noisy measurements, in a process that stays within ``memory`` as a whole."""
    rng = np.random.default_rng(0)
    places, heights = rng.random((rows, 2), dtype=np.float32), np.empty(rows, np.float32)
    for part in row_slices(rows, 100_000):
        heights[part] = height(places[part]) + HEIGHT_NOISE * rng.standard_normal(len(places[part]))
    np.save(out / "places.npy", places)
    np.save(out / "heights.npy", heights)
    command = [sys.executable, "-m", "gramian.demo", memory, str(out)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise GramianError(
            f"The island's process ended with status {done.returncode}; its message is above. Python and "
            f"the libraries take part of the {memory}: raise --memory if they leave too little."
        )
    seconds, *memories = json.loads(done.stdout.splitlines()[-1])
    before, peak = ("unknown" if np.isnan(each) else format_bytes(each) for each in memories)
    error = float(np.sqrt(np.mean((np.load(out / "learned.npy") - height(grid())) ** 2)))
    return [
        f"{rows:,} rows learned in {seconds:.1f} s; their Gram matrix would be {format_bytes(8 * rows**2)}",
        f"peak memory of the process {peak}, of which Python and the libraries {before}",
        f"RMSE of the map against the truth {error:.3f}, where one measurement has {HEIGHT_NOISE:g}",
        f"To see it again: python {' '.join(command[1:])}",
    ]


def draw_island(out: Path) -> list[Picture]:
    """Return maps of what was measured, what was learned, and the truth; they need matplotlib."""
    column, row = np.asarray(np.load(out / "places.npy") * SIDE, np.intp).clip(0, SIDE - 1).T
    single, true = np.full((SIDE, SIDE), np.nan), height(grid())
    single[row, column] = np.load(out / "heights.npy")
    drawn, most = [], float(np.abs(true).max())
    for title, values in (("Measured", single), ("Learned", np.load(out / "learned.npy")), ("Truth", true)):
        figure, ax = axes((4.0, 4.0))
        ax.imshow(values.reshape(SIDE, SIDE), origin="lower", cmap="terrain", vmin=-0.6 * most, vmax=most)
        ax.set_axis_off()
        drawn.append(draw_svg(figure, title, "Heights of the island, one for each pixel."))
    return drawn


def height(places: Array) -> Float64Array:
    """Return the true heights at places (n, 2) in the unit square: ridges of five sizes, and sea around."""
    rng = np.random.default_rng(7)
    x, y = np.asarray(places, np.float64).T
    heights = 2.5 - 14.0 * ((x - 0.5) ** 2 + (y - 0.5) ** 2)
    for octave in range(OCTAVES):
        for angle, phase in rng.uniform(0.0, 2.0 * np.pi, (WAVES, 2)):
            along = np.cos(angle) * x + np.sin(angle) * y
            heights += 0.6**octave * (1.0 - 2.0 * np.abs(np.sin(3.0 * 2.0**octave * along + phase)))
    return heights


def grid() -> Float64Array:
    """Return the places of the map's pixels, (pixels, 2), row by row from the south."""
    y, x = (np.mgrid[:SIDE, :SIDE] + 0.5) / SIDE
    return np.column_stack([x.ravel(), y.ravel()])


def learn_island(memory: str, out: Path) -> None:
    """Learn the rows in ``out`` within ``memory``; print seconds, bytes before the fit, and at most."""
    before = resident("VmRSS")
    # Read as they are needed: (n, 2) and (n,).
    places, heights = (np.load(out / f"{name}.npy", mmap_mode="r") for name in ("places", "heights"))
    began, n_blocks = time.perf_counter(), min(200, max(1, len(places) // 1000))
    model = gm.KernelRidge(
        alpha=1.0,
        gamma=10.0 * n_blocks,  # bumps that are as narrow as the landmarks are dense
        approximation=gm.MultiResolution(root_rank=100, rank=30, n_blocks=n_blocks),
        memory_budget=max(1, int(parse_bytes(memory) - np.nan_to_num(before))),
        random_state=0,
    ).fit(places, heights)
    seconds = time.perf_counter() - began
    np.save(out / "learned.npy", model.predict(grid()))
    print(json.dumps([seconds, before, resident("VmHWM")]))


def resident(name: str) -> float:
    """Return bytes of this process from Linux's /proc: "VmRSS" now, "VmHWM" at most; NaN elsewhere."""
    status = Path("/proc/self/status")
    match = re.search(rf"{name}:\s+(\d+)", status.read_text("ascii", "replace") if status.exists() else "")
    return 1024.0 * int(match[1]) if match else float("nan")


if __name__ == "__main__":
    try:
        main() if len(sys.argv) == 1 else learn_island(sys.argv[1], Path(sys.argv[2]))
    except GramianError as error:
        sys.exit(f"error: {error}")
