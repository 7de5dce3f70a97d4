"""DC-Pred++ (Hsieh, Si and Dhillon 2014): its items."""

from __future__ import annotations

from papers import dcpred_pseudo as pseudo
from papers.dcpred_cost import cost, cost_verdict
from papers.dcpred_sweeps import CLASSES, NUMBERS, figure_3_verdict, sweep, table_1_verdict
from papers.dcpred_weights import weights, weights_verdict
from papers.items import Item, Paper

PAPER = Paper(
    "dcpred",
    "dc-pred.md",
    (
        Item(
            "figure 1",
            ("usps", "mnist"),
            pseudo.figure_1,
            against="x linear",
            verdict=pseudo.figure_1_verdict,
        ),
        Item("table 1", CLASSES, sweep, against="x linear", logarithmic="x", verdict=table_1_verdict),
        Item("figure 3", NUMBERS, sweep, against="x linear", verdict=figure_3_verdict),
        Item(
            "weights",
            ("letter", "usps", "cadata", "cpusmall"),
            weights,
            across="landmarks",
            logarithmic="x",
            verdict=weights_verdict,
        ),
        Item("degree", ("usps", "mnist"), pseudo.degree, against="x linear", verdict=pseudo.degree_verdict),
        Item("cost", ("letter", "usps"), cost, verdict=cost_verdict),
        Item("meka", ("usps", "letter"), pseudo.meka, against="x linear", verdict=pseudo.meka_verdict),
    ),
)
