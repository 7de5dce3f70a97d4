"""Drawing of the layers, ``layers.svg``, from the contract that import-linter checks.

python docs/figures/layers.py writes the file anew; a test fails where it is not up to date.
"""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURE = Path(__file__).with_suffix(".svg")

#: Name of a group of layers → its lowest one, and what the group is for.
GROUPS = {
    "edges": ("outer_product", "Commands, pictures, files: nothing below needs them."),
    "estimators": ("ridge", "Fit and predict: a folder for each kind of model."),
    "shared": ("estimator", "Approximations, exact K, learned metrics, scikit-learn's interface."),
    "core": ("data", ""),
    "ground": ("exceptions", "Search, threads, memory, rounding, files, errors."),
}
#: The way of the data: each step and its folder.
STEPS = (
    ("source", "data"),
    ("partition", "landmarks"),
    ("landmarks", "landmarks"),
    ("basis, core", "compression"),
    ("sums", "compression"),
    ("solver", "solvers"),
    ("predictor", "compression"),
)

#: Pixels: height of a layer, space below it, left edge and width of the boxes; width of a step, distance of
#: two steps on the same floor, and on different floors.
HEIGHT, SPACE, LEFT, WIDTH = 26, 5, 116, 470
CHIP, ALONG, ACROSS = 88, 100, 64
STYLE = """
  text { font: 15px system-ui, sans-serif; fill: #1f2933; }
  .folder { font-family: ui-monospace, monospace; font-size: 13px; text-anchor: middle; }
  .step { font-size: 14px; text-anchor: middle; }
  .group { font-weight: 600; text-anchor: end; }
  .ground { fill: #ffffff; }
  .box { fill: #eef2f7; stroke: #8696a7; }
  .even { fill: #dfe8f3; }
  .chip { fill: #ffe9c7; stroke: #b7791f; }
  .way { fill: none; stroke: #b7791f; stroke-width: 1.5; }
  .head { fill: #b7791f; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .ground { fill: #14181e; }
    .box { fill: #222b36; stroke: #5d6b7a; }
    .even { fill: #2c3a4b; }
    .chip { fill: #4a3714; stroke: #e0a84a; }
    .way { stroke: #e0a84a; }
    .head { fill: #e0a84a; }
  }
"""


def layers() -> list[list[str]]:
    """Return the names of each layer of the contract, the highest first."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    named = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[name.removeprefix("gramian.") for name in re.split(r" [:|] ", layer)] for layer in named]


def drawing(floors: list[list[str]]) -> str:
    """Return the picture of these layers as SVG."""
    floor = {name: number for number, names in enumerate(floors) for name in names}
    height = 20 + len(floors) * (HEIGHT + SPACE)
    middle = {name: 12 + number * (HEIGHT + SPACE) + HEIGHT // 2 for name, number in floor.items()}
    at = _places(middle)
    width = at[-1][0] + CHIP // 2 + 12
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">',
        "<title>Folders of gramian: each imports from below; data goes from source to predictor</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="ground" width="{width}" height="{height}" rx="8"/>',
    ]
    first = 0
    for number, (group, (lowest, purpose)) in enumerate(GROUPS.items()):
        last = floor[lowest]
        where = (middle[floors[first][0]] + middle[lowest]) // 2
        out.append(f'<text class="group" x="{LEFT - 12}" y="{where + 5}">{group}</text>')
        out.append(f'<text x="{LEFT + WIDTH + 34}" y="{where + 5}">{purpose}</text>')
        shade = "box even" if number % 2 else "box"
        for names in floors[first : last + 1]:
            share = (WIDTH + SPACE) / len(names)
            for place, name in enumerate(names):
                x, y = LEFT + place * share, middle[name]
                out.append(
                    f'<rect class="{shade}" x="{x:.1f}" y="{y - HEIGHT // 2}" width="{share - SPACE:.1f}" '
                    f'height="{HEIGHT}" rx="4"/>'
                )
                out.append(
                    f'<text class="folder" x="{x + (share - SPACE) / 2:.1f}" y="{y + 4}">{name}</text>'
                )
        first = last + 1
    return "\n".join([*out, *_way(at), "</svg>", ""])


def _places(middle: dict[str, int]) -> list[tuple[int, int]]:
    """Return the centre of each step: one to the right of the other, each on the floor of its folder."""
    x = LEFT + WIDTH + 30 + CHIP // 2
    at = [(x, middle[STEPS[0][1]])]
    for _, folder in STEPS[1:]:
        y = middle[folder]
        x += ALONG if y == at[-1][1] else ACROSS
        at.append((x, y))
    return at


def _way(at: list[tuple[int, int]]) -> list[str]:
    """Return the steps of the data and the arrows between them."""
    half = CHIP // 2
    left, below = at[0][0] - half, max(y for _, y in at) + 34
    out = [f'<text x="{left}" y="{below}">The way of the data: each step stands beside its folder.</text>']
    for (x, y), (to_x, to_y) in pairwise(at):
        if y == to_y:
            line, tip = f"M{x + half} {y} H{to_x - half - 1}", (to_x - half, to_y, 0)
        else:  # sideways, then up or down into the middle of the next step
            sign = 1 if to_y > y else -1
            edge = to_y - sign * HEIGHT // 2
            line, tip = f"M{x + half} {y} H{to_x} V{edge - sign}", (to_x, edge, 90 * sign)
        out.append(f'<path class="way" d="{line}"/>')
        turned = f"translate({tip[0]} {tip[1]}) rotate({tip[2]})"
        out.append(f'<path class="head" d="M0 0 L-7 -4 L-7 4 Z" transform="{turned}"/>')
    for (x, y), (step, _) in zip(at, STEPS, strict=True):
        box = f'x="{x - half}" y="{y - HEIGHT // 2}" width="{2 * half}" height="{HEIGHT}"'
        out.append(f'<rect class="chip" {box} rx="12"/>')
        out.append(f'<text class="step" x="{x}" y="{y + 4}">{step}</text>')
    return out


if __name__ == "__main__":
    PICTURE.write_text(drawing(layers()), encoding="utf-8")
