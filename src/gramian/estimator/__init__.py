"""scikit-learn's interface: base class, checks of parameters, rows and targets, display."""
