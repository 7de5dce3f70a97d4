"""Benchmark sets by name, and any number of rows made from the 1,797 digits of scikit-learn."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import fetch_covtype, fetch_openml, load_digits

from gramian._checks import whole_number
from gramian._random import as_generator, children
from gramian._typing import Array, FloatArray, IntArray, RandomState
from gramian.data.formats.numpy_files import read_arrays
from gramian.data.storage import explain_errors
from gramian.exceptions import InputError, did_you_mean

#: Environment variable: a folder of NAME.npz with X (n, d), y (n,) and, optionally, n_train.
FOLDER_VARIABLE = "GRAMIAN_DATA"


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """A benchmark set as its source stores it, not normalised."""

    name: str
    X: Array  #: (n, d)
    y: Array  #: (n,): integer classes, or float64 for regression
    n_train: int | None  #: the first n_train rows are the canonical training part; None if there is none


@dataclass(frozen=True, slots=True)
class _Remote:
    """Source of a set, and the shape that shows that the download is the right set."""

    shape: tuple[int, int]
    task: str  #: "classes" or "numbers"
    dtype: str = "float32"  #: a type that holds the source's values exactly
    openml_id: int | None = None  #: None: use scikit-learn's own fetcher
    n_train: int | None = None


#: Sets whose OpenML copy has the rows and columns of the papers' set. A canonical split is given only if
#: OpenML keeps the source's row order.
REMOTE = {
    "cadata": _Remote((20_640, 8), "numbers", openml_id=537),
    "census_house16H": _Remote((22_784, 16), "numbers", openml_id=574),
    "covtype": _Remote((581_012, 54), "classes"),
    "cpusmall": _Remote((8_192, 12), "numbers", openml_id=562),
    "letter": _Remote((20_000, 16), "classes", openml_id=6, n_train=15_000),
    "mnist": _Remote((70_000, 784), "classes", "uint8", openml_id=554, n_train=60_000),
    "pendigits": _Remote((10_992, 16), "classes", openml_id=32),
    "spambase": _Remote((4_601, 57), "classes", openml_id=44),
    "wine": _Remote((6_497, 11), "numbers", openml_id=287),
}


def load_dataset(name: str) -> Dataset:
    """Load a benchmark set by name.

    Read from ``NAME.npz`` in the folder that the environment variable ``GRAMIAN_DATA`` names; without that
    variable, from OpenML or UCI through scikit-learn's fetchers, which keep a copy in scikit-learn's folder.

    Parameters
    ----------
    name : a file's stem in the folder; without the folder, a key of ``REMOTE`` (``"pendigits"``,
        ``"letter"``, ``"mnist"``, ``"covtype"``, ``"cadata"``, …).

    Returns
    -------
    Dataset : X as stored. Fetched sets have float32 or uint8 rows, float64 targets, and classes as int16
        (letters by their place in the alphabet from 0, numbers unchanged).

    Errors: ``InputError`` for an unknown name (listing the known ones), a folder or file that cannot be
    read, a failed download, and a download with an unexpected shape.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    return _load_local(name, Path(folder)) if folder else _fetch(name)


def _load_local(name: str, folder: Path) -> Dataset:
    if not folder.is_dir():
        raise InputError(
            f"{FOLDER_VARIABLE}={folder} is not a folder. Point it at a folder of NAME.npz files, or unset "
            "it to fetch data sets from OpenML."
        )
    known = sorted(path.stem for path in folder.glob("*.npz"))
    if name not in known:
        raise _unknown(name, known, f"in {folder} ({FOLDER_VARIABLE})")
    path = folder / f"{name}.npz"
    with explain_errors(str(path), 0):
        arrays = read_arrays(path, ("X", "y", "n_train"))
    absent = [key for key in ("X", "y") if key not in arrays]
    if absent:
        raise InputError(f"{folder / name}.npz has no array {absent[0]!r}. Store X (n, d) and y (n,) in it.")
    n_train = int(arrays["n_train"]) if "n_train" in arrays else None
    return Dataset(name, arrays["X"], arrays["y"], n_train)


def _fetch(name: str) -> Dataset:
    if name not in REMOTE:
        raise _unknown(name, sorted(REMOTE), "to fetch")
    remote = REMOTE[name]
    try:
        X, y = _download(remote)
    # URLError and HTTPError are OSErrors; scikit-learn's OpenMLError and a damaged copy are ValueErrors.
    except (OSError, ValueError) as error:
        raise InputError(
            f"The data set {name!r} could not be fetched: {error}. Check the connection, or set "
            f"{FOLDER_VARIABLE} to a folder that holds {name}.npz (arrays X and y)."
        ) from error
    if X.shape != remote.shape:
        raise InputError(
            f"The fetched data set {name!r} has shape {X.shape}, but {remote.shape} was expected: its "
            f"source has changed. Set {FOLDER_VARIABLE} to a folder that holds {name}.npz."
        )
    y = _class_codes(y) if remote.task == "classes" else np.asarray(y, np.float64)
    return Dataset(name, np.ascontiguousarray(X, remote.dtype), y, remote.n_train)


def _download(remote: _Remote) -> tuple[Array, Array]:
    if remote.openml_id is None:
        X, y = fetch_covtype(return_X_y=True)
        return X, y
    # The pandas parser is many times faster and smaller; without pandas the pure Python one is used.
    parser = "pandas" if importlib.util.find_spec("pandas") else "liac-arff"
    X, y = fetch_openml(data_id=remote.openml_id, as_frame=False, return_X_y=True, parser=parser)
    return X, y


def _class_codes(y: Array) -> Array:
    """Return integers unchanged (also from text), other labels as their sorted order from 0."""
    try:
        return np.asarray(y).astype(np.int16)
    except ValueError:
        return np.unique(y, return_inverse=True)[1].astype(np.int16)


def _unknown(name: str, known: list[str], where: str) -> InputError:
    return InputError(
        f"There is no data set {name!r} {where}.{did_you_mean(name, known)} "
        f"Available: {', '.join(known) or 'none'}."
    )


# ---- digits ------------------------------------------------------------------------------------

SIDE = 8  #: pixels along a digit's edge
LEVELS = 15  #: step between two grey levels of the bundled digits, on the scale 0..255 of a byte
MAX_SHIFT, MAX_ANGLE, MAX_ZOOM = 1.0, np.deg2rad(15.0), 0.1
NOISE = 0.5  #: standard deviation of a pixel's noise, in grey levels


@dataclass(frozen=True, slots=True, eq=False)
class DigitsData:
    """Rows made from scikit-learn's digits, with the original image of each."""

    X: np.memmap[Any, np.dtype[np.uint8]]  #: (n_rows, 64) pixels, 0..255, read-only, on disk
    y: Array  #: (n_rows,) int64, the digit 0..9
    source: IntArray  #: (n_rows,) index into ``load_digits()``; split train and test by it, never by row


def make_digits(
    path: str | os.PathLike[str],
    n_rows: int = 200_000,
    *,
    originals: Array | None = None,
    random_state: RandomState = 0,
    rows_per_block: int = 8192,
) -> DigitsData:
    """Write ``n_rows`` deformed copies of scikit-learn's bundled digits to a ``.npy`` file.

    Each row is one of the 1,797 images of 8 × 8 pixels, drawn at random, shifted by up to a pixel in both
    directions, rotated by up to 15 degrees, scaled by 0.9 to 1.1 about the centre, with noise on every pixel,
    as mnist8m was made from MNIST. The pixel at p is the bilinear value of the original at the point q:

        q = R(−angle) (p − centre − shift) / zoom + centre,   0 outside it.

    Parameters
    ----------
    path : file to write (replaced if it exists).
    n_rows : rows to make; 64 bytes each on disk.
    originals : (m,) indices into ``load_digits()`` of the images to draw from; None for all. Two files from
        disjoint originals are a split into training and held-out rows.
    random_state : an integer gives the same rows again for the same ``rows_per_block``, since each block
        has a child generator of its own. A larger ``n_rows`` only appends rows.
    rows_per_block : number of rows to make at a time.

    Returns
    -------
    DigitsData : X is a read-only memmap. To hold out rows without leakage, split by ``source``: copies of
        one original resemble each other.

    Cost: time O(64 · n_rows), 200,000 rows in about a second; memory 16 bytes a row, plus about 4 kB for
    each row of one block.

    Source: the idea of Loosli, Canu and Bottou, "Training invariant support vector machines using selective
    sampling" (2007), who made mnist8m by other deformations.

    Errors: ``InputError`` if a count is not positive, an original does not exist, or the file's folder
    does not exist.

    Examples
    --------
    >>> import tempfile
    >>> digits = make_digits(Path(tempfile.mkdtemp()) / "digits.npy", 1000)
    >>> test = digits.source % 5 == 0
    >>> digits.X[~test].shape[1], digits.X.dtype
    (64, dtype('uint8'))
    """
    path = Path(path)
    for label, count in (("n_rows", n_rows), ("rows_per_block", rows_per_block)):
        whole_number(label, count, 1)
    if not path.parent.is_dir():
        raise InputError(f"Cannot write {path}: the folder {path.parent} does not exist. Create it first.")
    images, labels = load_digits(return_X_y=True)
    pool = _pool(originals, len(images))
    # A frame of zeros, one pixel wide before and two after, gives every clipped point all its neighbours.
    framed = np.zeros((len(pool), SIDE + 3, SIDE + 3), np.float32)
    framed[:, 1 : SIDE + 1, 1 : SIDE + 1] = images[pool].reshape(-1, SIDE, SIDE) * LEVELS
    source = np.empty(n_rows, np.intp)
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(n_rows, SIDE * SIDE))
    n_blocks = -(-n_rows // rows_per_block)
    for block, rng in enumerate(children(as_generator(random_state), n_blocks)):
        start = block * rows_per_block
        rows = slice(start, min(n_rows, start + rows_per_block))
        # A last, shorter block draws as many numbers as a full one, so that rows do not depend on n_rows.
        origins, pixels = _deform(framed, rows_per_block, rng)
        source[rows] = pool[origins[: rows.stop - start]]
        out[rows] = pixels[: rows.stop - start]
    out.flush()
    del out
    X = np.lib.format.open_memmap(path, mode="r")
    return DigitsData(X, labels[source].astype(np.int64), source)


def _pool(originals: Array | None, n_images: int) -> IntArray:
    """Return the checked indices to draw from."""
    if originals is None:
        return np.arange(n_images)
    pool = np.asarray(originals)
    if pool.ndim != 1 or not pool.size or pool.dtype.kind not in "iu":
        raise InputError(
            f"originals has shape {pool.shape} and dtype {pool.dtype}; expected a list of whole numbers, one "
            "index into load_digits() each."
        )
    if pool.min() < 0 or pool.max() >= n_images:
        raise InputError(
            f"originals has numbers from {pool.min()} to {pool.max()}; pass numbers from 0 to {n_images - 1}."
        )
    return pool.astype(np.intp)


def _deform(framed: FloatArray, count: int, rng: np.random.Generator) -> tuple[IntArray, Array]:
    """Draw ``count`` originals and deform each one differently, all rows at once."""
    origins = rng.integers(len(framed), size=count)
    angle = rng.uniform(-MAX_ANGLE, MAX_ANGLE, (count, 1)).astype(np.float32)
    zoom = rng.uniform(1 - MAX_ZOOM, 1 + MAX_ZOOM, (count, 1)).astype(np.float32)
    shift = rng.uniform(-MAX_SHIFT, MAX_SHIFT, (2, count, 1)).astype(np.float32)
    centre = np.float32((SIDE - 1) / 2)
    down, right = np.indices((SIDE, SIDE), dtype=np.float32).reshape(2, 1, -1) - centre - shift
    cos, sin = np.cos(angle) / zoom, np.sin(angle) / zoom
    width = framed.shape[2]
    values = _bilinear(
        framed.ravel(),
        (origins * framed[0].size)[:, None],
        width,
        # Coordinates in the frame, which is zero outside the image.
        np.clip(cos * down - sin * right + centre + 1, 0, SIDE + 1),
        np.clip(sin * down + cos * right + centre + 1, 0, SIDE + 1),
    )
    values += rng.standard_normal(values.shape, dtype=np.float32) * np.float32(NOISE * LEVELS)
    return origins, np.clip(np.rint(values), 0, 255).astype(np.uint8)


def _bilinear(flat: FloatArray, base: IntArray, width: int, row: FloatArray, col: FloatArray) -> FloatArray:
    """Interpolate images, one after the other in ``flat``, at (row, col) of the one that starts at base."""
    top, left = row.astype(np.intp), col.astype(np.intp)
    v, u = row - top.astype(np.float32), col - left.astype(np.float32)
    at = base + top * width + left
    upper = flat[at] * (1 - u) + flat[at + 1] * u
    lower = flat[at + width] * (1 - u) + flat[at + width + 1] * u
    return upper * (1 - v) + lower * v
