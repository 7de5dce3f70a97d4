"""Choice of the preconditioner, and of the moment when a larger one pays off, by nominal costs.

Costs are seconds of one core at nominal rates, counted and not measured, so that the same problem is solved
in the same steps on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: Operations a second in double precision: products and inverses of small matrices; one large factor.
RATE, FACTOR_RATE = 2.5e10, 4e10
#: Numbers a second that are read once from memory and multiplied.
READ_RATE = 1.25e9
#: Operations and exponentials a second of a tile in single precision; double is half as fast.
TILE_RATE, EXP_RATE = 9e10, 0.8e9
#: Iterations that the first preconditioner may cost; each further one may cost so many times the last.
FIRST_BUY, GROWTH = 18.0, 4.0
#: Share of a price that is paid as rent before it is paid.
RENT = 0.4
#: Share of a Cholesky factor's price that a preconditioner may cost, where the factor can be had; and how
#: many times that price the rest of a stage must cost for no larger preconditioner to be tried before it.
DIRECT_SHARE, HOPELESS = 0.35, 4.0
#: What a root leaves of the trace, over alpha, at which it is large enough: its largest eigenvalue is then
#: about alpha, and a handful of steps is left.
ENOUGH = 100.0
#: Sampled rows, and how many eigenvalues of theirs above alpha tell that no preconditioner is too few.
LOOK_ROWS, STIFF = 200, 20
#: Rank of the root as a share of the rows of a block.
ROOT_SHARE = 0.5
#: Smallest and largest block, and least rank, that are worth building.
LEAST_BLOCK, MOST_BLOCK, LEAST_RANK = 64, 8192, 32
#: Iterations from which a rate of convergence is read, at least, and as a share of those made.
LEAST_LOOK, LOOK_SHARE = 4, 0.4


@dataclass(frozen=True, slots=True)
class Sizes:
    """A preconditioner: rank of its root, rows of its blocks; 0 for none of it."""

    rank: int
    block: int


@dataclass(frozen=True, slots=True)
class Costs:
    """Nominal seconds on one core of n rows of d features with p right-hand sides."""

    n: int
    n_features: int
    n_outputs: int
    itemsize: int
    kept: bool = False  #: whether a product reads tiles that are kept

    @property
    def product(self) -> float:
        """One product with K: half of its values, twice used."""
        slow = self.itemsize / 4.0
        if self.kept:
            return 0.5 * self.n**2 * slow * max(0.5 / READ_RATE, 8.0 * self.n_outputs / TILE_RATE)
        value = slow * (2.0 * (self.n_features + 2) / TILE_RATE + 1.0 / EXP_RATE)
        return 0.5 * self.n**2 * (value + 8.0 * slow * self.n_outputs / TILE_RATE)

    def iteration(self, sizes: Sizes) -> float:
        """One step: a product and an application."""
        held = sizes.block + 2 * sizes.rank + 6 * self.n_outputs
        return self.product + self.n * held * max(1.0 / READ_RATE, 2.0 * self.n_outputs / RATE)

    def build(self, sizes: Sizes) -> float:
        """Building a preconditioner: root, residual blocks, their inverses, the core."""
        r, b = sizes.rank, sizes.block
        flops = 2.0 * b * b + 4.0 * r * b + 4.0 * r * r + 2.0 * (b + r) * self.n_features
        return self.n * (flops / RATE + 2.0 * (b + r) / EXP_RATE)

    @property
    def direct(self) -> float:
        """A Cholesky factor of all rows."""
        return self.n**3 / 3.0 / FACTOR_RATE + 2.0 * self.n**2 / EXP_RATE

    def root_affordable(self, seconds: float, memory_bytes: int) -> int:
        """Return the rank of a root alone that takes about ``seconds`` to build, as memory allows."""
        rank = min(np.sqrt(max(seconds, 0.0) * RATE / (8.0 * self.n)), memory_bytes / (8.0 * self.n))
        return max(1, min(int(rank), self.n, MOST_BLOCK))

    def affordable(self, seconds: float, memory_bytes: int) -> Sizes:
        """Return root and blocks that take about ``seconds`` to build, as far as they fit into memory."""
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
    """When to stop renting iterations and buy: the next preconditioner, or a Cholesky factor."""

    costs: Costs
    room: int  #: bytes for a preconditioner
    direct_fits: bool
    tol: float

    def next_sizes(self, sizes: Sizes) -> Sizes | None:
        """Return the preconditioner after this one; None where memory holds none that is much larger."""
        before = self.costs.build(sizes) if sizes.block or sizes.rank else 0.0
        seconds = max(GROWTH * before, FIRST_BUY * self.costs.product)
        if self.direct_fits:
            seconds = min(seconds, DIRECT_SHARE * self.costs.direct)
        found = self.costs.affordable(seconds, self.room)
        return found if self.costs.build(found) > 0.5 * (1.0 + GROWTH) * before else None

    def verdict(self, sizes: Sizes, residuals: list[float]) -> str:
        """Return "go on", "larger" or "direct" after some iterations of a stage.

        A larger preconditioner is bought when the stage has cost ``RENT`` of its price, and would cost the
        price at least; a factor when the rest of the stage would cost more than it.
        """
        left = iterations_left(residuals, self.tol) * self.costs.iteration(sizes)
        spent = len(residuals) * self.costs.iteration(sizes)
        larger = self.next_sizes(sizes)
        price = float("inf") if larger is None else self.costs.build(larger)
        direct = self.costs.direct if self.direct_fits else float("inf")
        first = not (sizes.rank or sizes.block)
        # A rate that is read off a preconditioned stage can be trusted; before that, direct has to be cheap.
        trusted = not first and len(residuals) > LEAST_LOOK
        hope = larger is not None and left <= HOPELESS * direct
        if left > direct and not hope and (trusted or (direct <= price and spent >= RENT * direct)):
            return "direct"
        if spent >= RENT * price and left > price:
            return "larger"
        return "go on"
