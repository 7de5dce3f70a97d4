"""Training and serving."""

from __future__ import annotations

import pickle

import numpy as np

import gramian as gm
from hot_paths.rows import made


class Ridge:
    """50,000 rows, the default."""

    timeout = 300

    def setup(self):
        X, y = made(52_000)
        self.X, self.y, self.X_test, self.y_test = X[:50_000], y[:50_000], X[50_000:], y[50_000:]
        self.model = self.fitted()

    def fitted(self):
        return gm.KernelRidge(0.1, gamma=0.1, memory_budget="300MB", random_state=0, n_jobs=1).fit(
            self.X, self.y
        )

    def time_fit(self):
        self.fitted()

    def peakmem_fit(self):
        self.fitted()

    def time_predict(self):
        self.model.predict(self.X_test)

    def track_error(self):
        return float(np.sqrt(np.mean((self.model.predict(self.X_test) - self.y_test) ** 2)))

    def track_model_bytes(self):
        return len(pickle.dumps(self.model))


class Stream:
    """A chunk into a model that has seen others."""

    def setup(self):
        X, y = made(30_000)
        self.X, self.y = X, y
        self.model = gm.KernelRidge(0.1, gamma=0.1, random_state=0, n_jobs=1)
        self.model.partial_fit(X[:10_000], y[:10_000])

    def time_chunk(self):
        self.model.partial_fit(self.X[10_000:], self.y[10_000:])


class Exact:
    """8,000 rows to 1e-6 of the residual."""

    timeout = 300

    def setup(self):
        self.X, self.y = made(8000)

    def fitted(self):
        model = gm.KernelRidge(0.1, gamma=0.1, approximation="exact", random_state=0, n_jobs=1)
        return model.fit(self.X, self.y)

    def time_fit(self):
        self.fitted()

    def peakmem_fit(self):
        self.fitted()


class Compressed:
    """A fast model of fixed sizes, so that its search does not enter."""

    timeout = 300

    def setup(self):
        X, y = made(5000)
        teacher = gm.KernelRidge(0.1, gamma=0.1, random_state=0, n_jobs=1)
        self.X, self.y = X, y
        self.model = gm.FastKernelRegressor(
            teacher, n_levels=3, n_units=8, n_directions=8, random_state=0, n_jobs=1
        ).fit(X, y)

    def time_predict(self):
        self.model.predict(self.X)

    def track_error(self):
        return float(np.sqrt(np.mean((self.model.predict(self.X) - self.y) ** 2)))
