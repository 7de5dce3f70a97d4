"""A model that gramian exported. This file needs NumPy only: import it, or give it rows of a CSV file:

python FILE.py < rows.csv
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from gramian.export.standalone_core import _labelled, _model, _values


def predict(X: Any) -> np.ndarray:
    """Return the class of each row of X (n, features), or its prediction.

    Columns of a frame, an Arrow table or a list of dicts are found by the names of the training, if it had
    any; those of an array go by place.
    """
    return _labelled(decision(X))


def decision(X: Any) -> np.ndarray:
    """Return the decision values of rows X (n, features), or the predictions of a regressor.

    Shape (n,) for two classes or one target, (n, outputs) otherwise. Time a row: features · directions
    products, and (2 directions + 1)(units + outputs) in its leaf.
    """
    values = _values(X)
    return values[:, 0] if _model()["one_value"] else values


def _main() -> None:
    """Write the prediction of each row of a CSV file on the standard input."""
    if sys.stdin.isatty():
        raise SystemExit(__doc__)
    for row in np.atleast_1d(predict(np.loadtxt(sys.stdin, delimiter=",", ndmin=2))):
        print(*np.atleast_1d(row), sep=",")


if __name__ == "__main__":
    _main()
