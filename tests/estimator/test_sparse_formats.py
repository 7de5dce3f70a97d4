"""Every estimator that reads sparse rows reads them in any format, and answers as for CSR."""

import numpy as np
import pytest
import scipy.sparse as sp
from every_estimator import ESTIMATORS, HOSTS, QUICK, fit, parameters
from sklearn.utils import get_tags

RNG = np.random.default_rng(1)
ROWS = np.where(RNG.random((60, 3)) < 0.5, 0.0, RNG.random((60, 3)))
#: Searches without a clock, so that two fits can be compared.
STEADY = {name: {"kernel": "laplacian", "metric": None} for name in ("TabularClassifier", "TabularRegressor")}
SPARSE = [
    name for name, kind in ESTIMATORS.items() if name not in HOSTS and get_tags(kind()).input_tags.sparse
]


def _answers(model, rows):
    found = (model.predict if hasattr(model, "predict") else model.transform)(rows)
    return found.toarray() if sp.issparse(found) else np.asarray(found)


@pytest.mark.parametrize("name", SPARSE)
def test_csc_and_coo_give_what_csr_gives(name):
    kind = ESTIMATORS[name]
    fixed = {"random_state": 0} if "random_state" in parameters(kind) else {}
    model = kind(**{**STEADY.get(name, QUICK.get(name, {})), **fixed})
    want = _answers(fit(model, sp.csr_array(ROWS)), sp.csr_array(ROWS))
    for form in (sp.csc_matrix, sp.coo_array):
        np.testing.assert_array_equal(_answers(fit(model, form(ROWS)), form(ROWS)), want)
