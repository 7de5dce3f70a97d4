"""
Kernel models and boosting in one model
=======================================

The default for tables trains boosting beside its kernel models and keeps it if held-out rows say so. Here the
target is smooth in two columns and jumps by the level of a third with many levels, so each part explains what
the other cannot. The mixed model is explained, saved, compressed and exported like any other.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import gramian as gm

rng = np.random.default_rng(0)
n = 3000
table = pd.DataFrame(rng.random((n, 3)), columns=["age", "distance", "noise"])
table["shop"] = pd.Categorical(rng.integers(0, 30, n).astype(str))
jumps = rng.normal(size=30)[table.shop.cat.codes]
clean = np.sin(6 * table.age * table.distance) + np.where(table.distance > 0.5, jumps, 0.0)
y = clean + 0.2 * rng.standard_normal(n)
train, test = slice(0, 2000), slice(2000, n)

# %%
# Losses of the parts on rows that none of them has seen.

model = gm.TabularRegressor(random_state=0).fit(table[train], y[train])
parts = model.contributions_
print(f"kernel models {parts.kernel:.3f}, boosting {parts.boosting:.3f}, both {parts.both:.3f}")
print(f"R² {model.score(table[test], y[test]):.3f}")

# %%
# A saved model answers as before, and the compressed one becomes a C file.

gm.save(model, "mixed.gramian")
print("equal after loading:", np.array_equal(gm.load("mixed.gramian").predict(table), model.predict(table)))
fast = model.compress(table[train], y[train], cost="20x", random_state=0)
gm.export(fast, "mixed.c")
print(f"R² of the compressed model {fast.score(table[test], y[test]):.3f}")

# %%
# Importances: by how much the held-out error rises if a column is permuted, with standard errors.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.bar(
    ["kernel models", "boosting", "both"],
    [parts.kernel, parts.boosting, parts.both],
    color=["#9db8d6", "#e0b090", "#0060a8"],
)
left.set(title="Held-out squared error / variance")
right.barh(
    list(table.columns)[::-1],
    model.feature_importances_[::-1],
    xerr=model.feature_importances_std_[::-1],
    color="#0060a8",
)
right.set(title="Importance by permutation", xlim=(0, 1))
plt.show()
