"""The block basis factorization paper (Wang, Li, Mahoney and Darve): its items, part by part."""

from __future__ import annotations

from papers import bbf_classes
from papers.items import Paper

PAPER = Paper("bbf", "block-basis-factorization.md", (*bbf_classes.ITEMS,))
