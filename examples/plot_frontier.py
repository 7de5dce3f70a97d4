"""
What accuracy costs in prediction
=================================

Several classifiers of handwritten digits, each at three sizes, by their error on held-out digits and the time
of a predicted row. The grey steps are the Pareto front: no model that was tried is both faster and better.
"""

import itertools

from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

import gramian as gm
from gramian.plotting import FrontierDisplay

# %%
# Half of the digits are held out.
X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16.0, y, test_size=0.5, random_state=0, stratify=y)

# %%
# Three sizes for each method.
common = {"alpha": 0.1, "gamma": 0.3, "random_state": 0}
models = {
    "gramian, MultiResolution": [
        gm.KernelRidgeClassifier(approximation=gm.MultiResolution(root_rank=2 * r, rank=r), **common)
        for r in (10, 30, 90)
    ],
    "gramian, Nystrom": [
        gm.KernelRidgeClassifier(approximation=gm.Nystrom(rank=r), **common) for r in (20, 80, 320)
    ],
    "scikit-learn Nystroem": [
        make_pipeline(Nystroem(gamma=0.3, n_components=r, random_state=0), RidgeClassifier(0.1))
        for r in (20, 80, 320)
    ],
    "gradient boosting": [
        HistGradientBoostingClassifier(max_iter=r, max_leaf_nodes=8, random_state=0) for r in (3, 10, 30)
    ],
}
for model in itertools.chain.from_iterable(models.values()):
    model.fit(X_train, y_train)

# %%
# Every model predicts the held-out digits a few times; the median counts.
display = FrontierDisplay.from_estimators(models, X_test, y_test, title="Handwritten digits")
for k in display.front:
    print(f"{display.names[k]:26} {1e6 * display.cost[k]:6.1f} µs a row, {display.error[k]:.1%} wrong")
