"""Scales of encoded columns and maps of targets: monotone, finite, and back again."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import yeojohnson

import gramian as gm
from gramian.data.source import ArraySource
from gramian.exceptions import AccuracyWarning, InputError
from gramian.tables import EncodedRows, Scaling, TableColumns, TargetTransform
from gramian.tables.empirical import KNOTS, distribution
from gramian.tables.scaling import HOWS
from gramian.tables.target import HOWS as TARGET_HOWS
from gramian.tables.target import skewness, yeo_johnson, yeo_johnson_inverse

anything = st.floats(-1e308, 1e308, allow_subnormal=False)
moderate = st.floats(-1e6, 1e6, allow_subnormal=False)


def learned(values, how):
    """Scaling of one column, and the columns."""
    X = np.asarray(values, np.float64)[:, None]
    columns = TableColumns.learn(X)
    return Scaling.learn(columns.encode(X), columns, how)


def skewed(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack(
        [
            rng.standard_normal(n),
            np.exp(2 * rng.standard_normal(n)),
            rng.standard_cauchy(n),
            rng.integers(0, 2, n) * 7.0 + 1.0,
            np.maximum(rng.standard_normal(n) - 1, 0),
        ]
    )


@pytest.mark.parametrize("how", HOWS)
def test_columns_come_to_deviations_about_one(how):
    X = skewed()
    columns = TableColumns.learn(X)
    before = X.copy()
    scaling = Scaling.learn(X, columns, how)
    Z = scaling.apply(X)
    np.testing.assert_array_equal(X, before)
    assert scaling.methods[3] == "switch"
    assert scaling.n_columns == 5
    low, high = Z[:, 3].min(), Z[:, 3].max()
    assert high - low == pytest.approx(np.sqrt(2))
    np.testing.assert_allclose(Z[:, 3].mean(), 0, atol=1e-12)
    deviation = Z[:, [0, 1, 2, 4]].std(axis=0)
    assert (deviation > 0.4).all()
    assert (deviation < 2.0).all()
    if how == "auto":
        assert scaling.methods == ("standard", "quantile", "quantile", "switch", "quantile")


def test_standard_is_the_obvious_one():
    X = skewed()[:, :3]
    columns = TableColumns.learn(X)
    np.testing.assert_allclose(
        Scaling.learn(X, columns, "standard").apply(X),
        (X - X.mean(axis=0)) / X.std(axis=0),
        rtol=1e-9,
        atol=1e-12,
    )


def test_robust_is_the_obvious_one():
    X = skewed()[:, :3]
    first, middle, third = np.percentile(X, [25, 50, 75], axis=0)
    t = 1.349 * (X - middle) / (third - first)
    found = Scaling.learn(X, TableColumns.learn(X), "robust").apply(X)
    np.testing.assert_allclose(found, t / np.sqrt(1 + (t / 3) ** 2), rtol=1e-9, atol=1e-12)


def test_quantiles_are_uniform_of_deviation_one():
    x = np.exp(3 * np.random.default_rng(0).standard_normal(5000))
    z = np.sort(learned(x, "quantile").apply(x[:, None])[:, 0])
    np.testing.assert_allclose(z, np.sqrt(12) * ((np.arange(5000) + 0.5) / 5000 - 0.5), atol=5e-3)


def test_different_categories_are_as_far_apart_as_rows_of_a_number():
    rng = np.random.default_rng(0)
    X = np.empty((3000, 3), object)
    X[:, 0], X[:, 1] = rng.standard_normal(3000), rng.choice(list("abcd"), 3000)
    X[:, 2] = rng.random(3000) < 0.01
    columns = TableColumns.learn(X)
    Z = Scaling.learn(EncodedRows(columns, X), columns).apply(columns.encode(X))
    numeric = np.mean((Z[:1500, 0] - Z[1500:, 0]) ** 2)
    a, b = (Z[(X[:, 1] == v).argmax(), 1:5] for v in "ab")
    assert np.sum((a - b) ** 2) == pytest.approx(2.0)
    assert numeric == pytest.approx(2.0, rel=0.1)
    assert np.ptp(Z[:, 5]) ** 2 == pytest.approx(2.0)


def test_float32_stays_and_tiles_do_not_matter():
    X = skewed(9000).astype(np.float32)
    columns = TableColumns.learn(X)
    scaling = Scaling.learn(X, columns)
    Z = scaling.apply(columns.encode(X))
    assert Z.dtype == np.float32
    parts = [scaling.apply(X[k : k + 700]) for k in range(0, 9000, 700)]
    np.testing.assert_array_equal(np.concatenate(parts), Z)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-1e150, 1e150, allow_subnormal=False), min_size=3, max_size=40).filter(
        lambda v: max(v) > min(v)
    ),
    st.lists(anything, max_size=10),
    st.sampled_from(HOWS),
)
def test_scales_are_monotone_and_finite_for_any_numbers(values, others, how):
    scaling = learned(values, how)
    x = np.sort(np.array([*values, *others, -1.7e308, 0.0, 1.7e308]))
    z = scaling.apply(x[:, None])[:, 0]
    assert np.isfinite(z).all()
    assert (np.diff(z) >= -1e-9 * np.abs(z[1:]).clip(1)).all()
    seen = scaling.apply(np.array([[min(values)], [max(values)]]))[:, 0]
    assert seen[0] < seen[1]


def test_quantiles_beyond_the_training_rows_stay_apart_and_bounded():
    scaling = learned(np.arange(100.0) ** 2, "quantile")
    z = scaling.apply(np.array([[-1e9], [-1e4], [-1.0], [0.0], [9801.0], [1e4], [1e9]]))[:, 0]
    assert (np.diff(z) > 0).all()
    assert z[-1] - z[4] <= 0.5
    assert z[3] - z[0] <= 0.5


def test_a_number_that_is_constant_in_the_sample_has_a_scale():
    X = np.zeros((60_000, 1))
    X[1:3, 0] = 1.0, 2.0
    columns = TableColumns.learn(X)
    for how in HOWS:
        Z = Scaling.learn(X, columns, how, rng=np.random.default_rng(5)).apply(X[:4])
        assert np.isfinite(Z).all()
        assert Z[0, 0] < Z[1, 0] < Z[2, 0]


def test_knots_are_few_and_keep_both_ends():
    x = np.random.default_rng(0).standard_cauchy(20_000)
    knots, F = distribution(x)
    assert len(knots) <= KNOTS
    assert (knots[0], knots[-1]) == (x.min(), x.max())
    assert (np.diff(knots) > 0).all()
    assert (np.diff(F) > 0).all()


def test_scaling_of_bad_input():
    X = skewed(50)
    columns = TableColumns.learn(X)
    with pytest.raises(InputError, match=r"how='quantiles' is unknown.* Did you mean 'quantile'"):
        Scaling.learn(X, columns, "quantiles")
    with pytest.raises(InputError, match="Rows have 2 columns, but 5 were encoded"):
        Scaling.learn(X[:, :2], columns)
    scaling = Scaling.learn(ArraySource(X), columns)
    with pytest.raises(InputError, match=r"Rows have shape \(50, 2\); expected \(n, 5\)"):
        scaling.apply(X[:, :2])
    with pytest.raises(InputError, match="Rows are sparse; encoded rows are dense"):
        scaling.apply(sp.csr_array(X))


# ---- targets ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", TARGET_HOWS)
def test_targets_come_to_mean_zero_and_deviation_one(how):
    y = np.exp(1.5 * np.random.default_rng(0).standard_normal(3000))
    before = y.copy()
    transform = TargetTransform.learn(y, how)
    z = transform.forward(y)
    np.testing.assert_array_equal(y, before)
    assert z.mean() == pytest.approx(0, abs=1e-9)
    assert z.std() == pytest.approx(1, rel=1e-9)
    np.testing.assert_allclose(transform.backward(z), y, rtol=1e-6 if how != "quantile" else 0.02)
    if how != "none":
        assert abs(skewness(z)) < 0.5


def test_auto_maps_skewed_targets_only():
    rng = np.random.default_rng(0)
    normal = rng.standard_normal(2000)
    cases = {
        "none": normal,
        "log": np.exp(normal),
        "yeo-johnson": np.expm1(np.abs(normal * 2)) * (normal > -1),
    }
    for how, y in cases.items():
        assert TargetTransform.learn(y).outputs[0].how == how
        assert TargetTransform.candidates(y) == tuple(dict.fromkeys(["none", how]))
        assert TargetTransform.candidates(np.column_stack([y, y])) == TargetTransform.candidates(y)
    # No single map suits outputs of which one has no logarithm.
    for pair in (("none", "log"), ("log", "yeo-johnson"), ("none", "yeo-johnson")):
        Y = np.column_stack([cases[how] for how in pair])
        assert TargetTransform.candidates(Y) == ("none", "auto")
        assert tuple(output.how for output in TargetTransform.learn(Y).outputs) == pair
    # Skewed by a single far value, which no map mends.
    assert TargetTransform.candidates(np.append(np.zeros(500), 1.0)) == ("none",)


def test_many_outputs_are_mapped_one_by_one():
    rng = np.random.default_rng(0)
    Y = np.column_stack([rng.standard_normal(500), np.exp(2 * rng.standard_normal(500)), np.full(500, 3.0)])
    transform = TargetTransform.learn(Y)
    assert [output.how for output in transform.outputs] == ["none", "log", "none"]
    Z = transform.forward(Y)
    for j in range(3):
        np.testing.assert_array_equal(Z[:, j], TargetTransform.learn(Y[:, j]).forward(Y[:, j]))
    np.testing.assert_allclose(transform.backward(Z), Y, rtol=1e-9)
    with pytest.raises(InputError, match=r"target has shape \(500,\); expected \('n', 3\)"):
        transform.backward(Z[:, 0])


@pytest.mark.parametrize("how", [how for how in TARGET_HOWS if how != "log"])
@pytest.mark.parametrize("value", [0.0, -3.5, 1e300])
def test_a_target_of_one_value_is_zero_there_and_that_value_back(how, value):
    transform = TargetTransform.learn([value, value], how)
    np.testing.assert_array_equal(transform.forward([value, 7.0]), [0.0, 0.0])
    np.testing.assert_array_equal(transform.backward(np.array([0.0, 5.0])), [value, value])


@settings(max_examples=80, deadline=None)
@given(
    st.lists(moderate, min_size=2, max_size=40).filter(lambda v: np.ptp(v) > 1e-3),
    st.lists(st.floats(-1e6, 1e6), max_size=10),
    st.sampled_from([how for how in TARGET_HOWS if how != "log"]),
)
def test_targets_return_and_their_maps_are_monotone(values, others, how):
    y = np.array(values)
    transform = TargetTransform.learn(y, how)
    np.testing.assert_allclose(transform.backward(transform.forward(y)), y, atol=1e-6 * np.abs(y).max())
    z = np.sort(np.array([*others, -1e300, 0.0, 1e300])) if how != "none" else np.sort([*others, 0.0])
    back = transform.backward(z)
    assert np.isfinite(back).all()
    assert (np.diff(back) >= -1e-9 * np.abs(back).max()).all()
    ahead = transform.forward(np.sort(np.array([*values, *others])))
    assert np.isfinite(ahead).all()
    assert (np.diff(ahead) >= -1e-9 * np.abs(ahead[1:]).clip(1)).all()


def test_predictions_far_out_stay_near_the_training_targets():
    y = np.exp(np.random.default_rng(0).standard_normal(500))
    for how in ("log", "yeo-johnson", "quantile"):
        back = TargetTransform.learn(y, how).backward(np.array([-50.0, 50.0]))
        assert back[0] >= (y.min() / 2 if how != "yeo-johnson" else -0.1)
        assert back[1] <= y.max() * 2
    log = TargetTransform.learn(y, "log")
    # A held-out target of 0 has no logarithm: half a deviation below the least training target.
    low = log.forward(np.array([y.min()]))[0]
    np.testing.assert_allclose(log.forward(np.array([0.0, -4.0])), low - 0.5)


def test_power_map_is_that_of_scipy_and_has_its_inverse():
    u = np.concatenate([-np.logspace(-8, 4, 40), [0.0], np.logspace(-8, 4, 40)])
    for power in (0.0, 0.3, 1.0, 1.7, 2.0):
        np.testing.assert_allclose(yeo_johnson(u, power), yeojohnson(u, power), rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(yeo_johnson_inverse(yeo_johnson(u, power), power), u, rtol=1e-9)


@pytest.mark.parametrize(
    ("y", "options", "text"),
    [
        ([1.0, np.nan], {}, r"The target holds \[nan\] in row 1 \(from 0\)"),
        ([[1.0, 2.0], [np.inf, 1.0]], {}, r"The target holds \[inf  1.\] in row 1"),
        (["a", "b"], {}, "The target cannot be read as numbers"),
        ([], {}, r"The target has shape \(0,\); expected \(n,\) or \(n, outputs\)"),
        (3.0, {}, r"The target has shape \(\)"),
        ([1.0, 0.0], {"how": "log"}, r"how='log' needs positive targets; row 1 \(from 0\) holds 0"),
        ([1.0, 2.0], {"how": "logs"}, r"Target how='logs' is unknown.* Did you mean 'log'"),
    ],
)
def test_targets_of_bad_input(y, options, text):
    with pytest.raises(InputError, match=text):
        TargetTransform.learn(y, **options)


# ---- kept in files ------------------------------------------------------------------------------


def test_pickles_and_model_files(tmp_path):
    from gramian.model_file.records import PartRecords

    X, y = skewed(300), np.exp(np.random.default_rng(0).standard_normal(300))
    columns = TableColumns.learn(np.column_stack([X.astype(object), np.tile(["a", "b", None], 100)]))
    table = np.column_stack([X.astype(object), np.tile(["a", "b", None], 100)])
    encoded = columns.encode(table)
    scaling = Scaling.learn(encoded, columns)
    for how in TARGET_HOWS:
        transform = TargetTransform.learn(y, how)
        parts = (columns, scaling, transform)
        arrays = {}
        stored = PartRecords(arrays).write("parts", parts)
        for read in (pickle.loads(pickle.dumps(parts)), PartRecords(arrays).read(stored)):
            assert read[0] == columns
            np.testing.assert_array_equal(read[1].apply(read[0].encode(table)), scaling.apply(encoded))
            np.testing.assert_array_equal(read[2].forward(y), transform.forward(y))
            np.testing.assert_array_equal(read[2].backward(y), transform.backward(y))


def test_a_ridge_fits_encoded_rows():
    rng = np.random.default_rng(0)
    X = np.empty((600, 2), object)
    X[:, 0], X[:, 1] = rng.standard_normal(600), rng.choice(list("ab"), 600)
    y = np.where(X[:, 1] == "a", np.sin(2 * X[:, 0].astype(float)), 1.0)
    columns = TableColumns.learn(X)
    rows = EncodedRows(columns, X)
    model = gm.KernelRidge(1e-3, gamma=0.5, standardize=True, random_state=0).fit(rows, y)
    assert list(model.feature_names_in_) == ["0", "1=a", "1=b"]
    assert model.score(rows, y) > 0.99


def test_outputs_that_want_different_maps_are_fitted():
    X = np.random.default_rng(0).normal(size=(200, 2))
    Y = np.column_stack([X[:, 0], np.exp(2 * X[:, 0])])  # only the second has a logarithm
    model = gm.TabularRegressor(effort="fast", kernel="laplacian", random_state=0).fit(X, Y)
    assert [trial.setting.target for trial in model.search_.trials if trial.kept] == ["auto"]
    assert [output.how for output in model.target_.outputs] == ["none", "log"]
    assert model.score(X, Y) > 0.99


def test_scalings_after_the_first_count_as_time(monkeypatch):
    # 800 rows of 3,000 columns spent 4 of 10 seconds on scalings, with time_limit=5.
    X = np.random.default_rng(0).lognormal(size=(60, 3))
    learned = []

    def learn(*args, how, **options):
        learned.append(how)
        return gm_learn(*args, how=how, **options)

    gm_learn = Scaling.learn
    monkeypatch.setattr(Scaling, "learn", learn)
    model = gm.TabularRegressor(kernel="gaussian", include=(), random_state=0, time_limit=1e-3)
    with pytest.warns(AccuracyWarning, match=r"too short for the whole search"):
        model.fit(X, X[:, 0])
    assert learned == ["auto"]
    assert not model.search_.finished
    model.set_params(time_limit=None).fit(X, X[:, 0])
    assert learned == ["auto", "auto", "standard", "quantile"]
    assert model.search_.finished
