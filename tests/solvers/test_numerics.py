"""Cutoffs, whitening, jitter and clipping: relative, dtype-aware and reported."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg as la

from gramian._numerics import (
    cholesky_lower,
    clip_negative,
    descending_eigh,
    distance_error,
    entry_tolerance,
    gram_factor,
    largest_exponent,
    rank_cutoff,
    unit_roundoff,
    whiten,
)
from gramian.exceptions import NumericalWarning


def spd(m: int, rank: int, seed: int = 0) -> np.ndarray:
    factor = np.random.default_rng(seed).standard_normal((m, rank))
    return factor @ factor.T


class TestNumerics:
    def test_constants(self) -> None:
        assert unit_roundoff("f4") == 2.0**-24
        assert unit_roundoff(float) == 2.0**-53
        assert rank_cutoff("f4") == pytest.approx(1e-6, rel=1)
        assert rank_cutoff("f4", residual=True) == pytest.approx(1e-4, rel=0.1)
        assert rank_cutoff("f8") == pytest.approx(1e-13, rel=0.2)
        assert rank_cutoff("f8", residual=True) == pytest.approx(1e-10, rel=0.2)
        assert (entry_tolerance("f4"), entry_tolerance("f8")) == (2e-5, 1e-8)
        for dtype in (np.float32, np.float64):
            t = np.array(largest_exponent(dtype), dtype)
            assert np.exp(-t) == 0
            assert np.isfinite(t**3)
        errors = distance_error(np.array([0.0, 3.0]), 4, np.float64)
        np.testing.assert_allclose(errors, np.array([4.0, 16.0]) * 2.0**-53)

    @pytest.mark.parametrize("spectral", [True, False])
    @pytest.mark.parametrize("rank", [1, 4, 6, 99])
    def test_whitening(self, rank: int, spectral: bool) -> None:
        gram = spd(9, 6)
        before = gram.copy()
        result = whiten(gram, rank, 1e-10, spectral=spectral)
        np.testing.assert_array_equal(gram, before)
        r = min(rank, 6)
        assert result.vectors.shape == (9, r)
        assert result.vectors.flags.c_contiguous
        np.testing.assert_allclose(result.vectors.T @ gram @ result.vectors, np.eye(r), atol=1e-9)
        assert (np.diff(result.values) <= 0).all()
        if r == 6:
            # Nothing is left of K beyond its kept directions, whichever basis spans them.
            half = gram @ result.vectors
            np.testing.assert_allclose(half @ half.T, gram, atol=1e-9)
        if spectral or rank < 9:
            np.testing.assert_allclose(result.values, la.eigvalsh(gram)[::-1][:r])
        assert result.dropped == pytest.approx(la.eigvalsh(gram)[::-1][r:].sum(), abs=1e-9)

    @pytest.mark.parametrize("spectral", [True, False])
    def test_whitening_of_nothing(self, spectral: bool) -> None:
        assert whiten(np.zeros((3, 3)), 3, 1e-6, spectral=spectral).vectors.shape == (3, 0)
        assert whiten(np.zeros((0, 0)), 2, 1e-6, spectral=spectral).vectors.shape == (0, 0)
        negative = whiten(-np.eye(3), 3, 1e-6, spectral=spectral)
        assert negative.values.size == 0
        assert negative.dropped == pytest.approx(3.0)
        kept = whiten(np.diag([2.0, 3.0, 1.0]), 3, 1e-6, floor=1.5, spectral=spectral)
        np.testing.assert_allclose(kept.values, [3.0, 2.0])
        assert kept.dropped == pytest.approx(1.0)

    @pytest.mark.parametrize("spectral", [True, False])
    def test_whitening_leaves_out_what_is_noise(self, spectral: bool) -> None:
        rng = np.random.default_rng(3)
        noise = rng.standard_normal((40, 40)) * unit_roundoff("f4") / 40
        gram = spd(40, 8) / 40 + (noise + noise.T) / 2
        result = whiten(gram, 40, rank_cutoff("f4"), spectral=spectral)
        assert 8 <= result.vectors.shape[1] <= 12
        assert abs(result.vectors).max() < 1e4

    def test_cholesky(self) -> None:
        matrix = spd(5, 8)
        factor, jitter = cholesky_lower(matrix, "K")
        np.testing.assert_allclose(factor @ factor.T, matrix)
        assert (np.triu(factor, 1) == 0).all()
        assert jitter == 0.0

    def test_jitter_is_reported(self) -> None:
        matrix = spd(6, 2) - 1e-12 * np.eye(6)
        before = matrix.copy()
        with pytest.warns(
            NumericalWarning, match=r"K was not positive definite in floating point; .* was added"
        ):
            factor, jitter = cholesky_lower(matrix, "K")
        np.testing.assert_array_equal(matrix, before)
        np.testing.assert_allclose(factor @ factor.T, matrix + jitter * np.eye(6))
        assert 0 < jitter < 1e-8

    def test_an_indefinite_matrix_raises_with_the_jitter_that_was_tried(self) -> None:
        matrix = np.diag([1.0, -1.0])
        tried = 16 * unit_roundoff(float) * 10**6
        with pytest.raises(
            la.LinAlgError, match=rf"K is indefinite: a jitter of {tried:.3g} did .* Raise alpha"
        ):
            cholesky_lower(matrix, "K")

    def test_gram_factor(self) -> None:
        gram = spd(7, 3)
        T, inverse = gram_factor(gram)
        assert T.shape == (3, 7)
        np.testing.assert_allclose(T.T @ T, gram, atol=1e-12)
        np.testing.assert_allclose(T @ inverse, np.eye(3), atol=1e-12)
        assert gram_factor(np.zeros((4, 4)))[0].shape == (0, 4)

    def test_clipping(self) -> None:
        values, clipped = clip_negative(np.array([-1e-17, 0.5, 2.0]), "S")
        assert values.tolist() == [0.0, 0.5, 2.0]
        assert clipped == 1e-17
        with pytest.warns(NumericalWarning, match=r"S is indefinite: negative eigenvalues with sum -0.3"):
            values, clipped = clip_negative(np.array([-0.1, -0.2, 2.0]), "S")
        assert clipped == pytest.approx(0.3)
        assert clip_negative(np.zeros(0), "S")[1] == 0.0


@pytest.mark.parametrize("m", [8, 50, 200, 400])
@pytest.mark.parametrize("size", [0.0, 1.0, 3.0])
def test_a_part_of_a_spectrum_is_as_long_as_asked(m, size):
    """LAPACK may return fewer eigenpairs than asked where eigenvalues are equal."""
    matrix = size * np.eye(m) - np.ones((m, m)) / m
    for count in (1, 2, m // 8, m):
        values, vectors = descending_eigh(matrix, count)
        assert values.shape == (count,)
        assert vectors.shape == (m, count)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(count), atol=1e-12)
        np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-12)
