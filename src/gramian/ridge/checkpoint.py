"""Checkpoints of a pass over the rows: the sums so far in a folder, valid only for the same fit."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._files import check_identity, checkpoint_folder, read_state, write_state
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array
from gramian.compression.features import FeatureMap
from gramian.compression.plan import Plan
from gramian.data.column import StoredColumn
from gramian.data.fingerprint import add_bytes, content, spread_blocks
from gramian.estimator.labelled import LabelledRows
from gramian.exceptions import CheckpointWarning, InputError, user_level
from gramian.ridge.sums import RidgeSums

#: Name of the checkpoint file inside its folder.
FILE = "sums.npz"
#: Assumed write speed of a disk in bytes per second, and largest part of a pass spent on writing. By hand.
DISK_RATE, SHARE = 1e8, 0.05
#: Rows of targets that are hashed at a time. Chosen by hand.
HASHED_ROWS = 65_536


class SumsCheckpoint:
    """Checkpoint folder of one fit: read at the start, updated during the pass, and emptied at the end.

    Its file holds the sums over the first rows, the state of the random generator before the fit, and the
    identity of the fit: rows, targets, weights, kernel, penalty, random state and plan. A resumed fit
    rebuilds the bases from that state and checks that they equal the bases of the stored sums. The file is as
    large as the sums.
    """

    def __init__(self, folder: Path, rng: np.random.Generator, *, seeded: bool = True) -> None:
        """seeded : whether ``rng`` is that of a number, with which a fit makes the same bases each time."""
        checkpoint_folder(folder)
        self._seed = _state(rng) if seeded else "none"
        for unfinished in folder.glob(f".{FILE}.*.tmp"):  # left by a process that died while writing
            unfinished.unlink()
        self.path = folder / FILE
        self._stored = read_state(self.path)
        if self._stored is not None and {"generator", "bases", "flat", "fit"} <= set(self._stored):
            rng.bit_generator.state = json.loads(str(self._stored["generator"]))
        self._generator = _state(rng)
        self._identity: dict[str, str] = {}
        self._bases = ""
        self._every = self._since = 0

    def bind(
        self,
        rows: LabelledRows[Any],
        plan: Plan,
        features: FeatureMap,
        sums: RidgeSums,
        alpha: float | Float64Array,
    ) -> int:
        """Fill empty sums from the folder, if it holds any of this fit; return how many rows they cover.

        Raises ``InputError`` if the folder belongs to another fit, and leaves it unchanged.
        """
        self._identity = identity_of(rows, plan, features, sums) | {
            "random_state": compute_hash(self._seed),
            "alpha": repr(np.asarray(alpha, np.float64).tolist()),
        }
        self._bases = _digest(features)
        a_row = plan.seconds["sums"] / rows.source.shape[0]
        self._every = max(1, int(sums.nbytes / DISK_RATE / SHARE / a_row))
        stored, self._stored = self._stored, None
        if stored is None:
            return 0
        check_identity(self.path, str(stored.get("fit", "")), self._identity)
        if str(stored["bases"]) != self._bases:
            raise InputError(
                f"the checkpoint {self.path} belongs to bases that this machine or version computes "
                "differently. Continue on the machine that wrote it, or delete it."
            )
        _fill(sums, stored)
        return sums.n_rows

    def passed(self, sums: RidgeSums, rows: int, *, n_rows: int) -> None:
        """Save the sums if enough rows have been added since the last save, or all ``n_rows`` of the fit.

        If the disk refuses, the fit goes on with a warning: only the checkpoint is lost.
        """
        self._since += rows
        if self._since < self._every and sums.n_rows < n_rows:
            return
        self._since = 0
        try:
            write_state(self.path, {"kind": "gramian sums"}, self._arrays(sums))
        except OSError as error:
            warnings.warn(
                f"the checkpoint {self.path} could not be written after row {sums.n_rows} ({error}); the fit "
                "goes on without it. Make room on the disk so that the next one can be written.",
                CheckpointWarning,
                stacklevel=user_level(),
            )

    def finish(self) -> None:
        """Remove the file at the end of the fit."""
        self.path.unlink(missing_ok=True)

    def _arrays(self, sums: RidgeSums) -> dict[str, Array]:
        flat = [array.ravel() for node in sums.nodes for array in node.arrays]
        return {
            "fit": np.asarray(json.dumps(self._identity)),
            "bases": np.asarray(self._bases),
            "generator": np.asarray(self._generator),
            "flat": np.concatenate(flat),
            "right": sums.right,
            "mass": np.asarray(sums.mass),
            "n_rows": np.asarray(sums.n_rows),
        }


def _fill(sums: RidgeSums, stored: dict[str, Array]) -> None:
    flat: Float64Array = stored["flat"]
    start = 0
    for node in sums.nodes:
        for array in node.arrays:
            array.flat[:] = flat[start : start + array.size]
            start += array.size
    sums.mass, sums.n_rows = float(stored["mass"]), int(stored["n_rows"])
    sums.right[:] = stored["right"]


def identity_of(rows: LabelledRows[Any], plan: Plan, features: FeatureMap, sums: RidgeSums) -> dict[str, str]:
    """Return hashes of everything except the bases that the sums depend on, by name."""
    ranks = [len(node.gram) for node in sums.nodes]
    sizes = (plan.method, ranks, plan.dtype, plan.sample_rows, plan.chunk_rows, sums.intercept)
    return {
        "rows": content(rows.source),
        "targets": _targets(rows, sums),
        "weights": "none" if rows.weights is None else compute_hash(np.asarray(rows.weights)),
        "kernel": compute_hash(repr(features.kernel)),
        "sizes": compute_hash(repr(sizes)),
    }


def _targets(rows: LabelledRows[Any], sums: RidgeSums) -> str:
    """Return a hash of all targets; of those in files or elsewhere of some blocks, and of their centre."""
    targets, n = rows.targets, rows.targets.shape[0]
    digest = hashlib.sha256(repr(targets.shape).encode())
    values = getattr(targets, "values", None)
    if values is None or isinstance(values, np.ndarray):
        blocks: Iterable[slice] = row_slices(n, HASHED_ROWS)
    else:
        blocks = spread_blocks(n)
        digest.update(sums.shift.tobytes())
        if isinstance(values, StoredColumn):
            digest.update(repr(getattr(values, "identity", None)).encode())
    for where in blocks:
        add_bytes(digest, targets[where])
    return digest.hexdigest()


def compute_hash(value: str | Array) -> str:
    """Return a hash of a text or of the numbers of an array."""
    return hashlib.sha256(value.encode() if isinstance(value, str) else value.tobytes()).hexdigest()


def _state(rng: np.random.Generator) -> str:
    return json.dumps(rng.bit_generator.state, default=_as_json)


def _digest(features: FeatureMap) -> str:
    """Return a hash of the bases: landmarks, vectors, projections and explicit maps."""
    digest = hashlib.blake2b(digest_size=16)
    for basis in features.nodes:
        parts: list[Any] = [basis.landmarks, basis.vectors, basis.projection]
        if basis.vectors is None:  # an explicit map stores its parameters in its columns
            parts += list(vars(basis.columns).values())
        for part in parts:
            if isinstance(part, np.ndarray | sp.csr_array | sp.csr_matrix):
                add_bytes(digest, part)
    return digest.hexdigest()


def _as_json(value: object) -> Any:
    """Convert numbers and arrays of a generator's state to JSON values."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
