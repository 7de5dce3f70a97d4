"""The papers, and the items that a command line names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gramian.exceptions import InputError, did_you_mean
from papers import bbf, dcpred, kals, meka, survey
from papers.items import Item, Paper

PAPERS: tuple[Paper, ...] = (meka.PAPER, survey.PAPER, kals.PAPER, bbf.PAPER, dcpred.PAPER)


def chosen(
    papers: Iterable[Paper], keys: list[str] | None, items: list[str] | None
) -> Iterator[tuple[Paper, Item]]:
    """Yield the papers of these keys with their items of these names; all where none are named."""
    papers = tuple(papers)
    _check("paper", keys, [paper.key for paper in papers])
    kept = [paper for paper in papers if keys is None or paper.key in keys]
    _check("item", items, [item.name for paper in kept for item in paper.items])
    for paper in kept:
        for item in paper.items:
            if items is None or item.name in items:
                yield paper, item


def _check(kind: str, given: list[str] | None, known: list[str]) -> None:
    for name in given or ():
        if name not in known:
            raise InputError(
                f"there is no {kind} {name!r}. Choose from {', '.join(sorted(set(known)))}."
                + did_you_mean(name, known)
            )
