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
    "edges": ("outer_product", "Commands, pictures, files, comparisons: nothing below needs them."),
    "estimators": ("ridge", "Fit and predict: a folder for each kind of model."),
    "shared": ("estimator", "The approximations, the exact K, learned metrics, scikit-learn's interface."),
    "core": ("data", ""),
    "ground": ("exceptions", "Threads, memory, rounding, files, errors."),
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

#: Pixels: height of a layer, space below it, left edge and width of the boxes, distance between two steps.
HEIGHT, SPACE, LEFT, WIDTH, STEP = 24, 6, 108, 480, 84
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2933; }
  .folder { font-family: ui-monospace, monospace; font-size: 12px; text-anchor: middle; }
  .step { font-size: 12px; text-anchor: middle; }
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
    width, height = LEFT + WIDTH + 40 + STEP * len(STEPS), 20 + len(floors) * (HEIGHT + SPACE)
    middle = {name: 12 + number * (HEIGHT + SPACE) + HEIGHT // 2 for name, number in floor.items()}
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
    return "\n".join([*out, *_way(middle), "</svg>", ""])


def _way(middle: dict[str, int]) -> list[str]:
    """Return the steps of the data, one to the right of the other, each on the floor of its folder."""
    half, start = STEP // 2 - 5, LEFT + WIDTH + 30 + STEP // 2
    at = [(start + number * STEP, middle[folder]) for number, (_, folder) in enumerate(STEPS)]
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
