"""Numbers for pairs of levels: their oracle, which pairs are kept, and what boosting gains by them."""

from __future__ import annotations

import numpy as np
import pytest

import gramian as gm
from gramian.tables.boosting.boosted import group_codes, join_groups
from gramian.tables.empirical import centred_ranks
from gramian.tables.level_means import ADDED, FOLDS, SWEEPS, level_pairs

SIZES = (4, 5, 3)


def levels(n=3000, seed=0):
    """Three categories; some rows of the first are of no level."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(1, size + 1, n) for size in SIZES])
    codes[rng.random(n) < 0.1, 0] = 0
    return codes, rng


def interaction(codes, rng, noise=0.5):
    table = rng.standard_normal((SIZES[0] + 1, SIZES[1] + 1))
    return table[codes[:, 0], codes[:, 1]] + codes[:, 2] + noise * rng.standard_normal(len(codes))


@pytest.mark.parametrize("weighted", [False, True])
def test_numbers_are_effects_and_shrunken_means_of_the_other_parts(weighted):
    codes, rng = levels()
    y = interaction(codes, rng)
    weights = rng.integers(1, 4, len(y)).astype(float) if weighted else None
    w = np.ones(len(y)) if weights is None else weights
    (pair,), own = level_pairs(codes, SIZES, y[:, None], weights, np.random.default_rng(1))
    assert (pair.first, pair.second) == (0, 1)
    rest = centred_ranks(y[:, None], weights)[:, 0]
    effects = [np.zeros(size + 1) for size in SIZES]
    for _ in range(SWEEPS):
        for j, size in enumerate(SIZES):
            rest += effects[j][codes[:, j]]
            for level in range(size + 1):
                here = codes[:, j] == level
                effects[j][level] = w[here] @ rest[here] / (w[here].sum() + ADDED)
            rest -= effects[j][codes[:, j]]
    parts = np.random.default_rng(1).permutation(len(y)) % FOLDS

    def sums(level, some):
        here = some & (codes[:, 0] == level[0]) & (codes[:, 1] == level[1])
        return w[here] @ rest[here], w[here].sum()

    every = np.ones(len(y), bool)
    base = effects[0][1] + effects[1][2]
    total, count = sums((1, 2), every)
    # The sign of the axis, and the rows that are added, follow from one number.
    sign = np.sign(np.corrcoef(own[:, 0], y)[0, 1])
    added = total / (sign * pair.values[1, 2] - base) - count
    assert 0.999 <= added <= 100.1
    for a in range(SIZES[0] + 1):
        for b in range(SIZES[1] + 1):
            total, count = sums((a, b), every)
            expected = effects[0][a] + effects[1][b] + total / (count + added)
            assert sign * pair.values[a, b] == pytest.approx(expected, abs=1e-9)
    for i in (0, 100, 2500):
        total, count = sums(codes[i, :2], parts != parts[i])
        expected = effects[0][codes[i, 0]] + effects[1][codes[i, 1]] + total / (count + added)
        assert sign * own[i, 0] == pytest.approx(expected, abs=1e-9)
    np.testing.assert_array_equal(pair.look_up(codes[:5]), pair.values[codes[:5, 0], codes[:5, 1]])


def test_pairs_that_only_add_up_are_not_kept():
    kept = 0
    for seed in range(5):
        codes, rng = levels(seed=seed)
        y = codes @ np.array([0.3, 0.2, 0.5]) + 2.0 * rng.standard_normal(len(codes))
        kept += len(level_pairs(codes, SIZES, y[:, None], None, rng)[0])
    assert kept <= 1


def test_classes_take_one_axis_and_rows_of_other_levels_their_effects():
    codes, rng = levels()
    y = (codes[:, 0] + codes[:, 1] + (rng.random(len(codes)) < 0.2)) % 2
    pairs, own = level_pairs(codes, SIZES, np.eye(2)[y], None, rng)
    assert [(pair.first, pair.second) for pair in pairs] == [(0, 1)]
    assert abs(np.corrcoef(own[:, 0], y)[0, 1]) > 0.5
    rows = np.zeros((2, 12))
    rows[0, [2, 6]] = 1.0
    groups = ((0, 1, 2, 3), (4, 5, 6, 7, 8), (9, 10, 11))
    assert group_codes(rows, groups).tolist() == [[3, 3, 0], [0, 0, 0]]
    seen = join_groups(rows, groups, np.zeros(12), pairs)
    np.testing.assert_array_equal(seen[:, -1], pairs[0].values[[3, 0], [3, 0]])


def test_boosting_sees_pairs_where_they_help(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 8, (1500, 3)).astype(str).astype(object)
    table = rng.standard_normal((8, 8))
    y = table[X[:, 0].astype(int), X[:, 1].astype(int)] + 0.3 * rng.standard_normal(len(X))
    model = gm.TabularRegressor(include=("boosting",), random_state=0).fit(X[:1000], y[:1000])
    pairs = model.model_.boosted_.pairs
    assert (pairs[0].first, pairs[0].second) == (0, 1)
    assert model.score(X[1000:], y[1000:]) > 0.85
    gm.save(model, tmp_path / "model.gm")
    np.testing.assert_array_equal(gm.load(tmp_path / "model.gm").predict(X[1000:]), model.predict(X[1000:]))
