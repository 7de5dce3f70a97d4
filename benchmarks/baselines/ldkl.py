r"""Local deep kernel learning: a tree of linear models, summed along a row's path with soft gates.

Source: Jose, Goyal, Aggrwal and Varma 2013.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from baselines.base import BaselineClassifier, WeightedRows, moments
from gramian._checks import not_negative, positive_number, whole_number
from gramian._random import as_generator, children
from gramian._tiles import row_slices
from gramian._typing import FloatArray, IntArray, Rows
from gramian.engine import Engine
from gramian.exceptions import InputError
from gramian.kernels.columns import dense
from gramian.landmarks.routing import shift_rows

#: The top levels of a tree, 31 nodes, are evaluated for all rows by one product; gathering the vectors of
#: each row's own nodes costs more. Chosen by hand, as are the next constants.
WHOLE_LEVELS = 5
#: Rows of a prediction tile; shorter tiles lose time in calls.
PREDICT_ROWS = 2048
#: Largest depth; a deeper tree would have more nodes than most tables have rows.
MOST_DEPTH = 20
#: Steps between two updates of the sharpness, and the rows that each update samples.
ANNEALING_STEPS, ANNEALING_ROWS = 100, 200
#: The sharpness s of tanh(s θ·x) starts at this number over mean |θ·x| and doubles this many times, until the
#: tanh is nearly a step.
FIRST_SHARPNESS, DOUBLINGS = 0.1, 10
#: Decay of the running mean of the gradients, and of their squares (Kingma and Ba 2015).
MEAN_DECAY, SQUARE_DECAY = 0.9, 0.999


@dataclass(frozen=True, eq=False)
class PathTrees:
    r"""Predictor f(x) = Σ over the nodes k on x's path of tanh(σ θ'_k·x̃) w_k·x̃, one tree for each output.

    Node k has the children 2k + 1, taken if θ_k·x̃ > 0, and 2k + 2; x̃ = (x − c, 1).

    theta : (outputs, 2^D − 1, d + 1); theta_prime, weights : (outputs, 2^(D+1) − 1, d + 1); centre : (d,).
    """

    theta: FloatArray
    theta_prime: FloatArray
    weights: FloatArray
    sigma: float
    centre: FloatArray
    _top: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        nodes = self._top_nodes
        parts = [a[:, :nodes] for a in (self.theta_prime, self.weights, self.theta)]
        top = np.ascontiguousarray(np.concatenate(parts, axis=1).swapaxes(1, 2))
        object.__setattr__(self, "_top", top)

    @property
    def n_outputs(self) -> int:
        """Number of outputs, each a tree."""
        return len(self.weights)

    @property
    def depth(self) -> int:
        """Number of edges of a path, D."""
        return int(self.weights.shape[1] + 1).bit_length() - 2

    @property
    def nbytes(self) -> int:
        """Bytes of the parameters."""
        return sum(a.nbytes for a in (self.theta, self.theta_prime, self.weights, self.centre))

    @property
    def _top_nodes(self) -> int:
        return 2 ** min(self.depth + 1, WHOLE_LEVELS) - 1

    def decide(self, X: Rows) -> FloatArray:
        """Return f of each row, shape (n, outputs). Time O(n outputs (3 D + 2) d)."""
        out = np.empty((X.shape[0], self.n_outputs), self.weights.dtype)
        for where in row_slices(len(out), PREDICT_ROWS):
            rows = shift_rows(dense(X[where]), self.centre, ones=True)
            for tree in range(self.n_outputs):
                out[where, tree] = self._tree(rows, tree)
        return out

    def _tree(self, rows: FloatArray, tree: int) -> FloatArray:
        products = rows @ self._top[tree]
        width, top = products.shape[1], self._top_nodes
        products, starts = products.ravel(), np.arange(len(rows)) * width
        node = np.zeros(len(rows), np.intp)
        total = np.zeros(len(rows), rows.dtype)
        for level in range(self.depth + 1):
            if level < WHOLE_LEVELS:
                at = starts + node
                found = [products.take(at + part * top) for part in range(2 + (level < self.depth))]
            else:
                own = (self.theta_prime[tree], self.weights[tree], self.theta[tree])[
                    : 2 + (level < self.depth)
                ]
                found = [np.einsum("ij,ij->i", rows, vectors[node]) for vectors in own]
            gates = found[0]
            gates *= self.sigma
            np.tanh(gates, out=gates)
            gates *= found[1]
            total += gates
            if level < self.depth:
                node = 2 * node + 1 + (found[2] <= 0)
        return total


@dataclass(eq=False, repr=False)
class LDKLClassifier(BaselineClassifier):
    r"""Local deep kernel learning: f(x) = Σ_k I_k(x) tanh(σ θ'_k·x) w_k·x over the nodes of a tree.

    I_k(x) is 1 for the D + 1 nodes on x's path, which θ chooses; a prediction takes 3 D + 2 products of
    length d and no kernel value. Training minimises, by mini-batches,

    ½ (λ_w Σ‖w_k‖² + λ_θ Σ‖θ_k‖² + λ_θ' Σ‖θ'_k‖²) + mean_i max(0, 1 − y_i f(x_i)).

    Here I_k is replaced by the smooth product Π ½(1 ± tanh(s θ·x)) along the path; its sharpness s is doubled
    ten times during training. Features are standardised for training, and their scales folded into the
    vectors afterwards; a constant feature gives each vector a bias. With more than two classes, each class
    has a tree against the rest.

    Parameters
    ----------
    depth : int
        D ≥ 0, number of edges of a path; the tree has 2^(D+1) − 1 nodes. 0 is one gated linear model.
    lambda_w, lambda_theta, lambda_theta_prime : float
        The three λ ≥ 0, for standardised features.
    sigma : float
        Sharpness of the gates.
    n_epochs, batch_size : int
        Number of passes over the rows, and rows of a step.
    step : float
        Length of the first step; it falls linearly to zero. Each coordinate's step is scaled by the running
        mean of its squared gradients. With the paper's plain decreasing steps letter (A–M against N–Z)
        reached an accuracy of 0.80 to 0.89 in as many epochs, with these steps 0.95.
    random_state, n_jobs
        As in scikit-learn.

    Attributes
    ----------
    model_ : PathTrees
        The trees in float32.
    classes_, nbytes_, n_features_in_ : as named.

    Time O(epochs n 2^D d) to train; memory O(batch (2^D + d) + 2^D d). Raises ``InputError`` for unusable
    input. The objective is not convex, so training may end in a poor local minimum: try another
    ``random_state``, a ``step`` a third as long, or more epochs.

    Source: Jose, Goyal, Aggrwal and Varma 2013; the schedule of s is that of the trainer in ML.NET
    (``LdSvmTrainer``), the steps are those of Kingma and Ba 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from baselines.ldkl import LDKLClassifier
    >>> X = np.random.default_rng(0).random((1000, 2))
    >>> y = (X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)
    >>> m = LDKLClassifier(depth=3, random_state=0).fit(X, y)
    >>> bool(m.score(X, y) > 0.9), m.nbytes_ < 1000
    (True, True)
    """

    model_: PathTrees = field(init=False)

    depth: int = 5
    _: KW_ONLY
    lambda_w: float = 1e-3
    lambda_theta: float = 1e-3
    lambda_theta_prime: float = 1e-3
    sigma: float = 1.0
    n_epochs: int = 30
    batch_size: int = 128
    step: float = 0.03
    random_state: Any = None
    n_jobs: int | None = None

    def _train(self, rows: WeightedRows) -> PathTrees:
        depth = whole_number("depth", self.depth, 0)
        if depth > MOST_DEPTH:
            raise InputError(
                f"depth={depth} makes {2 ** (depth + 1) - 1} nodes for each class; give at most {MOST_DEPTH}."
            )
        descent = _Descent(
            depth,
            not_negative("lambda_theta", self.lambda_theta),
            not_negative("lambda_theta_prime", self.lambda_theta_prime),
            not_negative("lambda_w", self.lambda_w),
            positive_number("sigma", self.sigma),
            n_epochs=whole_number("n_epochs", self.n_epochs, 1),
            batch_size=whole_number("batch_size", self.batch_size, 1),
            step=positive_number("step", self.step),
        )
        centre, scale = moments(rows.rows, rows.weights)
        streams = children(as_generator(self.random_state), rows.targets.shape[1])

        def tree(output: int) -> FloatArray:
            return descent.run(rows, output, centre, scale, streams[output])

        found = np.stack(Engine(self.n_jobs).map(tree, range(len(streams))))
        # w·(x − c)/s = (w/s)·(x − c), so fold the scales into the vectors and keep the centre.
        found[:, :-1] /= scale[:, None]
        vectors = np.ascontiguousarray(found.swapaxes(1, 2))
        inner, nodes = 2**depth - 1, 2 ** (depth + 1) - 1
        parts = (slice(0, inner), slice(inner, inner + nodes), slice(inner + nodes, None))
        theta, theta_prime, weights = (np.ascontiguousarray(vectors[:, part]) for part in parts)
        return PathTrees(theta, theta_prime, weights, descent.sigma, centre)


@dataclass(frozen=True)
class _Descent:
    """Stochastic gradient descent for one tree, whose vectors θ, θ', w are the columns of one matrix."""

    depth: int
    lambda_theta: float
    lambda_theta_prime: float
    lambda_w: float
    sigma: float
    n_epochs: int
    batch_size: int
    step: float

    def run(
        self, rows: WeightedRows, output: int, centre: FloatArray, scale: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        n, d = rows.rows.shape
        inner, nodes = 2**self.depth - 1, 2 ** (self.depth + 1) - 1
        sizes = [inner, nodes, nodes]
        penalty = np.repeat([self.lambda_theta, self.lambda_theta_prime, self.lambda_w], sizes)
        penalty = penalty.astype(np.float32)
        vectors = rng.standard_normal((d + 1, sum(sizes)), np.float32) / np.float32(np.sqrt(d + 1))
        mean, square = np.zeros_like(vectors), np.zeros_like(vectors)
        labels = rows.targets[:, output].astype(np.float32)
        weights = None if rows.weights is None else (rows.weights / rows.weights.mean()).astype(np.float32)

        def batch(indices: IntArray) -> FloatArray:
            part = shift_rows(dense(rows.rows[indices]), centre, ones=True)
            part[:, :-1] /= scale
            return part

        total = self.n_epochs * -(-n // self.batch_size)
        taken, sharpness = 0, 1.0
        for _ in range(self.n_epochs):
            order = rng.permutation(n)
            for where in row_slices(n, self.batch_size):
                if taken % ANNEALING_STEPS == 0 and inner:
                    seen = batch(rng.choice(n, min(n, ANNEALING_ROWS), replace=False)) @ vectors[:, :inner]
                    size = max(float(np.abs(seen).mean()), float(np.finfo(np.float32).tiny))
                    sharpness = FIRST_SHARPNESS / size * 2.0 ** (DOUBLINGS * taken / total)
                picked = order[where]
                x, y = batch(picked), labels[picked]
                products = x @ vectors
                values, slopes = self.value_and_slopes(products, sharpness)
                pull = np.where(y * values < 1.0, -y, np.float32(0.0)) / np.float32(len(picked))
                if weights is not None:
                    pull *= weights[picked]
                slopes *= pull[:, None]
                gradient = x.T @ slopes
                gradient += penalty * vectors
                taken += 1
                mean += (1.0 - MEAN_DECAY) * (gradient - mean)
                square += (1.0 - SQUARE_DECAY) * (gradient * gradient - square)
                length = self.step * (1.0 - (taken - 1) / total) / (1.0 - MEAN_DECAY**taken)
                root = np.sqrt(square / np.float32(1.0 - SQUARE_DECAY**taken))
                root += np.finfo(np.float32).eps
                vectors -= np.float32(length) * mean / root
        return vectors

    def value_and_slopes(self, products: FloatArray, sharpness: float) -> tuple[FloatArray, FloatArray]:
        r"""Return the smooth f, shape (b,), and ∂f/∂(vector·x) of each vector.

        With τ = tanh(s θ·x): ∂I_k/∂(θ_p·x) = s (1 − τ_p) I_k for k under the left child of p, and
        −s (1 + τ_p) I_k under the right one.
        """
        inner, nodes = 2**self.depth - 1, 2 ** (self.depth + 1) - 1
        turns = np.tanh(np.float32(sharpness) * products[:, :inner])
        gates = np.tanh(np.float32(self.sigma) * products[:, inner : inner + nodes])
        linear = products[:, inner + nodes :]
        on_path = np.ones((len(products), nodes), products.dtype)
        for level in range(self.depth):
            own, left, right = _family(level)
            on_path[:, left] = 0.5 * on_path[:, own] * (1.0 + turns[:, own])
            on_path[:, right] = 0.5 * on_path[:, own] * (1.0 - turns[:, own])
        gated = on_path * gates
        below = gated * linear
        values = below.sum(axis=1)
        slopes = np.empty_like(products)
        slopes[:, inner + nodes :] = gated
        slopes[:, inner : inner + nodes] = np.float32(self.sigma) * on_path * linear * (1.0 - gates * gates)
        for level in reversed(range(self.depth)):
            own, left, right = _family(level)
            turn = turns[:, own]
            slopes[:, own] = np.float32(sharpness) * (
                (1.0 - turn) * below[:, left] - (1.0 + turn) * below[:, right]
            )
            below[:, own] += below[:, left] + below[:, right]
        return values, slopes


def _family(level: int) -> tuple[slice, slice, slice]:
    """Return the nodes of a level, and their left and right children."""
    first, after = 2**level - 1, 2 ** (level + 1) - 1
    return slice(first, after), slice(after, 2 * after + 1, 2), slice(after + 1, 2 * after + 1, 2)
