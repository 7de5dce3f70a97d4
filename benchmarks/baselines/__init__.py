"""Fast kernel predictors from the literature, for comparison: one interface, float32 models.

| estimator | a prediction takes |
|---|---|
| ``LDKLClassifier`` | the D + 1 nodes of a path, three products each |
| ``AESVMClassifier`` | a kernel value for each support vector |
| ``ReducedSetClassifier`` | a kernel value for each of ``n_units`` |
| ``NystromLinearClassifier``, ``NystromLinearRegressor`` | a kernel value for each of ``n_landmarks`` |
| ``FastfoodLinearClassifier``, ``FastfoodLinearRegressor`` | a Hadamard transform and ``rank`` sines |
"""

from baselines.aesvm import AESVMClassifier
from baselines.fastfood_linear import FastfoodLinearClassifier, FastfoodLinearRegressor
from baselines.ldkl import LDKLClassifier
from baselines.nystrom_linear import NystromLinearClassifier, NystromLinearRegressor
from baselines.reduced_set import ReducedSet, ReducedSetClassifier, reduced_set

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
