"""Loops over tiles that numba compiles; :mod:`gramian.kernels.compiled` says when they are used.

A number is computed by the same operations wherever it stands in a tile: sums run in order, a product and a
sum are one operation only where ``fma`` is written, and the compiler may reorder nothing. So results do not
depend on the shape of a tile, the number of threads or the width of the processor's registers.

exp and log move a number into a small interval by its exponent bits (Cody and Waite 1980), and evaluate a
polynomial of least relative error there, found by Remez's exchange. The relative error of exp is below 1e-7
in float32 and 3e-16 in float64. A processor without fused products (before 2013) computes ``fma`` slowly.
"""

# mypy: disable-error-code="arg-type, attr-defined, call-arg, var-annotated"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic, overload

from gramian._typing import Array

#: The type of a result, and the function that writes its instructions.
Builder = tuple[Any, Callable[..., Any]]
#: The column of a leaf, as :data:`gramian.tables.boosting.trees.LEAF` in 32 bits without sign.
LEAF = np.uint32(0xFFFFFFFF)


def compiled(function: Callable[..., None], nogil: bool = True) -> Callable[..., None]:
    """Return a function that is compiled at its first call with arguments of some types, cached on disk."""
    try:
        return numba.njit(cache=True, nogil=nogil, error_model="numpy")(function)
    except RuntimeError:
        # Neither this file's folder nor the user's cache is writable, so compile in every process.
        return numba.njit(nogil=nogil, error_model="numpy")(function)


@intrinsic
def fma(typing: object, a: numba.types.Type, b: numba.types.Type, c: numba.types.Type) -> Builder:
    """Return a·b + c, rounded once."""
    return a(a, a, a), lambda context, builder, signature, args: builder.fma(*args)


@intrinsic
def bits(typing: object, x: numba.types.Type) -> Builder:
    """Return the bits of a float as an integer."""
    size = x.bitwidth
    whole = numba.int32 if size == 32 else numba.int64
    return whole(x), lambda context, builder, signature, args: builder.bitcast(args[0], ir.IntType(size))


@intrinsic
def number(typing: object, x: numba.types.Type) -> Builder:
    """Return the float of an integer's bits."""
    kind, real = (ir.FloatType(), numba.float32) if x.bitwidth == 32 else (ir.DoubleType(), numba.float64)
    return real(x), lambda context, builder, signature, args: builder.bitcast(args[0], kind)


def exp(x: float) -> float:
    """Return exp(x); compiled, 0 where :func:`gramian.kernels.compiled.exp_in_place` gives 0."""
    return float(np.exp(x))


def log(x: float) -> float:
    """Return log(x), x ≥ 0."""
    return float(np.log(x))


@overload(exp)
def _exp(x: float) -> Callable[[float], float]:
    return _exp_single if x == numba.float32 else _exp_double


@overload(log)
def _log(x: float) -> Callable[[float], float]:
    return _log_single if x == numba.float32 else _log_double


# In compiled code a number without a type is float64, so all of these need one.
_LOW, _HIGH, _ZERO, _HALF, _ONE, _TWO, _INF = np.array([-69, 89, 0, 0.5, 1, 2, np.inf], np.float32)
#: A number to which this is added loses its fraction; 1/log 2; and log 2, whole and in two parts.
_ROUND, _PER_LOG2, _LOG2, _LOG2_HIGH, _LOG2_LOW = np.array(
    [1.5 * 2**23, 1.4426950408889634, 0.6931471805599453, 0.693359375, -2.12194440e-4], np.float32
)
_E2, _E3, _E4, _E5, _E6 = np.array(
    [0.499999934475697, 0.166665206316533, 0.0416683880850185, 0.00836871689382882, 0.00138145970035187],
    np.float32,
)
_L0, _L1, _L2 = np.array([0.666667767168328, 0.399774955815986, 0.29873073481958273], np.float32)
_TINY, _RAISED, _RAISE = np.array([1.2e-38, 2.0**30, 30.0], np.float32)
_ROOT_HALF, _MANTISSA, _UNIT = np.array([0x3F3504F3, 23, 1 << 23], np.int32)


def _exp_single(x: float) -> float:
    y = _LOW if x < _LOW else x
    y = _HIGH if y > _HIGH else y
    shifted = fma(y, _PER_LOG2, _ROUND)
    k = shifted - _ROUND
    r = fma(k, -_LOG2_LOW, fma(k, -_LOG2_HIGH, y))
    p = fma(fma(fma(fma(_E6, r, _E5), r, _E4), r, _E3), r, _E2)
    p = fma(p, r * r, r) + _ONE
    # 2^(k − 1) enters the exponent's bits, so that the last product overflows where it must.
    p = number(np.int32(bits(p) + np.int32(bits(shifted) << _MANTISSA) - _UNIT)) * _TWO
    p = p if x == x else x
    return _ZERO if x < _LOW else p


def _exp_double(x: float) -> float:
    y = -650.0 if x < -650.0 else x
    y = 710.0 if y > 710.0 else y
    shifted = fma(y, 1.4426950408889634, 1.5 * 2.0**52)
    k = shifted - 1.5 * 2.0**52
    r = fma(k, -1.90821492927058770002e-10, fma(k, -6.93147180369123816490e-01, y))
    p = fma(fma(2.51100498958587165e-8, r, 2.76326557593320308e-7), r, 2.75572423366803571e-6)
    p = fma(fma(p, r, 2.48014873260123366e-5), r, 1.98412698865909993e-4)
    p = fma(fma(p, r, 1.38888889478208914e-3), r, 8.33333333332220730e-3)
    p = fma(fma(p, r, 4.16666666665219907e-2), r, 1.66666666666666745e-1)
    p = fma(fma(p, r, 5.00000000000001022e-1), r * r, r) + 1.0
    p = number(bits(p) + (bits(shifted) << 52) - (1 << 52)) * 2.0
    p = p if x == x else x
    return 0.0 if x < -650.0 else p


def _log_single(x: float) -> float:
    tiny = x < _TINY
    whole = bits(x * _RAISED if tiny else x)
    k = np.int32(whole - _ROOT_HALF) >> _MANTISSA
    f = number(np.int32(whole - np.int32(k << _MANTISSA))) - _ONE
    s = f / (f + _TWO)
    z, half = s * s, _HALF * f * f
    p = fma(fma(_L2, z, _L1), z, _L0)
    p = fma(s, fma(p, z, half), -half) + f
    p = fma(np.float32(k) - (_RAISE if tiny else _ZERO), _LOG2, p)
    p = p if x < _INF else x
    return -_INF if x <= _ZERO else p


def _log_double(x: float) -> float:
    tiny = x < 2.3e-308
    whole = bits(x * 2.0**60 if tiny else x)
    k = (whole - 0x3FE6A09E667F3BCD) >> 52
    f = number(whole - (k << 52)) - 1.0
    s = f / (f + 2.0)
    z, half = s * s, 0.5 * f * f
    p = fma(fma(1.47975146838829215e-1, z, 1.53139024856819689e-1), z, 1.81835697728503213e-1)
    p = fma(fma(p, z, 2.22221984752642081e-1), z, 2.85714287432709016e-1)
    p = fma(fma(p, z, 3.99999999994110474e-1), z, 6.66666666666673490e-1)
    p = fma(s, fma(p, z, half), -half) + f
    p = fma(np.float64(k) - (60.0 if tiny else 0.0), 0.6931471805599453, p)
    p = p if x < np.inf else x
    return -np.inf if x <= 0.0 else p


@compiled
def exponential(t: Array) -> None:
    """Replace each t by exp(t)."""
    for i in range(t.size):
        t[i] = exp(t[i])


@compiled
def matern(t: Array, factor: float, square: float) -> None:
    """Replace each t by (1 + s + square·s²) exp(−s), s = √(factor·t)."""
    one = t.dtype.type(1)
    for i in range(t.size):
        s = np.sqrt(t[i] * factor)
        value = exp(-s)
        t[i] = value * fma(fma(square, s, one), s, one) if value != 0 else value


@compiled
def powered(t: Array, power: float) -> None:
    """Replace each t by exp(−t^power)."""
    for i in range(t.size):
        t[i] = exp(-exp(power * log(t[i])))


@compiled
def add_distances(sums: Array, x: float, z: Array, weight: float) -> None:
    """Add weight |x − z_j| to each sum."""
    for j in range(len(sums)):
        sums[j] = fma(abs(x - z[j]), weight, sums[j])


@compiled
def cityblock(
    X: Array,
    Z: Array,
    weights: Array,
    alone: Array,
    bundled: Array,
    ends: Array,
    heights: Array,
    places: Array,
    sizes: Array,
    out: Array,
) -> None:
    """Write Σ_f weights_f |x_if − z_fj| into ``out`` (n, m), for rows X (n, d) and columns Z (d, m).

    As :class:`gramian.kernels.cityblock.Bundles` has its features: those that stand alone are summed one by
    one; a bundle of which at most one feature of a row is not 0 costs one step for all of them.
    """
    sums, zero = np.empty(Z.shape[1], X.dtype), X.dtype.type(0)
    fours = len(alone) - len(alone) % 4
    for i in range(len(X)):
        sums[:] = 0
        # With four features at a time, the sums are read and written a quarter as often.
        for f in range(0, fours, 4):
            f0, f1, f2, f3 = alone[f], alone[f + 1], alone[f + 2], alone[f + 3]
            x0, x1, x2, x3 = X[i, f0], X[i, f1], X[i, f2], X[i, f3]
            w0, w1, w2, w3 = weights[f0], weights[f1], weights[f2], weights[f3]
            z0, z1, z2, z3 = Z[f0], Z[f1], Z[f2], Z[f3]
            for j in range(len(sums)):
                sum01 = fma(abs(x1 - z1[j]), w1, fma(abs(x0 - z0[j]), w0, sums[j]))
                sums[j] = fma(abs(x3 - z3[j]), w3, fma(abs(x2 - z2[j]), w2, sum01))
        for f in alone[fours:]:
            add_distances(sums, X[i, f], Z[f], weights[f])
        first = 0
        for b in range(len(ends)):
            place, count = -1, 0
            for f in bundled[first : ends[b]]:
                if X[i, f] != 0:
                    place, count = f, count + 1
            if count < 2:
                x, height = (X[i, place], heights[place]) if count else (zero, zero)
                size, same = abs(x) * weights[place], abs(x - height) * weights[place]
                at, own, others = X.dtype.type(place), places[b], sizes[b]
                for j in range(len(sums)):
                    sums[j] += same if own[j] == at else size + others[j]
            else:
                for f in bundled[first : ends[b]]:
                    add_distances(sums, X[i, f], Z[f], weights[f])
            first = ends[b]
        row = out[i]
        for j in range(len(sums)):
            row[j] = sums[j]


@compiled
def walk(
    rows: Array,
    columns: Array,
    numbers: Array,
    rights: Array,
    sets: Array,
    lefts: Array,
    firsts: Array,
    outputs: Array,
    out: Array,
) -> None:
    """Add to ``out`` (n, outputs) the numbers of the leaves that rows (n, columns) reach, tree by tree.

    As :class:`gramian.tables.boosting.trees.Trees` has its nodes, their columns and ``rights`` as numbers of
    32 bits without sign, which need no check for places counted from the end; ``firsts`` are the trees' first
    nodes. A tree at a time stays in the fastest cache while all rows pass it.
    """
    last = 32 * lefts.shape[1] - 1
    for tree in range(len(firsts)):
        output = outputs[tree]
        for i in range(len(rows)):
            node = firsts[tree]
            while columns[node] != LEAF:
                x, own = rows[i, columns[node]], sets[node]
                if own < 0:
                    left = x <= numbers[node]
                else:
                    code = int(x) if 0 <= x < last else last
                    left = (lefts[own, code >> 5] >> (code & 31)) & 1 == 1
                node = node + np.uint32(1) if left else rights[node]
            out[i, output] += numbers[node]
