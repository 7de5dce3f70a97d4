"""Fast kernel predictors from the literature, for comparison: one interface, float32 models.

| estimator | a prediction takes |
|---|---|
| ``LDKLClassifier`` | the D + 1 nodes of a path, three products each |
| ``AESVMClassifier`` | a kernel value for each support vector |
| ``ReducedSetClassifier`` | a kernel value for each of ``n_units`` |
| ``NystromLinearClassifier``, ``NystromLinearRegressor`` | a kernel value for each of ``n_landmarks`` |
| ``FastfoodLinearClassifier``, ``FastfoodLinearRegressor`` | a Hadamard transform and ``rank`` sines |
"""

from gramian.baselines.aesvm import AESVMClassifier
from gramian.baselines.fastfood_linear import FastfoodLinearClassifier, FastfoodLinearRegressor
from gramian.baselines.ldkl import LDKLClassifier
from gramian.baselines.nystrom_linear import NystromLinearClassifier, NystromLinearRegressor
from gramian.baselines.reduced_set import ReducedSet, ReducedSetClassifier, reduced_set

__all__ = [
    "AESVMClassifier",
    "FastfoodLinearClassifier",
    "FastfoodLinearRegressor",
    "LDKLClassifier",
    "NystromLinearClassifier",
    "NystromLinearRegressor",
    "ReducedSet",
    "ReducedSetClassifier",
    "reduced_set",
]
