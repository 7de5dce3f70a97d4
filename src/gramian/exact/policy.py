"""Choice of the preconditioner, and of the moment when a larger one pays off, by nominal costs.

Costs are nominal seconds on one core. They are counted, not measured, so the same problem takes the same
steps on every machine. The constants are chosen by hand; benchmarks/exact.py compares the resulting time of
"auto" with that of every fixed preconditioner.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: Double-precision operations per second: for products and inverses of small matrices; for one large factor.
RATE, FACTOR_RATE = 2.5e10, 4e10
#: Numbers per second that are read once from memory and multiplied.
READ_RATE = 1.25e9
#: Operations and exponentials per second of a single-precision tile; double precision is half as fast.
TILE_RATE, EXP_RATE = 9e10, 0.8e9
#: The first preconditioner may cost this many iterations; each next one may cost this many times the last.
FIRST_BUY, GROWTH = 18.0, 4.0
#: The next preconditioner (or factor) is not built before a stage has cost this share of its price.
RENT = 0.4
#: If a Cholesky factor fits into memory, a preconditioner may cost at most ``DIRECT_SHARE`` of the factor.
#: The solve goes straight to the factor if the rest of a stage would cost more than ``HOPELESS`` factors.
DIRECT_SHARE, HOPELESS = 0.35, 4.0
#: The root is large enough once the trace that it leaves is this multiple of alpha: the largest eigenvalue
#: left is then about alpha, and a handful of steps is enough.
ENOUGH = 100.0
#: Eigenvalues of K are estimated from ``LOOK_ROWS`` sampled rows. If at least ``STIFF`` of them exceed alpha,
#: plain conjugate gradients would be slow.
LOOK_ROWS, STIFF = 200, 20
#: Rank of the root, as a share of the rows of a block.
ROOT_SHARE = 0.5
#: Smallest and largest block size, and smallest rank, of a preconditioner.
LEAST_BLOCK, MOST_BLOCK, LEAST_RANK = 64, 8192, 32
#: The rate of convergence is computed over this many iterations at least, and this share of all so far.
LEAST_LOOK, LOOK_SHARE = 4, 0.4


@dataclass(frozen=True, slots=True)
class Sizes:
    """Size of a preconditioner: rank of its root and rows of its blocks; 0 if it has no such part."""

    rank: int
    block: int


@dataclass(frozen=True, slots=True)
class Costs:
    """Nominal seconds on one core for n rows with d features and p right-hand sides."""

    n: int
    n_features: int
    n_outputs: int
    itemsize: int
    kept: bool = False  #: whether a product reads stored tiles

    @property
    def product(self) -> float:
        """Cost of one product with K, which computes half of its values and uses each twice."""
        slow = self.itemsize / 4.0
        if self.kept:
            return 0.5 * self.n**2 * slow * max(0.5 / READ_RATE, 8.0 * self.n_outputs / TILE_RATE)
        value = slow * (2.0 * (self.n_features + 2) / TILE_RATE + 1.0 / EXP_RATE)
        return 0.5 * self.n**2 * (value + 8.0 * slow * self.n_outputs / TILE_RATE)

    def iteration(self, sizes: Sizes) -> float:
        """Return the cost of one step: a product and an application of the preconditioner."""
        held = sizes.block + 2 * sizes.rank + 6 * self.n_outputs
        return self.product + self.n * held * max(1.0 / READ_RATE, 2.0 * self.n_outputs / RATE)

    def build(self, sizes: Sizes) -> float:
        """Return the cost of building a preconditioner: root, residual blocks, their inverses, the core."""
        r, b = sizes.rank, sizes.block
        flops = 2.0 * b * b + 4.0 * r * b + 4.0 * r * r + 2.0 * (b + r) * self.n_features
        return self.n * (flops / RATE + 2.0 * (b + r) / EXP_RATE)

    @property
    def direct(self) -> float:
        """Cost of a Cholesky factor of all rows."""
        return self.n**3 / 3.0 / FACTOR_RATE + 2.0 * self.n**2 / EXP_RATE

    def root_affordable(self, seconds: float, memory_bytes: int) -> int:
        """Return the rank of a root without blocks that takes about ``seconds`` to build and fits memory."""
        rank = min(np.sqrt(max(seconds, 0.0) * RATE / (8.0 * self.n)), memory_bytes / (8.0 * self.n))
        return max(1, min(int(rank), self.n, MOST_BLOCK))

    def affordable(self, seconds: float, memory_bytes: int) -> Sizes:
        """Return sizes of root and blocks that take about ``seconds`` to build and fit into memory."""
        per_square = self.n * (2.0 + 4.0 * ROOT_SHARE + 4.0 * ROOT_SHARE**2) / RATE
        room = memory_bytes / (8.0 * self.n * (ROOT_SHARE + 1.25))
        block = int(min(np.sqrt(max(seconds, 0.0) / per_square), room, MOST_BLOCK, self.n))
        if block < LEAST_BLOCK:
            return Sizes(0, 0)
        return Sizes(max(LEAST_RANK, int(ROOT_SHARE * block)), block)


def iterations_left(residuals: list[float], tol: float) -> float:
    """Return how many iterations are missing at the latest rate of convergence; infinite without one."""
    count = len(residuals)
    if residuals and residuals[-1] <= tol:
        return 0.0
    look = max(LEAST_LOOK, int(LOOK_SHARE * count))
    if count <= look:
        return float("inf")
    fall = float(np.log(residuals[-1 - look] / residuals[-1])) / look
    return float(np.log(residuals[-1] / tol)) / fall if fall > 0 else float("inf")


@dataclass(frozen=True, slots=True)
class Policy:
    """Rule for when to stop iterating and build a larger preconditioner or a Cholesky factor."""

    costs: Costs
    room: int  #: bytes available for a preconditioner
    direct_fits: bool
    tol: float

    def next_sizes(self, sizes: Sizes) -> Sizes | None:
        """Return sizes of the next preconditioner, or None if memory holds none that is much larger."""
        before = self.costs.build(sizes) if sizes.block or sizes.rank else 0.0
        seconds = max(GROWTH * before, FIRST_BUY * self.costs.product)
        if self.direct_fits:
            seconds = min(seconds, DIRECT_SHARE * self.costs.direct)
        larger = self.costs.affordable(seconds, self.room)
        return larger if self.costs.build(larger) > 0.5 * (1.0 + GROWTH) * before else None

    def verdict(self, sizes: Sizes, residuals: list[float]) -> str:
        """Return "go on", "larger" or "direct" after some iterations of a stage.

        "larger" is returned once the stage has cost ``RENT`` of a larger preconditioner's price and its rest
        would cost more than that price; "direct" if the rest would cost more than a Cholesky factor.
        """
        left = iterations_left(residuals, self.tol) * self.costs.iteration(sizes)
        spent = len(residuals) * self.costs.iteration(sizes)
        larger = self.next_sizes(sizes)
        price = float("inf") if larger is None else self.costs.build(larger)
        direct = self.costs.direct if self.direct_fits else float("inf")
        first = not (sizes.rank or sizes.block)
        # Only a preconditioned stage has a reliable rate; before that, direct must be cheap to be chosen.
        trusted = not first and len(residuals) > LEAST_LOOK
        hope = larger is not None and left <= HOPELESS * direct
        if left > direct and not hope and (trusted or (direct <= price and spent >= RENT * direct)):
            return "direct"
        if spent >= RENT * price and left > price:
            return "larger"
        return "go on"
