"""Explicit feature maps with their oracles: the map written naively in float64 from what was drawn."""

from __future__ import annotations

import numpy as np
import scipy.linalg as la
from approximation_market import Case, settings

import gramian as gm
from gramian.approximations.polynomial_maps import RandomMaclaurin, TensorSketch
from gramian.approximations.random_fourier import Fastfood, RandomFourier
from gramian.kernels import Cauchy


def drawn(fitted):
    return fitted.features_.nodes[0].columns


def waves(columns, T):
    """Features of the phases T = (w_j·x): cosines and sines, or one shifted cosine."""
    if columns.phases is not None:
        return columns.amplitudes * np.cos(T + columns.phases)
    return np.hstack([columns.amplitudes * np.cos(T), columns.amplitudes * np.sin(T)])


def fourier(fitted, X, Y):
    columns = drawn(fitted)
    left, right = (waves(columns, Z @ columns.frequencies.astype(float)) for Z in (X, Y))
    return left @ right.T


def fastfood_frequencies(columns):
    """S H G Π H B as dense matrices, block by block."""
    blocks, d = columns.scales.shape
    width = len(columns.gauss) // blocks
    H = la.hadamard(width).astype(float)
    parts = []
    for b in range(blocks):
        own = slice(b * width, (b + 1) * width)
        permuted = np.eye(width)[columns.order[own] - b * width]
        B = np.zeros((width, d))
        B[:d] = np.diag(columns.scales[b])
        parts.append(H @ np.diag(columns.gauss[own]) @ permuted @ H @ B)
    W = np.concatenate(parts)[: len(columns.lengths)]
    return columns.lengths[:, None] * W


def fastfood(fitted, X, Y):
    columns = drawn(fitted)
    W = fastfood_frequencies(columns)
    return waves(columns, X @ W.T) @ waves(columns, Y @ W.T).T


def maclaurin(fitted, X, Y):
    """Sum over features of a product over their factors."""
    columns = drawn(fitted)
    ends = np.cumsum(columns.counts)

    def features(Z):
        out = [columns.low[0] * np.ones(len(Z)), *(columns.low[1:] * Z).T] if len(columns.low) else []
        for i, amplitude in enumerate(columns.amplitudes):
            factors = [
                Z @ columns.signs[:, end - count + i] for end, count in zip(ends, columns.counts) if i < count
            ]
            out.append(amplitude * np.prod(factors, axis=0) * np.ones(len(Z)))
        return np.column_stack(out)

    return features(X) @ features(Y).T


def tensor_sketch(fitted, X, Y):
    """Circular convolution of the hashed rows, by its definition."""
    columns = drawn(fitted)
    r = columns.rank

    def count(Z, j):
        out = np.zeros((len(Z), r))
        rows = np.column_stack([Z, np.ones(len(Z))])
        for i, bucket in enumerate(columns.buckets[j]):
            out[:, bucket] += columns.values[j, i] * rows[:, i]
        return out

    def features(Z):
        total = count(Z, 0)
        for j in range(1, len(columns.buckets)):
            other = count(Z, j)
            total = np.stack(
                [(total * np.roll(other[:, ::-1], k + 1, axis=1)).sum(axis=1) for k in range(r)]
            ).T
        return total

    return features(X) @ features(Y).T


def wave(kind, **parameters):
    return kind(**settings(**{"rank": 60, **parameters}))


def dot(kind, **parameters):
    return kind(**settings(**{"rank": 60, "gamma": 0.5, **parameters}))


TWO = gm.Gaussian((1.0, 0.5, 2.0)) + 2.0 * gm.Matern(0.7, nu=2.5) * Cauchy(2.0)

MARKET = {
    "fourier": Case(wave(RandomFourier), fourier),
    "fourier phase": Case(wave(RandomFourier, form="phase", rank=51), fourier),
    "fourier iid laplacian": Case(wave(RandomFourier, draws="iid", kernel="laplacian"), fourier),
    "fourier sobol": Case(wave(RandomFourier, draws="qmc", kernel="matern32"), fourier),
    "fourier sum": Case(wave(RandomFourier, kernel=TWO, gamma=None), fourier),
    "fourier sum, phase": Case(wave(RandomFourier, kernel=TWO, gamma=None, form="phase"), fourier),
    "fastfood": Case(wave(Fastfood), fastfood),
    "fastfood phase": Case(wave(Fastfood, form="phase", rank=51, kernel="cauchy"), fastfood),
    "maclaurin": Case(dot(RandomMaclaurin), maclaurin),
    "maclaurin exact": Case(dot(RandomMaclaurin, exact_low=True, degree=4), maclaurin),
    "maclaurin drawn": Case(dot(RandomMaclaurin, powers="drawn"), maclaurin),
    "sketch": Case(dot(TensorSketch), tensor_sketch),
    "sketch odd": Case(dot(TensorSketch, rank=53, degree=2, coef0=0.0), tensor_sketch),
    "sketch linear": Case(
        dot(TensorSketch, kernel=3.0 * gm.Linear((1.0, 2.0, 0.5)), gamma=None), tensor_sketch
    ),
}
