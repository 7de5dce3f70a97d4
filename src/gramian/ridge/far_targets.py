"""Warning about targets far from 0 that a model without an intercept shrinks towards 0."""

from __future__ import annotations

import warnings

import numpy as np

from gramian.data.distributed import Partitioned
from gramian.estimator.targets import NumberTargets
from gramian.exceptions import user_level

#: Deviations of the targets between their mean and 0 from which a warning is due. With 10 of them and the
#: default alpha, the error on 300 rows is four times that with an intercept.
FAR = 10.0
#: Targets that are looked at.
LOOKED_AT = 65_536


def warn_of_far_targets(targets: NumberTargets) -> None:
    """Warn if targets that vary lie :data:`FAR` deviations or more from 0, and the model has no intercept.

    Looks at the first values in memory or of a file. Time O(outputs), for 65,536 rows at most.
    """
    if isinstance(targets.values, Partitioned):
        return
    some = targets[slice(0, min(LOOKED_AT, targets.shape[0]))]
    mean, deviation = some.mean(axis=0), some.std(axis=0)
    far = np.flatnonzero((deviation > 0) & (np.abs(mean) > FAR * deviation))
    if not len(far):
        return
    which = "y lies" if targets.flat else f"column {far[0]} of y lies"
    warnings.warn(
        f"{which} around {mean[far[0]]:.3g} and varies by {deviation[far[0]]:.2g}. Without an intercept the "
        "penalty draws predictions towards 0. Pass fit_intercept=True, or subtract the mean first.",
        UserWarning,
        stacklevel=user_level(),
    )
