"""The estimators of tables as a model of AutoGluon, and so of TabArena."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from gramian._budget import parse_bytes
from gramian.exceptions import MissingPackageError
from gramian.tables.classifier import TabularClassifier
from gramian.tables.regressor import TabularRegressor

if TYPE_CHECKING:
    import pandas as pd

try:
    from autogluon.core.models import AbstractModel
except ImportError as error:
    raise MissingPackageError(
        f"AutoGluon is needed for its models ({error}). Install it with: pip install autogluon.tabular"
    ) from None

#: Measures of AutoGluon that decide the search; for the others it is squared errors.
SCORING = {"mean_absolute_error": "neg_mean_absolute_error"}
#: Share of the time limit that a fit is given, because started steps are finished. Chosen by hand.
TIME_SHARE = 0.8
#: Working memory of a fit, and bytes that a process takes besides. Chosen by hand.
MEMORY, BASELINE = "2GB", 500_000_000


class GramianModel(AbstractModel):
    """TabularRegressor or TabularClassifier as a model of AutoGluon.

    Its hyperparameters are the estimators' parameters, such as ``{"effort": "best"}``; ``memory_budget`` is
    "2GB" by default. AutoGluon gives the seed, the number of cores and the time limit, of which 80 % are
    passed on. Rows for validation that AutoGluon holds out are not learned from: they judge the model. The
    model holds out rows of its own.

    Raises ``MissingPackageError`` on import where AutoGluon is not installed. Source: Erickson et al. 2020
    (AutoGluon), Erickson et al. 2025 (TabArena).
    """

    ag_key = "GRAMIAN"
    ag_name = "Gramian"
    seed_name = "random_state"
    _supported_problem_types: ClassVar[list[str]] = ["binary", "multiclass", "regression"]

    def _fit(
        self,
        X: pd.DataFrame,
        y: pd.Series,
        time_limit: float | None = None,
        num_cpus: int | None = None,
        sample_weight: pd.Series | None = None,
        **kwargs: object,
    ) -> None:
        X = self.preprocess(X, y=y, is_train=True)
        kind = TabularRegressor if self.problem_type == "regression" else TabularClassifier
        limit = None if time_limit is None else max(TIME_SHARE * time_limit, 0.1)
        given = {"scoring": SCORING.get(self.eval_metric.name), **self._get_model_params()}
        weights = None if sample_weight is None else sample_weight.to_numpy()
        self.model = kind(time_limit=limit, n_jobs=num_cpus, **given).fit(X, y.to_numpy(), weights)

    def _set_default_params(self) -> None:
        self._set_default_param_value("memory_budget", MEMORY)

    def _get_default_auxiliary_params(self) -> dict[str, Any]:
        kinds = ["bool", "int", "float", "category", "datetime"]
        return {**super()._get_default_auxiliary_params(), "valid_raw_types": kinds}

    def _estimate_memory_usage(self, X: pd.DataFrame, **kwargs: object) -> int:
        budget = parse_bytes(self._get_model_params().get("memory_budget", MEMORY))
        return int(BASELINE + budget + 3 * X.memory_usage(deep=True).sum())

    def _more_tags(self) -> dict[str, bool]:
        return {"can_refit_full": True}
