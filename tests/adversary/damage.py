"""Damaged model files, cut, changed or mixed up: ``gm.load`` refuses them or answers the same."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import gramian as gm
from adversary.trial import Broken

X = np.random.default_rng(0).standard_normal((60, 3))
Y = np.sin(X[:, 0])
LABELS = np.digitize(Y, [-0.5, 0.5])

#: From a file to what was done to it, and the damaged file.
Damage = Callable[[bytes, np.random.Generator], tuple[str, bytes]]
#: Models whose files are damaged, a kind of content each.
MODELS: dict[str, Any] = {
    "exact ridge": lambda: gm.KernelRidge(approximation="exact").fit(X, Y),
    "meka ridge": lambda: gm.KernelRidge(approximation=gm.MEKA(rank=4, n_blocks=2), random_state=0).fit(X, Y),
    "classifier": lambda: gm.KernelRidgeClassifier(standardize=True).fit(X, LABELS),
    "svc": lambda: gm.KernelSVC(probability=True, random_state=0).fit(X, LABELS),
    "gp": lambda: gm.GaussianProcessRegressor(optimizer=None).fit(X, Y),
    "pca": lambda: gm.KernelPCA(n_components=3).fit(X),
    "features": lambda: gm.MultiResolution(root_rank=6, rank=3, n_blocks=2, random_state=0).fit(X),
    "dcsvc": lambda: gm.DCSVC().fit(X, LABELS > 0),
}


@cache
def stored(name: str, folder: Path) -> tuple[bytes, np.ndarray]:
    """Return a model's file and its answers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MODELS[name]()
    path = folder / f"{name}.gramian"
    gm.save(model, path)
    return path.read_bytes(), answers(model)


def answers(model: Any) -> np.ndarray:
    """Return what the model says of a few rows."""
    found = model.predict(X[:9]) if hasattr(model, "predict") else model.transform(X[:9])
    return np.asarray(found.toarray() if sp.issparse(found) else found)


def damaged(data: bytes, seed: int, count: int, kinds: Sequence[Damage]) -> Iterator[tuple[str, bytes]]:
    """Yield what was done to a file, and the file: every kind in turn."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        text, out = kinds[number % len(kinds)](data, rng)
        if out != data:
            yield text, out


def cut(data: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """Cut the end off, or the beginning."""
    at = int(rng.integers(len(data)))
    return (f"first {at} bytes", data[:at]) if rng.random() < 0.7 else (f"from byte {at} on", data[at:])


def flipped(data: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """Turn one bit over."""
    at, bit = int(rng.integers(len(data))), int(rng.integers(8))
    out = bytearray(data)
    out[at] ^= 1 << bit
    return f"bit {bit} of byte {at} turned over", bytes(out)


def overwritten(data: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """Write zeros over a stretch, as a disk that loses a block does."""
    at, size = int(rng.integers(len(data))), int(rng.integers(1, 512))
    return f"{size} zeros at byte {at}", data[:at] + bytes(len(data[at : at + size])) + data[at + size :]


def _members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _packed(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def swapped(data: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """Give two members of different content each other's names."""
    members = _members(data)
    names = sorted(members)
    a, b = (names[int(k)] for k in rng.choice(len(names), 2, replace=False))
    if members[a] == members[b]:
        return "nothing", data
    return f"{a} and {b} swapped", _packed(members | {a: members[b], b: members[a]})


def lost(data: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """Leave a member out."""
    members = _members(data)
    name = sorted(members)[int(rng.integers(len(members)))]
    return f"{name} left out", _packed({k: v for k, v in members.items() if k != name})


#: Damage that happens to files by itself; ``swapped`` takes somebody who renames members.
KINDS: tuple[Damage, ...] = (cut, flipped, lost, overwritten)


def check(name: str, text: str, data: bytes, folder: Path) -> str:
    """Load a damaged file; return "refused" or "same answers", or raise ``Broken``."""
    path = folder / "damaged.gramian"
    path.write_bytes(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = gm.load(path)
    except gm.exceptions.ModelFileError:
        return "refused"
    except BaseException as error:
        raise Broken(f"{name}, {text}: {type(error).__name__}: {str(error)[:200]}") from error
    found = answers(model)
    if not np.array_equal(found, stored(name, folder)[1], equal_nan=True):
        raise Broken(f"{name}, {text}: loads, and answers otherwise")
    return "same answers"
