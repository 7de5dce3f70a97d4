"""Digits: a pipeline of scaling and kernel classification, saved to a file and loaded again."""

import tempfile
from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gramian as gm


def main() -> None:
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
    model = make_pipeline(
        StandardScaler(),
        gm.KernelRidgeClassifier(alpha=0.1, gamma=0.01, random_state=0),
    )
    model.fit(X_train, y_train)
    print(model[-1].plan_)
    print(f"accuracy on {len(y_test)} held-out digits: {model.score(X_test, y_test):.3f}")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.gramian"
        gm.save(model, path)
        again = gm.load(path)
        print(f"the model file has {path.stat().st_size / 1e3:.0f} kB")
    assert (again.predict(X_test) == model.predict(X_test)).all()


if __name__ == "__main__":
    main()
