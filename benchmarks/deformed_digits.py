"""MNIST's training images deformed at random: as many rows as wanted, written to disk once.

The field's mnist8m and mnist2m are made so (Loosli, Canu and Bottou 2007): shifts, rotations and elastic
fields (Simard, Steinkraus and Platt 2003).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter
from suite.datasets import load_dataset
from tqdm import tqdm

from gramian.engine import Engine

SIDE, PART = 28, 2_000
#: Degrees, pixels, pixels, and the length over which an elastic field is smooth, in pixels.
ROTATION, SHIFT, ELASTIC, SMOOTH = 10.0, 1.0, 1.2, 4.0
FIELDS = 400


def elastic_fields(rng: np.random.Generator) -> np.ndarray:
    """Return displacement fields of deviation 1, shape (fields, 2, pixels)."""
    noise = rng.uniform(-1.0, 1.0, (FIELDS, 2, SIDE, SIDE))
    smooth = gaussian_filter(noise, (0, 0, SMOOTH, SMOOTH), mode="constant")
    return (smooth / smooth.std()).reshape(FIELDS, 2, -1).astype(np.float32)


def deformed(images: np.ndarray, fields: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return one deformed copy of each image, (n, 784) uint8, by bilinear interpolation."""
    n = len(images)
    grid = np.indices((SIDE, SIDE), np.float32).reshape(2, -1) - (SIDE - 1) / 2
    angle = np.deg2rad(rng.uniform(-ROTATION, ROTATION, n)).astype(np.float32)[:, None]
    sine, cosine = np.sin(angle), np.cos(angle)
    strength = (ELASTIC * np.sqrt(rng.random((2, n, 1)))).astype(np.float32)
    first, second = fields[rng.integers(FIELDS, size=(2, n))]
    at = []
    for axis, turned in enumerate((cosine * grid[0] - sine * grid[1], sine * grid[0] + cosine * grid[1])):
        shift = rng.uniform(-SHIFT, SHIFT, (n, 1)).astype(np.float32)
        moved = turned + shift + strength[0] * first[:, axis] + strength[1] * second[:, 1 - axis]
        at.append(np.clip(moved + (SIDE - 1) / 2 + 1.0, 0.0, SIDE + 0.999))  # of images with a border of 1
    wide = SIDE + 2
    padded = np.zeros((n, wide, wide), np.float32)
    padded[:, 1:-1, 1:-1] = images.reshape(n, SIDE, SIDE)
    flat = padded.ravel()
    row, column = at[0].astype(np.intp), at[1].astype(np.intp)
    down, right = at[0] - row, at[1] - column
    corner = row * wide + column + (np.arange(n) * wide * wide)[:, None]
    upper = (1 - right) * flat[corner] + right * flat[corner + 1]
    lower = (1 - right) * flat[corner + wide] + right * flat[np.minimum(corner + wide + 1, flat.size - 1)]
    return np.rint((1 - down) * upper + down * lower).astype(np.uint8)


def make(folder: Path, rows: int, digits: tuple[int, ...] = ()) -> tuple[Path, Path]:
    """Return the files of rows and labels; they are made where they are not there, part by part."""
    name = f"{rows}" + "".join(f"_{d}" for d in digits)
    images_file, labels_file = folder / f"rows_{name}.npy", folder / f"labels_{name}.npy"
    if images_file.exists() and labels_file.exists():
        return images_file, labels_file
    folder.mkdir(parents=True, exist_ok=True)
    data = load_dataset("mnist")
    originals, labels = data.X[: data.n_train], data.y[: data.n_train].astype(np.int64)
    if digits:
        kept = np.isin(labels, digits)
        originals, labels = originals[kept], labels[kept]
    fields = elastic_fields(np.random.default_rng(0))
    unfinished = images_file.with_suffix(".part")
    out = np.lib.format.open_memmap(unfinished, "w+", np.uint8, (rows, SIDE * SIDE))
    starts = range(0, rows, PART)

    def work(start: int) -> tuple[int, np.ndarray, np.ndarray]:
        rng = np.random.default_rng([1, start])
        picked = rng.integers(len(labels), size=min(PART, rows - start))
        return start, deformed(originals[picked], fields, rng), labels[picked]

    found = np.empty(rows, np.int64)
    with tqdm(total=rows, unit="rows", desc="images") as bar, Engine().results(work, starts) as parts:
        for start, images, own in parts:
            out[start : start + len(own)] = images
            found[start : start + len(own)] = own
            bar.update(len(own))
    out.flush()
    np.save(labels_file, found)
    unfinished.replace(images_file)
    return images_file, labels_file
