"""
A stream whose target drifts
============================

``partial_fit`` adds rows to a model, and ``forget`` lets old ones fade. Here the function to be learned turns
slowly, then jumps. A model that remembers all rows averages over functions that are no longer true;
one that forgets too fast has too few rows to average the noise away.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.frozen import FrozenEstimator

import gramian as gm

STEPS, JUMP, NOISE = 80, 45, 0.5
rng = np.random.default_rng(0)


def chunk(step: int, n: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and noise-free targets of a step: a wave that moves, and jumps once."""
    X = rng.random((n, 2))
    phase = 0.01 * step + (2.0 if step >= JUMP else 0.0)
    return X, np.sin(6 * X[:, 0] + phase) * np.cos(3 * X[:, 1])


# %%
# Three models over the same landmarks: an approximation that was fitted before, frozen.

sample, _ = chunk(0, 2_000)
landmarks = gm.MultiResolution(gamma=10.0, root_rank=60, rank=15, n_blocks=4, random_state=0).fit(sample)
shares = {0.0: "tab:grey", 0.15: "tab:blue", 0.9: "tab:orange"}
models = {share: gm.KernelRidge(alpha=0.5, approximation=FrozenEstimator(landmarks)) for share in shares}

# %%
# Each step predicts the next chunk first and learns from it afterwards: the error is that of unseen rows.

errors: dict[float, list[float]] = {share: [] for share in shares}
for step in range(STEPS):
    X, truth = chunk(step)
    y = truth + NOISE * rng.standard_normal(len(X))
    for share, model in models.items():
        if step:
            errors[share].append(float(np.sqrt(np.mean((model.predict(X) - truth) ** 2))))
            model.forget(share)
        model.partial_fit(X, y)

# %%
# What is kept of the rows are sums, whose size does not depend on how many there were.

for share, model in models.items():
    before, after = np.mean(errors[share][10 : JUMP - 1]), np.mean(errors[share][-10:])
    print(
        f"forget({share}): {model.n_rows_seen_:,} rows seen, error {before:.3f} in the slow drift, "
        f"{errors[share][JUMP - 1]:.3f} at the jump, {after:.3f} in the last ten steps"
    )

figure, place = plt.subplots(figsize=(8, 4), layout="constrained")
for share, colour in shares.items():
    label = "forget nothing" if share == 0 else f"forget({share}): about {1 / share:.0f} chunks of memory"
    place.plot(range(1, STEPS), errors[share], color=colour, label=label)
place.axvline(JUMP, color="crimson", ls=":", label="the target jumps")
place.set(xlabel="chunk of 100 rows", ylabel="RMSE on the next chunk, without noise", ylim=(0, None))
place.legend(fontsize="small")
plt.show()
