"""Bad input by the text of its error: what was expected, what came, what to do; and nothing half changed."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

import gramian as gm
from gramian.approximations import LowRankPlusBlocks

RNG = np.random.default_rng(0)
X = RNG.random((60, 3))
Y = RNG.random(60)
LABELS = np.where(Y > 0.5, "b", "a")

MODELS = {
    "MEKA": gm.MEKA(gamma=1.0, rank=5, n_blocks=2),
    "MultiResolution": gm.MultiResolution(gamma=1.0, root_rank=8, rank=4, n_blocks=3),
    "KernelRidge": gm.KernelRidge(gamma=1.0),
    "KernelRidgeClassifier": gm.KernelRidgeClassifier(gamma=1.0),
}
EVERY = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
RIDGE = pytest.mark.parametrize("model", list(MODELS.values())[2:], ids=list(MODELS)[2:])


def target(model):
    return LABELS if isinstance(model, gm.KernelRidgeClassifier) else Y


def answer(model, rows):
    return model.predict(rows) if hasattr(model, "predict") else model.transform(rows)


def refused(model, *args, match, error=ValueError, **kwargs):
    """A first fit stays unfitted, a later one leaves the old model as it was."""
    unfitted = clone(model)
    with pytest.raises(error, match=match):
        unfitted.fit(*args, **kwargs)
    assert vars(unfitted).keys() == vars(clone(model)).keys()
    fitted = clone(model).set_params(**GOOD.get(type(model).__name__, {})).fit(X, target(model))
    fitted.set_params(**model.get_params(deep=False))
    before = dict(vars(fitted))
    with pytest.raises(error, match=match):
        fitted.fit(*args, **kwargs)
    assert vars(fitted) == before
    assert all(vars(fitted)[name] is value for name, value in before.items())


#: Parameters under which every model fits, whatever bad one is under test.
COMMON = {
    "kernel": "rbf",
    "gamma": 1.0,
    "kernel_params": None,
    "memory_budget": "1GB",
    "tile_dtype": "auto",
    "n_jobs": None,
    "random_state": 0,
}
SIZES = {"rank": 5, "n_blocks": 2, "oversampling": 2.0, "landmarks": "kmeans", "partition": "kmeans"}
FIT = {"alpha": 1.0, "approximation": "auto"}
GOOD = {
    "MEKA": {
        **COMMON,
        **SIZES,
        "core": "projection",
        "rank_rule": "equal",
        "epsilon": 0.0,
        "core_oversampling": 2.0,
    },
    "MultiResolution": {**COMMON, **SIZES, "root_rank": 8, "n_levels": 2},
    "KernelRidge": {**COMMON, **FIT},
    "KernelRidgeClassifier": {**COMMON, **FIT, "class_weight": None},
}


def with_entry(value):
    bad = X.copy()
    bad[17, 1] = value
    return bad


TABLES = {
    "nan": (with_entry(np.nan), "Input X contains NaN"),
    "inf": (with_entry(np.inf), "Input X contains infinity"),
    "sparse nan": (sp.csr_array(with_entry(np.nan)), "Input X contains NaN"),
    "no rows": (np.empty((0, 3)), r"Found array with 0 sample\(s\).*minimum of 1"),
    "no columns": (np.empty((60, 0)), r"0 feature\(s\).*minimum of 1"),
    "flat": (Y, r"(?s)Expected 2D array, got 1D array.*Reshape your data"),
    "three axes": (np.ones((60, 2, 2)), r"(?i)found array with dim 3"),
    "complex": (X + 1j, "Complex data not supported"),
    "strings": (np.full((60, 3), "red"), "Column .0. of X holds text .such as .red"),
    "scalar": (3.0, "Expected 2D array, got scalar"),
}


@EVERY
@pytest.mark.parametrize(("table", "text"), TABLES.values(), ids=TABLES.keys())
def test_tables(model, table, text):
    refused(model, table, target(model), match=text)


PARAMETERS = {
    "kernel name": ({"kernel": "rfb"}, "kernel='rfb' is not a known name. Did you mean 'rbf'"),
    "kernel type": ({"kernel": 3}, "kernel=3 has type int; expected a name such as 'rbf'"),
    "kernel class": (
        {"kernel": gm.Gaussian, "gamma": None},
        "kernel=Gaussian is a class; expected an instance",
    ),
    "kernel and gamma": (
        {"kernel": gm.Gaussian(1.0)},
        "a Kernel instance carries its lengthscale. Pass gamma=None",
    ),
    "precomputed": ({"kernel": "precomputed", "gamma": None}, "a square matrix. Pass K.X, X. of shape"),
    "gamma 0": ({"gamma": 0.0}, "gamma=0.0 .*gamma=None means 1/n_features"),
    "gamma below 0": ({"gamma": -1.0}, "gamma=-1.0 .*gamma=None means 1/n_features"),
    "gamma nan": ({"gamma": float("nan")}, "gamma=nan"),
    "kernel_params": ({"kernel_params": {"a": 1}}, "holds arguments of a callable kernel"),
    "tile_dtype": ({"tile_dtype": "float16"}, "tile_dtype='float16' is unknown.*Did you mean 'float"),
    "jobs": ({"n_jobs": 0}, "n_jobs=0 is not a number of threads"),
    "seed": ({"random_state": "x"}, "random_state='x' cannot seed a generator"),
    "budget word": ({"memory_budget": "much"}, "memory_budget='much' is not a size.*'200MB'"),
    "budget type": ({"memory_budget": [1]}, r"memory_budget=\[1\] has type list"),
    "budget sign": ({"memory_budget": -5}, "memory_budget=-5 is not a positive, finite number of bytes"),
    "budget small": ({"memory_budget": "2kB"}, "memory_budget=2 kB is too small for .*at least .* is needed"),
}


@EVERY
@pytest.mark.parametrize(("parameters", "text"), PARAMETERS.values(), ids=PARAMETERS.keys())
def test_shared_parameters(model, parameters, text):
    refused(clone(model).set_params(**parameters), X, target(model), match=text)


SIZED = {
    "rank 0": ({"rank": 0}, "rank=0 must be a whole number of at least 1"),
    "rank 2.5": ({"rank": 2.5}, "rank=2.5 must be a whole number"),
    "rank true": ({"rank": True}, "rank=True must be a whole number"),
    "blocks": ({"n_blocks": -1}, "n_blocks=-1 must be a whole number of at least 1"),
    "oversampling": ({"oversampling": 0.5}, "oversampling=0.5 must be at least 1"),
    "partition": ({"partition": "kmean"}, "partition='kmean' is unknown.*Did you mean 'kmeans'"),
    "partition type": ({"partition": None}, "partition=None is unknown"),
    "landmarks": ({"landmarks": "unifrom"}, "landmarks='unifrom' is unknown.*Did you mean 'uniform'"),
    "landmarks type": ({"landmarks": 7}, "landmarks=7 has type int.*or give an array of points"),
}
SINGLE = {
    "core": (gm.MEKA(core="projecton"), "core='projecton' is unknown.*Did you mean 'projection'"),
    "rank_rule": (gm.MEKA(rank_rule="equals"), "rank_rule='equals' is unknown.*Did you mean 'equal'"),
    "epsilon": (gm.MEKA(epsilon=-1.0), "epsilon=-1.0 must be a finite number of at least 0"),
    "core rows": (gm.MEKA(core_oversampling=0), "core_oversampling=0 must be a positive"),
    "root": (gm.MultiResolution(root_rank=0), "root_rank=0 must be a whole number of at least 1"),
    "levels": (gm.MultiResolution(n_levels=0), "n_levels=0 must be a whole number of at least 1"),
}


@pytest.mark.parametrize("model", list(MODELS.values())[:2], ids=list(MODELS)[:2])
@pytest.mark.parametrize(("parameters", "text"), SIZED.values(), ids=SIZED.keys())
def test_sizes(model, parameters, text):
    refused(clone(model).set_params(**parameters), X, match=text)
    ridge = gm.KernelRidge(gamma=model.gamma, approximation=clone(model).set_params(**parameters))
    with pytest.raises(gm.InputError, match=text):
        ridge.fit(X, Y)


@pytest.mark.parametrize(("model", "text"), SINGLE.values(), ids=SINGLE.keys())
def test_parameters_of_one_method(model, text):
    refused(model, X, match=text)


@pytest.mark.parametrize(
    "parameters",
    [{"gamma": 3.0}, {"kernel": "laplacian"}, {"memory_budget": "1MB"}, {"tile_dtype": "float64"}],
)
def test_parameters_of_an_instance_that_would_have_no_effect(parameters):
    (name,) = parameters
    ridge = gm.KernelRidge(approximation=gm.MEKA(rank=5, n_blocks=2, **parameters))
    with pytest.raises(gm.InputError, match=f"would have no effect: {name} is taken from KernelRidge. Write"):
        ridge.fit(X, Y)
    # The same value on both sides says nothing wrong.
    ridge.set_params(**parameters)
    if name != "memory_budget":
        ridge.fit(X, Y)


def test_a_process_names_itself_as_the_owner_of_such_parameters():
    model = gm.GaussianProcessRegressor(approximation=gm.MultiResolution(gamma=2.0), random_state=0)
    with pytest.raises(gm.InputError, match="gamma is taken from GaussianProcessRegressor"):
        model.fit(X, Y)


RIDGES = {
    "alpha 0": ({"alpha": 0}, "alpha=0 must be a positive, finite number"),
    "alpha below 0": ({"alpha": -1.0}, "alpha=-1.0 must be a positive, finite number"),
    "alpha word": ({"alpha": "1"}, "alpha='1' must be a positive, finite number"),
    "alpha inf": ({"alpha": float("inf")}, "alpha=inf must be a positive, finite number"),
    "method": ({"approximation": "mekka"}, "approximation='mekka' is unknown.*Did you mean 'meka'"),
    "class": ({"approximation": gm.MEKA}, r"approximation=MEKA is a class. Pass an instance: MEKA\(\)"),
    "other": ({"approximation": gm.KernelRidge()}, r"approximation=KernelRidge\(\) is unknown"),
    "number": ({"approximation": 3}, "approximation=3 is unknown. Choose one of auto, exact"),
}


@RIDGE
@pytest.mark.parametrize(("parameters", "text"), RIDGES.values(), ids=RIDGES.keys())
def test_ridge_parameters(model, parameters, text):
    refused(clone(model).set_params(**parameters), X, target(model), match=text)


WEIGHTS = {
    "shape": (np.ones(59), r"sample_weight has shape \(59,\); expected \(60,\), one weight for each row"),
    "axes": (np.ones((60, 1)), r"sample_weight has shape \(60, 1\)"),
    "negative": (np.r_[-1.0, np.ones(59)], "sample_weight holds negative, infinite or NaN entries"),
    "nan": (np.r_[np.nan, np.ones(59)], "sample_weight holds negative, infinite or NaN entries"),
    "zero": (np.zeros(60), "sample_weight is zero everywhere; at least one row must count"),
    "words": (["a"] * 60, "sample_weight .*cannot be read as numbers"),
}


@RIDGE
@pytest.mark.parametrize(("weights", "text"), WEIGHTS.values(), ids=WEIGHTS.keys())
def test_sample_weights(model, weights, text):
    refused(model, X, target(model), match=text, sample_weight=weights)


TARGETS = {
    "none": (None, "requires y to be passed, but the target y is None"),
    "length": (Y[:50], "X has 60 rows, but y has 50"),
    "nan": (np.r_[np.nan, Y[1:]], "Input y contains NaN"),
    "sparse": (sp.csr_array(Y[:, None]), "y is a sparse matrix"),
    "complex": (Y + 1j, "Complex data not supported"),
}


@pytest.mark.parametrize(("y", "text"), TARGETS.values(), ids=TARGETS.keys())
def test_regression_targets(y, text):
    refused(MODELS["KernelRidge"], X, y, match=text)


def test_more_regression_targets():
    model = MODELS["KernelRidge"]
    refused(model, X, LABELS, match="cannot be read as numbers .*For class labels use KernelRidgeClassifier")
    refused(
        model, X, np.ones((60, 2, 2)), match=r"y has shape \(60, 2, 2\); expected \(60,\) or \(60, outputs\)"
    )
    refused(model, X, np.float64(3.0), match=r"y has shape \(\)")
    refused(model, X, np.ones((60, 0)), match=r"y has shape \(60, 0\)")


def test_class_labels():
    model = MODELS["KernelRidgeClassifier"]
    refused(
        model, X, np.full(60, "a"), match="y has one class .*'a'.*; a classifier needs at least 2 classes"
    )
    refused(model, X, Y, match="Unknown label type")
    refused(model, X, LABELS[:30], match="X has 60 rows, but y has 30")
    refused(model, X, np.r_[np.nan, np.ones(59)], match="Input y contains NaN")
    refused(model, X, np.stack([LABELS, LABELS], axis=1), match="y should be a 1d array")
    refused(model, X[:1], LABELS[:1], match="y has one class")
    for weight, text in {
        "balance": "class_weight='balance' is unknown.*Did you mean 'balanced'",
        3: "class_weight=3 has type int",
    }.items():
        refused(clone(model).set_params(class_weight=weight), X, LABELS, match=text)
    for weight, text in (
        ({"a": -1.0}, "class_weight gives -1.0 to class 'a'; give a finite number of at least 0"),
        ({"a": "1"}, "class_weight gives '1' to class 'a'"),
        ({"a": 0, "b": 0}, "sample_weight times class_weight is 0 for all rows; give a class"),
    ):
        refused(clone(model).set_params(class_weight=weight), X, LABELS, match=text)


@EVERY
def test_before_fit_and_with_other_features(model):
    if get_tags(model).requires_fit:  # the prior of a Gaussian process answers
        with pytest.raises(NotFittedError, match="not fitted yet"):
            answer(clone(model), X)
    fitted = clone(model).fit(X, target(model))
    name = type(model).__name__
    with pytest.raises(ValueError, match=f"X has 2 features, but {name} is expecting 3 features"):
        answer(fitted, X[:, :2])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        answer(fitted, with_entry(np.nan))
    assert answer(fitted, X[:1]).shape[0] == 1


def test_questions_before_fit():
    for model in (gm.MEKA(), gm.MultiResolution()):
        for ask in (lambda m: m.relative_error(X), lambda m: m.nbytes_, lambda m: m.get_feature_names_out()):
            with pytest.raises(NotFittedError):
                ask(model)
    fitted = clone(MODELS["MEKA"]).fit(X)
    with pytest.raises(gm.InputError, match="n_rows=0 must be a whole number of at least 1"):
        fitted.relative_error(X, n_rows=0)
    with pytest.raises(NotFittedError):
        gm.KernelRidgeClassifier().decision_function(X)


@EVERY
def test_a_memmap_is_refused_by_its_row(tmp_path, model):
    on_disk = np.memmap(tmp_path / "x.bin", np.float64, "w+", shape=X.shape)
    on_disk[:] = with_entry(np.inf)
    refused(
        model, on_disk, target(model), match="X contains NaN or infinity in row 17. Drop such rows or fill"
    )
    fitted = clone(model).fit(X, target(model))
    with pytest.raises(gm.InputError, match="in row 17"):
        answer(fitted, on_disk)


DEGENERATE = {
    "one row": X[:1],
    "constant": np.full((60, 3), 2.0),
    "constant column": np.column_stack([X, np.ones(60)]),
    "duplicate columns": np.hstack([X, X]),
    "duplicate rows": np.repeat(X[:6], 10, axis=0),
    "one column": X[:, :1],
    "bytes": (X * 255).astype(np.uint8),
    "booleans": X > 0.5,
    "huge": X * 1e100,
    "tiny": X * 1e-100,
}


@pytest.mark.filterwarnings("ignore:(root_)?rank=.* is larger than n_samples")
@pytest.mark.filterwarnings("ignore::gramian.NumericalWarning")
@EVERY
@pytest.mark.parametrize("table", DEGENERATE.values(), ids=DEGENERATE.keys())
@pytest.mark.parametrize("gamma", [1e-12, 1.0, 1e12])
def test_degenerate_tables_have_an_answer(model, table, gamma):
    y = target(model)[: len(table)]
    if len(table) == 1 and isinstance(model, gm.KernelRidgeClassifier):
        pytest.skip("one row is one class, which is refused")
    fitted = clone(model).set_params(gamma=gamma).fit(table, y)
    found = answer(fitted, table)
    found = found.toarray() if sp.issparse(found) else found
    assert found.dtype.kind == "U" or np.isfinite(found).all()


def test_messages_name_the_cure_in_full():
    with pytest.raises(gm.BudgetError) as error:
        gm.MEKA(memory_budget="1MB").fit(X)
    assert re.fullmatch(
        r"memory_budget=1 MB is too small for n_blocks=10, rank=128 on 3 features: "
        r"at least [\d.]+ MB is needed\. Raise the budget, or lower rank, root_rank or n_blocks "
        r"\(approximation='auto' does\)\.",
        str(error.value),
    )


MILLION = 10**6


@pytest.mark.parametrize(
    "method",
    [
        gm.BlockDiagonal(n_blocks=MILLION),
        LowRankPlusBlocks(n_blocks=MILLION),
        gm.MEKA(n_blocks=MILLION, rank=2),
        gm.MultiResolution(n_blocks=MILLION),
        gm.EnsembleNystrom(n_experts=MILLION),
    ],
    ids=lambda method: type(method).__name__,
)
def test_more_parts_than_rows_are_cut_with_a_warning(method):
    X = np.random.default_rng(0).random((60, 2))
    with pytest.warns(UserWarning, match="=1,000,000 is more than the 60 rows; .* used. Lower n_"):
        model = gm.KernelRidge(approximation=method, random_state=0).fit(X, X[:, 0])
    assert model.plan_.n_blocks <= 60
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.slow
def test_many_features_ask_the_teacher_for_a_bounded_number_of_values():
    """FastKernelRegressor with 2,000 features took minutes for the gradients of its teacher."""
    from gramian.fast.learning import metric

    asked = []

    def teacher(rows):
        asked.append(rows.size)
        return rows[:, :1]

    rows = np.random.default_rng(0).random((150, 1500))
    M = metric.gradient_outer_product(teacher, rows, rows.std(axis=0), np.random.default_rng(0))
    assert M[0, 0] > 0
    assert sum(asked) <= metric.NUMBERS
