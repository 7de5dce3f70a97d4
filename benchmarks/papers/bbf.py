"""The block basis factorization paper (Wang, Li, Mahoney and Darve): its items, part by part."""

from __future__ import annotations

from papers import bbf_classes
from papers.bbf_accuracy import ACCURACY
from papers.bbf_ridge import RIDGE
from papers.bbf_search import SEARCH
from papers.bbf_structure import STRUCTURE
from papers.bbf_time import TIMES
from papers.items import Paper

PAPER = Paper(
    "bbf",
    "block-basis-factorization.md",
    (*bbf_classes.ITEMS, *SEARCH, *STRUCTURE, *ACCURACY, *RIDGE, *TIMES),
)
