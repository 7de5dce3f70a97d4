"""
A support vector machine, compressed
====================================

An SVM takes as many kernel values for an answer as it has support vectors. ``gm.compress`` learns a small
model that stands for it: kernel units in the leaves of a shallow tree. Here accuracy is drawn against the
microseconds that one row takes in a batch, for sizes from tiny to large.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import SVC

import gramian as gm

# %%
# Two classes divided by a winding border, with one label in twenty flipped.

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (6_000, 2))
y = (X[:, 1] > np.sin(3 * X[:, 0]) + 0.3 * np.cos(9 * X[:, 0])).astype(int)
y[rng.random(len(y)) < 0.05] ^= 1
X_train, y_train, X_test, y_test = X[:3_000], y[:3_000], X[3_000:], y[3_000:]


def microseconds(predict, rows: np.ndarray) -> float:
    """Return the least time of a row over five batches."""
    took = []
    for _ in range(5):
        start = time.perf_counter()
        predict(rows)
        took.append(time.perf_counter() - start)
    return 1e6 * min(took) / len(rows)


svc = SVC(gamma=4.0, C=3.0).fit(X_train, y_train)
exact = microseconds(svc.predict, X_test), svc.score(X_test, y_test)
print(f"SVC: {svc.n_support_.sum()} support vectors, accuracy {exact[1]:.3f}, {exact[0]:.1f} µs a row")

# %%
# Sizes are given here, so that the figure is the same everywhere but for its times; ``cost="20x"`` or
# ``cost="100ns"`` would search for them. ``2**n_levels`` leaves have ``n_units`` units each.
# ``predictor_`` is the model without the checks of ``predict``.

found = []
batch = np.tile(X_test, (6, 1)).astype(np.float32)
for n_levels, n_units in ((0, 2), (0, 4), (0, 8), (1, 12)):
    sizes = {"n_levels": n_levels, "n_units": n_units, "n_directions": 2}
    fast = gm.compress(svc, X_train, y_train, **sizes, random_state=0)
    took, score = microseconds(fast.predictor_, batch), fast.score(X_test, y_test)
    found.append((took, score, fast))
    same = (fast.predict(X_test) == svc.predict(X_test)).mean()
    print(f"{2**n_levels} × {n_units:2} units: accuracy {score:.3f}, agrees on {same:.1%}, {took:.2f} µs")

# %%
# Frontier on the left; on the right the border of the SVM, in black, and of the largest of the small models.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.semilogx([point[0] for point in found], [point[1] for point in found], "o-", label="compressed")
left.semilogx(*exact, "ks", label="SVC")
left.set(xlabel="µs a row", ylabel="accuracy on 3,000 other rows", title="accuracy and time")
left.legend()
a, b = np.meshgrid(np.linspace(-2, 2, 100), np.linspace(-2, 2, 100))
grid = np.column_stack([a.ravel(), b.ravel()])
right.scatter(*X_train[:1_500].T, c=y_train[:1_500], s=4, cmap="coolwarm", alpha=0.5)
for model, colour, style in ((svc, "black", "-"), (found[-1][2], "limegreen", "--")):
    right.contour(
        a, b, model.decision_function(grid).reshape(a.shape), levels=[0], colors=colour, linestyles=style
    )
right.set(title="borders: SVC (black), compressed (green)", xticks=[], yticks=[])
plt.show()
