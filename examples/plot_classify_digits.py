"""
Handwritten digits, and which ones are confused
===============================================

A pipeline of scaling and kernel ridge classification on scikit-learn's digits, saved to a file and loaded
again. The pictures show which digits are taken for which, and the rows of which the model was least sure.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gramian as gm

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)

# %%
# Fit
# ---
# With 1,078 rows ``approximation="auto"`` takes every row as a landmark: the exact model. ``plan_`` says so.

model = make_pipeline(StandardScaler(), gm.KernelRidgeClassifier(alpha=0.1, gamma=0.01, random_state=0))
model.fit(X_train, y_train)
print(model[-1].plan_)
print(f"accuracy on {len(y_test)} held-out digits: {model.score(X_test, y_test):.3f}")

# %%
# A model file holds numbers and text, no pickle. The loaded pipeline predicts the same bits.

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "digits.gramian"
    gm.save(model, path)
    again = gm.load(path)
    print(f"the model file has {path.stat().st_size / 1e3:.0f} kB")
assert (again.predict(X_test) == model.predict(X_test)).all()

# %%
# What is confused
# ----------------
# Off the diagonal are the errors. Beside it are the eight digits with the smallest distance between the
# largest decision value and the next: true label, then prediction.

values = model.decision_function(X_test)
predicted = model.predict(X_test)
ordered = np.sort(values, axis=1)
unsure = np.argsort(ordered[:, -1] - ordered[:, -2])[:8]

figure, places = plt.subplot_mosaic("aabcde;aafghi", figsize=(10, 4.2), layout="constrained")
ConfusionMatrixDisplay.from_predictions(y_test, predicted, ax=places["a"], colorbar=False, cmap="Blues")
places["a"].set_title(f"{(predicted != y_test).sum()} errors in {len(y_test)}")
for place, row in zip("bcdefghi", unsure, strict=True):
    places[place].imshow(X_test[row].reshape(8, 8), cmap="gray_r")
    wrong = predicted[row] != y_test[row]
    places[place].set_title(f"{y_test[row]} → {predicted[row]}", color="crimson" if wrong else "black")
    places[place].set_axis_off()
plt.show()
