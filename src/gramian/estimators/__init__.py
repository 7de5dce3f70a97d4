"""The scikit-learn layer: constructors store, ``fit`` works, learned names end in an underscore."""
