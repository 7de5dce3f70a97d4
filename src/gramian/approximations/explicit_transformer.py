"""What the transformers by random features share: their map, which is all that they are."""

from __future__ import annotations

from typing import cast

from sklearn.utils.validation import check_is_fitted

from gramian.approximations.approximation import Approximation
from gramian.approximations.explicit import ExplicitColumns, lone_map, one_block
from gramian.kernels import Kernel


class ExplicitMap(Approximation):
    """Base of the approximations by an explicit feature map, which is drawn before any row is seen."""

    @property
    def map_(self) -> ExplicitColumns:
        """The fitted map φ: its frequencies, signs or hashes."""
        check_is_fitted(self, "features_")
        return cast(ExplicitColumns, self.features_.nodes[0].columns)

    def _set_map(self, columns: ExplicitColumns, kernel: Kernel) -> None:
        """Make the estimator one with this map, fitted but for the operator on rows that are not there."""
        self.features_ = lone_map(columns, kernel, one_block(columns.n_features))
        self.kernel_ = kernel
        self.rank_ = self._n_features_out = columns.n_columns
        self.n_features_in_ = columns.n_features
