"""
Rules for landmarks on groups of unequal size
=============================================

Landmarks are the points that span an approximation. Drawn at random they go where most rows are, and small
groups stay without one. Rules that ask which rows the others do not explain find those groups, as far as
they see them.
"""

import matplotlib.pyplot as plt
import numpy as np

import gramian as gm
from gramian.operators import KernelOperator
from gramian.spectra import leverage_scores

# %%
# A crowd of 2,500 rows, and eight groups of six rows around it.

rng = np.random.default_rng(0)
angle = np.linspace(0, 2 * np.pi, 8, endpoint=False)
groups = np.repeat(3.2 * np.column_stack([np.cos(angle), np.sin(angle)]), 6, axis=0)
X = np.concatenate([0.4 * rng.standard_normal((2_500, 2)), groups + 0.05 * rng.standard_normal((48, 2))])
gamma, count = 2.0, 50

# %%
# The leverage score of a row is how much of it the others cannot explain at a given ridge. The scores sum to
# the effective dimension: so many landmarks it takes. The groups are 2 % of the rows and a quarter of it.

scores = leverage_scores(KernelOperator(gm.Gaussian((2 * gamma) ** -0.5), X), 0.1, random_state=0).values
print(f"effective dimension {scores.sum():.1f}, of which the groups have {scores[2_500:].sum():.1f}")

# %%
# Fifty landmarks by each rule, without recompression. ``landmarks=`` takes points, too: here rows drawn
# by the scores above. A group is missed where K̃ holds less than half of k(x, x) for its rows.

chosen = rng.choice(len(X), count, replace=False, p=scores / scores.sum())
rules = {name: name for name in ("uniform", "kmeans", "leverage", "bless", "rpcholesky")}
rules["drawn by leverage_scores"] = X[chosen]
found = {}
for name, landmarks in rules.items():
    a = gm.Nystrom(gamma=gamma, rank=count, oversampling=1, landmarks=landmarks, random_state=0).fit(X)
    held = a.operator_.diagonal()[2_500:].reshape(8, 6).mean(axis=1)
    error, missed = float(a.relative_error(X, n_rows=300, random_state=0)), int((held < 0.5).sum())
    found[name] = a.landmarks_, error, missed
    print(f"{name:24} error {error:.1e}, groups missed: {missed} of 8")

# %%
# ``"leverage"`` estimates its scores from as many rows drawn at random, and gives a score near 0 to a row far
# from all of them: the groups. ``"bless"`` and ``"rpcholesky"`` ask what is left unexplained. A draw by
# scores can still miss a group; pivots go where most is left, so that the next one finds it.

figure, places = plt.subplots(2, 3, figsize=(10, 7), sharex=True, sharey=True, layout="constrained")
for place, (name, (points, error, missed)) in zip(places.flat, found.items(), strict=True):
    place.plot(*X.T, ".", ms=3, color="silver")
    place.plot(*points.T, "o", ms=5, mfc="none", color="crimson")
    place.set_title(f"{name}\nerror {error:.1e}, groups missed: {missed}", fontsize="medium")
    place.set_aspect("equal")
plt.show()
