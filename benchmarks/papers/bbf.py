"""The block basis factorization paper (Wang, Li, Mahoney and Darve): its items, part by part."""

from __future__ import annotations

from papers.bbf_accuracy import ACCURACY
from papers.bbf_search import SEARCH
from papers.items import Paper

PAPER = Paper("bbf", "block-basis-factorization.md", (*SEARCH, *ACCURACY))
