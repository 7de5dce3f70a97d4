"""The island of the demo: noisy measurements of heights by the million, learned in little memory."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gramian._budget import format_bytes, parse_bytes
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array
from gramian.demo.results import run_and_read
from gramian.plotting.canvas import pyplot
from gramian.reporting.drawing import Picture, draw_svg

#: Standard deviation of the error of a measurement; the heights themselves have one of about 2.
NOISE = 0.5
#: Pixels of a side of the maps.
SIDE = 220
#: Octaves of the terrain, and waves in each.
OCTAVES, WAVES = 5, 4
SCRIPT = "two_million.py"


@dataclass(frozen=True)
class IslandReport:
    """What the process that learned the island reported of itself."""

    rows: int
    seconds: float
    before: float  #: resident bytes before the rows were opened: Python and the libraries
    peak: float  #: most resident bytes, as the operating system counts them
    error: float  #: root mean squared error of the learned map, in the units of the heights

    @property
    def lines(self) -> list[str]:
        """The report as lines of text."""
        dense = format_bytes(8 * self.rows**2)
        return [
            f"{self.rows:,} rows learned in {self.seconds:.1f} s; their Gram matrix would be {dense}",
            f"peak memory of the process {format_bytes(self.peak)}, of which Python and the libraries "
            f"{format_bytes(self.before)}",
            f"error of the map {self.error:.3f}, where one measurement has {NOISE:g}",
        ]


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


def make(out: Path, rows: int) -> None:
    """Write the places (rows, 2), the measured heights (rows,), 12 bytes a row in all, and the map's grid."""
    rng = np.random.default_rng(0)
    places = rng.random((rows, 2), dtype=np.float32)
    heights = np.empty(rows, np.float32)
    for part in row_slices(rows, 100_000):
        count = len(places[part])
        heights[part] = height(places[part]) + NOISE * rng.standard_normal(count)
    np.save(out / "places.npy", places)
    np.save(out / "heights.npy", heights)
    np.save(out / "grid.npy", grid())


def learn(out: Path, memory: str) -> IslandReport:
    """Run the script that learns the rows in ``out``, in a process of its own, and return its report."""
    script = out / SCRIPT
    shutil.copyfile(Path(__file__).with_name(SCRIPT), script)
    hint = f"Python and the libraries take part of the {memory}: raise --memory if they leave too little."
    facts = run_and_read([str(script), f"{parse_bytes(memory) / 1e6:g}MB"], str(script), hint)
    learned, true = np.load(out / "learned.npy"), height(grid())
    error = float(np.sqrt(np.mean((learned - true) ** 2)))
    return IslandReport(**facts, error=error)


def pictures(out: Path) -> Sequence[Picture]:
    """Return the maps: one measurement for each pixel, what was learned from all, and the truth."""
    true = height(grid()).reshape(SIDE, SIDE)
    places = np.load(out / "places.npy", mmap_mode="r")
    column, row = np.asarray(places * SIDE, np.intp).clip(0, SIDE - 1).T
    single = np.full((SIDE, SIDE), np.nan)
    single[row, column] = np.load(out / "heights.npy", mmap_mode="r")
    learned = np.load(out / "learned.npy").reshape(SIDE, SIDE)
    return [
        _map(single, true, "Measured", f"One measurement for each pixel, of {len(places):,}."),
        _map(learned, true, "Learned", "The prediction of the kernel model."),
        _map(true, true, "Truth", "What the measurements were made from."),
    ]


def _map(values: Float64Array, scale: Float64Array, title: str, caption: str) -> Picture:
    figure = pyplot("gramian demo").Figure(figsize=(4.0, 4.0), layout="constrained")
    ax = figure.subplots()
    most = float(np.abs(scale).max())
    ax.imshow(values, origin="lower", cmap="terrain", vmin=-0.6 * most, vmax=most, interpolation="nearest")
    ax.set_axis_off()
    return draw_svg(figure, title, caption)
