"""The demo: a table with categories, a slow model made fast, and two million rows in little memory.

``python -m gramian.demo`` prints what each part did and writes it as a page with pictures, ``demo.html``. All
rows are made up, except that the digits are scikit-learn's bundled images, deformed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from threadpoolctl import threadpool_limits

import gramian as gm
from gramian._budget import format_bytes, parse_bytes
from gramian._files import complete_file
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray
from gramian.comparison.peak_memory import resident
from gramian.comparison.quiet_threads import quiet_children
from gramian.data.datasets import make_digits
from gramian.exceptions import GramianError, InputError, MissingPackageError
from gramian.fast.cost import seconds_per_row
from gramian.plotting.canvas import pyplot
from gramian.reporting.document import Section, code, document
from gramian.reporting.drawing import Picture, draw_svg

#: Least --rows; most flats; fractions of the flats, and of scikit-learn's 1,797 digits, that are kept as new.
LEAST_ROWS, MOST_FLATS, NEW = 500, 5_000, 0.2
#: Standard deviations of the random part of a price, and of the error of a measured height.
PRICE_NOISE, HEIGHT_NOISE = 12.0, 0.5
TREES, DIGITS, NEW_DIGITS = 300, 4_000, 2_000
#: Sizes of the fast copies. Given, so that no clock decides how good they are; the best of six tried by hand.
SIZES = {"n_levels": 0, "n_units": 96, "n_directions": 24}
#: Pixels of a side of the maps; octaves of the terrain, and waves in each.
SIDE, OCTAVES, WAVES = 220, 5, 4


#: Lines that a part of the demo prints, and how to draw it.
Draw = Callable[[], Sequence[Picture]]
Shown = tuple[list[str], Draw]


def main(rows: int = 2_000_000, memory: str = "300MB", out: Path = Path("demo-output")) -> None:
    """Run the demo and print what it finds; about a minute on two quiet cores.

    rows : measurements of the island to make; flats too, 5,000 at most.
    memory : such as ``"300MB"``: of the island's process as a whole, and the working memory of a table's fit.
    out : folder for the rows (12 bytes each) and the page ``demo.html``, made if it does not exist.

    Raises ``InputError`` for fewer than 500 rows or a budget that is no size, ``GramianError`` where the
    island's process ends early (its own message comes first).
    """
    if rows < LEAST_ROWS:
        raise InputError(f"rows={rows} is too few: the demo needs at least {LEAST_ROWS}.")
    parse_bytes(memory)  # report a mistyped budget before the rows are made
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    parts = []
    for title, show in (
        ("A table with categories and missing values: made-up flats", partial(show_table, rows, memory)),
        ("A slow model made fast: deformed copies of bundled digits", show_forest),
        (f"{rows:,} made-up measurements of an island in {memory}", partial(show_island, rows, memory)),
    ):
        print(f"{title} ...", flush=True)
        began = time.perf_counter()
        lines, draw = show(out)
        print("\n".join(f"  {line}" for line in lines) + "\n", flush=True)
        parts.append((title, lines, draw, time.perf_counter() - began))
    try:
        print(f"The same with pictures: {write_page(out / 'demo.html', parts)}")
    except MissingPackageError as missing:
        print(f"No page with pictures: {missing}")


def show_table(rows: int, memory: str, out: Path) -> Shown:
    """Train on the raw table of flats: text, booleans, skewed numbers, missing values."""
    n = min(rows, MOST_FLATS)
    names, X, y = make_flats(n)
    cut, file = n - round(NEW * n), out / "flats.csv"
    cells, head = np.where(X == None, "", X), ",".join((*names, "price"))  # noqa: E711 (by elements)
    np.savetxt(file, np.column_stack([cells, y]), "%s", ",", header=head, comments="", encoding="utf-8")
    # scikit-learn's boosting takes text as codes of categories.
    text = [isinstance(value, str) for value in X[X[:, 6] != None][0]]  # noqa: E711
    codes = [
        np.unique(x.astype(str), return_inverse=True)[1] if is_text else x for x, is_text in zip(X.T, text)
    ]
    default = gm.TabularRegressor(memory_budget=memory, random_state=0)
    errors, lines = [], [f"{cut:,} training rows and {n - cut:,} new rows in {file}; RMSE of the new prices:"]
    for name, model, rows_of in (
        ("gramian, kernel models alone", gm.TabularRegressor(**{**default.get_params(), "include": ()}), X),
        (
            "scikit-learn's boosting alone",
            HistGradientBoostingRegressor(categorical_features=text, random_state=0),
            np.column_stack(codes).astype(float),  # None becomes NaN
        ),
        ("gramian's default: both", default, X),
    ):
        began = time.perf_counter()
        with threadpool_limits(1, user_api="openmp"):  # idle threads of OpenMP would disturb the others
            predicted = model.fit(rows_of[:cut], y[:cut]).predict(rows_of[cut:])
        errors.append(float(np.sqrt(np.mean((predicted - y[cut:]) ** 2))))
        lines.append(f"{name:30} {errors[-1]:6.2f}   {time.perf_counter() - began:6.1f} s")
    low, high = default.predict_interval(X[cut:], 0.9).T
    held, shares = np.mean((low <= y[cut:]) & (y[cut:] <= high)), default.feature_importances_
    looks = ", ".join(f"{names[j]} {shares[j]:.0%}" for j in np.argsort(-shares)[:5])
    lines.append(f"{'the true price, unbeatable':30} {PRICE_NOISE:6.2f}")
    lines.append(f"90 % intervals of the default hold {held:.1%} of the new prices; it looks at {looks}")
    return lines, tuple


def make_flats(n: int, seed: int = 0) -> tuple[tuple[str, ...], Array, Float64Array]:
    """Return names of columns, n flats as objects with None for missing values, and their prices.

    The price per area falls with the distance to the centre, at a rate that depends on the town; houses of
    fifty years are worth less than new and old ones; upper floors are worth more with a lift. The tax and the
    agent have no effect. A tenth of the ages and of the heatings is missing.
    """
    rng = np.random.default_rng(seed)
    towns = ("Bath", "Derby", "Dover", "Exeter", "Hull", "Leeds", "Luton", "Poole", "Truro", "Wells", "York")
    heatings = ("gas", "district", "pump")
    area, age = rng.lognormal(4.3, 0.4, n), rng.uniform(0, 120, n)
    floor, centre, lift = rng.integers(0, 9, n), rng.gamma(2.0, 3.0, n), rng.random(n) < 0.5
    town, heating, agent = (rng.integers(0, count, n) for count in (len(towns), 3, 30))
    level, reach = 1.4 + 1.2 * rng.random(len(towns)), 4.0 + 10.0 * rng.random(len(towns))
    price = level[town] * area * np.exp(-centre / reach[town]) + 35.0 * np.cos(age / 19.0)
    price += np.where(lift, 5.0, -4.0) * floor + 20.0 * (heating == 2) + PRICE_NOISE * rng.standard_normal(n)
    values: dict[str, Any] = {
        "area": area.round(1), "age": age.round(1), "floor": floor, "centre": centre.round(2),
        "tax": rng.lognormal(5.0, 1.0, n).round(2), "town": np.asarray(towns, object)[town],
        "heating": np.asarray(heatings, object)[heating], "lift": lift,
        "agent": [f"agent {k}" for k in agent],
    }  # fmt: skip
    X = np.empty((n, len(values)), object)
    for j, (name, column) in enumerate(values.items()):
        X[:, j] = column
        if name in ("age", "heating"):
            X[rng.random(n) < 0.1, j] = None
    return tuple(values), X, price.round(1)


def show_forest(out: Path) -> Shown:
    """Make a slow model of the digits fast, with the labels and without."""
    (X, y), (new, truth) = split_digits(out)
    lines = [f"{len(X):,} training rows and {len(new):,} new rows; no image is copied to both sides"]

    def told(name: str, make: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        model = make()
        seconds, right = time.perf_counter() - began, np.mean(model.predict(new) == truth)
        nanoseconds = 1e9 * seconds_per_row(model.predict, new)
        lines.append(f"{name:37} accuracy {right:.4f}  {nanoseconds:9,.0f} ns a row  made in {seconds:.1f} s")
        return model

    forest = told(f"forest of {TREES} trees", lambda: RandomForestClassifier(TREES, random_state=0).fit(X, y))
    told("gm.compress(forest, X, y, n_units=96)", lambda: gm.compress(forest, X, y, **SIZES, random_state=0))
    told("gm.compress(forest, X, n_units=96)", lambda: gm.compress(forest, X, **SIZES, random_state=0))
    lines += [
        "The copy with y learned the labels too; the other one learned the forest's answers alone.",
        f"A row's time is that of predict in Python, for batches of {len(new):,} rows on one thread.",
    ]
    return lines, tuple


def split_digits(out: Path) -> list[tuple[Array, IntArray]]:
    """Return training and new digits with their labels, made of different images."""
    images = np.random.default_rng(0).permutation(1797)
    cut, file, parts = round(NEW * 1797), out / "digits.npy", []
    for seed, (count, own) in enumerate(((DIGITS, images[cut:]), (NEW_DIGITS, images[:cut]))):
        made = make_digits(file, count, originals=np.sort(own), random_state=seed)
        parts.append((np.array(made.X, np.float32), made.y))
    file.unlink()
    return parts


def show_island(rows: int, memory: str, out: Path) -> Shown:
    """Learn heights from noisy measurements, in a process that stays within ``memory`` as a whole."""
    rng = np.random.default_rng(0)
    places, heights = rng.random((rows, 2), dtype=np.float32), np.empty(rows, np.float32)
    for part in row_slices(rows, 100_000):
        noise = HEIGHT_NOISE * rng.standard_normal(len(places[part]))
        heights[part] = height(places[part]) + noise
    np.save(out / "places.npy", places)
    np.save(out / "heights.npy", heights)
    command = [sys.executable, "-m", "gramian.demo", "--worker", "--memory", memory, "--out", str(out)]
    with quiet_children():
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise GramianError(
            f"The island's process ended with status {done.returncode}; its message is above. Python and "
            f"the libraries take part of the {memory}: raise --memory if they leave too little."
        )
    facts = json.loads(done.stdout.splitlines()[-1])
    true, learned = height(grid()), np.load(out / "learned.npy")
    error = float(np.sqrt(np.mean((learned - true) ** 2)))
    before, peak, gram = (format_bytes(each) for each in (facts["before"], facts["peak"], 8 * rows**2))
    lines = [
        f"{rows:,} rows learned in {facts['seconds']:.1f} s; their Gram matrix would be {gram}",
        f"peak memory of the process {peak}, of which Python and the libraries {before}",
        f"RMSE of the map against the truth {error:.3f}, where one measurement has {HEIGHT_NOISE:g}",
        f"To see it again: python {' '.join(command[1:])}",
    ]

    def draw() -> list[Picture]:
        column, row = np.asarray(places * SIDE, np.intp).clip(0, SIDE - 1).T
        single, most = np.full((SIDE, SIDE), np.nan), float(np.abs(true).max())
        single[row, column] = heights
        found = []
        for values, title, caption in (
            (single, "Measured", f"One measurement for each pixel, of {rows:,}."),
            (learned, "Learned", "The prediction of the kernel model."),
            (true, "Truth", "What the measurements were made from."),
        ):
            figure = pyplot("gramian demo").Figure(figsize=(4.0, 4.0), layout="constrained")
            ax = figure.subplots()
            colours = {"cmap": "terrain", "vmin": -0.6 * most, "vmax": most, "interpolation": "nearest"}
            ax.imshow(values.reshape(SIDE, SIDE), origin="lower", **colours)
            ax.set_axis_off()
            found.append(draw_svg(figure, title, caption))
        return found

    return lines, draw


def height(places: Array) -> Float64Array:
    """Return the true heights at places (n, 2) in the unit square: ridges of five sizes, and sea around."""
    rng = np.random.default_rng(7)
    x, y = np.asarray(places, np.float64).T
    found = 2.5 - 14.0 * ((x - 0.5) ** 2 + (y - 0.5) ** 2)
    for octave in range(OCTAVES):
        for angle, phase in rng.uniform(0.0, 2.0 * np.pi, (WAVES, 2)):
            along = np.cos(angle) * x + np.sin(angle) * y
            found += 0.6**octave * (1.0 - 2.0 * np.abs(np.sin(3.0 * 2.0**octave * along + phase)))
    return found


def grid() -> Float64Array:
    """Return the places of the map's pixels, (pixels, 2), row by row from the south."""
    line = (np.arange(SIDE) + 0.5) / SIDE
    x, y = np.meshgrid(line, line)
    return np.column_stack([x.ravel(), y.ravel()])


def learn_island(memory: str, out: Path) -> None:
    """Learn the rows in ``out`` while this process, with Python and libraries, stays within ``memory``."""
    before = resident("VmRSS")
    places = np.load(out / "places.npy", mmap_mode="r")  # (n, 2); read as they are needed
    heights = np.load(out / "heights.npy", mmap_mode="r")
    began, n_blocks = time.perf_counter(), min(200, max(1, len(places) // 1000))
    model = gm.KernelRidge(
        alpha=1.0,
        gamma=10.0 * n_blocks,  # bumps that are as narrow as the landmarks are dense
        approximation=gm.MultiResolution(root_rank=100, rank=30, n_blocks=n_blocks),
        memory_budget=max(1, int(parse_bytes(memory) - before)),
        random_state=0,
    ).fit(places, heights)
    seconds = time.perf_counter() - began
    np.save(out / "learned.npy", model.predict(grid()))
    print(json.dumps({"seconds": seconds, "before": before, "peak": resident("VmHWM")}))


def write_page(where: Path, parts: Sequence[tuple[str, list[str], Draw, float]]) -> Path:
    """Write the page and return its path. ``MissingPackageError`` without matplotlib."""
    title, subtitle = "gramian: kernel machines on a memory budget", "what the demo did on this machine"
    tiles = [(name, f"{seconds:.0f} s") for name, *_, seconds in parts]
    sections = [Section(name, code("\n".join(lines)), draw()) for name, lines, draw, _ in parts]
    page = document("gramian demo", title, subtitle, tiles, sections, "Written by <code>gramian demo</code>.")
    with complete_file(where) as file:
        file.write(page.encode("utf-8"))
    return where


def run(given: list[str] | None = None) -> int:
    """Run ``python -m gramian.demo`` with these arguments and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m gramian.demo", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000, help="measurements to make (default 2000000)")
    parser.add_argument("--memory", default="300MB", help="of gramian (default 300MB)")
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="folder for rows and page")
    parser.add_argument("--worker", action="store_true", help="learn the island that lies in --out already")
    options = parser.parse_args(given)
    try:
        if options.worker:
            learn_island(options.memory, options.out)
        else:
            main(options.rows, options.memory, options.out)
    except GramianError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(run())
