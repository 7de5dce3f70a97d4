"""What is asked of a data set when it is opened."""

from __future__ import annotations

from dataclasses import dataclass

REFUSE, ONEHOT, DROP = "refuse", "onehot", "drop"


@dataclass(frozen=True, slots=True)
class Choice:
    """Options of ``open_data``, as the formats read them."""

    target: str | tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    categorical: str = REFUSE
    key: str | None = None
    categories: dict[str, tuple[str, ...]] | None = None  #: of an earlier source; None: learned at opening
    n_features: int | None = None  #: of an earlier svmlight source
    zero_based: bool | None = None  #: whether svmlight counts features from 0; None: seen at opening

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the target columns."""
        if self.target is None:
            return ()
        return (self.target,) if isinstance(self.target, str) else self.target
