"""Normalised targets of a Gaussian process, and the weights that rows count with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gramian._typing import Float64Array
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.repeats import without_copies
from gramian.estimator.targets import NumberTargets
from gramian.exceptions import InputError
from gramian.gp.parameters import ProcessParameters


def counted_rows(
    rows: LabelledRows[NumberTargets], parameters: ProcessParameters
) -> tuple[LabelledRows[Any], ProcessParameters]:
    """Return rows without those of weight 0, and the parameters for them.

    Where the noise is learned, weights have mean 1: a factor of all of them is one of the noise. Copies of a
    row are then one row, because they say nothing about the noise.
    """
    noise = parameters.row_noise
    if noise is not None and len(noise) != rows.n:
        raise InputError(
            f"noise has {len(noise)} entries, but X has {rows.n} rows. Give one number, or one variance for "
            "each row."
        )
    learns = parameters.learn_noise and bool(parameters.optimizer)
    if learns and noise is None:
        rows = without_copies(rows, parameters.setup.run.memory_bytes)[0]
    if rows.weights is None:
        return rows, parameters
    counted = rows.counted
    if len(counted) < rows.n:
        rows = rows.taken(counted)
        parameters = replace(parameters, row_noise=None if noise is None else noise[counted])
    return rows.relative() if learns else rows, parameters


def normalise(
    targets: Float64Array, normalize: bool, weights: Float64Array | None = None
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return (targets − mean)/deviation with mean and deviation (outputs,), or the targets with 0 and 1."""
    outputs = targets.shape[1]
    if not normalize:
        return targets, np.zeros(outputs), np.ones(outputs)
    mean = np.average(targets, axis=0, weights=weights)
    spread = np.sqrt(np.average(np.square(targets - mean), axis=0, weights=weights))
    # The deviation of a constant target is only rounding; it must not become a scale.
    rounding = 10.0 * np.finfo(np.float64).eps * np.abs(mean)
    spread = np.where(spread > rounding, spread, 1.0)
    return (targets - mean) / spread, mean, spread
