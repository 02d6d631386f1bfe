#!/usr/bin/env python3
"""Draws docs/figures.svg from the tables of docs/figures.md: how far each claim lies from its aim.

    scripts/chart_figures.py [--check]

A bar to the right of the line is a claim beyond its aim, one to the left is a claim that fell
short. The scale is logarithmic, because the figures are ratios. --check fails when the file differs
from the chart of the present tables. scripts/plot draws the experiments and needs matplotlib; this
script does not.
"""
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "docs" / "figures.md"
CHART = ROOT / "docs" / "figures.svg"

NAME_WIDTH = 250
PLOT_WIDTH = 480
NUMBER_WIDTH = 150
ROW = 18
LEAST, MOST = 0.2, 32.0  # the ends of the axis
TICKS = (0.25, 0.5, 1, 2, 4, 8, 16)


def beyond(aim, figure):
    """How many times better than its aim a figure is; None where there is no aim or no figure."""
    bound = re.fullmatch(r"([≥≤]?) ?([\d.]+)", aim)
    measured = re.match(r"-?[\d.]+", figure)
    if not bound or not measured or float(measured.group(0)) <= 0:
        return None
    ratio = float(measured.group(0)) / float(bound.group(2))
    return measured.group(0), 1 / ratio if bound.group(1) == "≤" else ratio


def claims():
    """[(section, [(name, aim, measured, how many times better than the aim)])]"""
    sections, machines = [], []
    for line in SOURCE.read_text(encoding="utf-8").split("\n"):
        if line.startswith("## "):
            sections.append((line[3:].replace("`", ""), []))
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| figure"):
            machines = cells[3:]
        if not line.startswith("| `") or len(cells) != 3 + len(machines):
            continue
        for machine, figure in zip(machines, cells[3:]):
            found = beyond(cells[2], figure)
            if found:
                name = cells[0].strip("`")
                sections[-1][1].append((name if len(machines) == 1 else f"{name}, {machine}",
                                        cells[2]) + found)
    return [section for section in sections if section[1]]


def place(ratio):
    """The position of a ratio on the axis."""
    share = math.log(min(max(ratio, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return NAME_WIDTH + round(share * PLOT_WIDTH, 1)


def draw(sections):
    height = ROW * (3 + sum(len(rows) + 2 for _, rows in sections))
    width = NAME_WIDTH + PLOT_WIDTH + NUMBER_WIDTH
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>']
    for tick in TICKS:
        x = place(tick)
        colour = "black" if tick == 1 else "#ccc"
        parts.append(f'<line x1="{x}" y1="{ROW * 1.5}" x2="{x}" y2="{height}" stroke="{colour}"/>')
        label = "aim" if tick == 1 else f"{tick:g} ×"
        parts.append(f'<text x="{x}" y="{ROW}" text-anchor="middle">{label}</text>')
    y = ROW * 2
    for section, rows in sections:
        y += ROW
        parts.append(f'<text x="8" y="{y}" font-weight="bold">{section}</text>')
        for name, aim, measured, ratio in rows:
            y += ROW
            left, right = sorted((place(1), place(ratio)))
            colour = "#2a7f62" if ratio >= 1 else "#c0392b"
            shown = aim.replace("≥", "&#8805;").replace("≤", "&#8804;")
            parts.append(f'<text x="{NAME_WIDTH - 8}" y="{y}" text-anchor="end">{name}</text>')
            parts.append(f'<rect x="{left}" y="{y - 11}" width="{max(right - left, 1.5):.1f}" '
                         f'height="12" fill="{colour}"/>')
            parts.append(f'<text x="{NAME_WIDTH + PLOT_WIDTH + 8}" y="{y}">{measured}, '
                         f'aim {shown}</text>')
        y += ROW
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def main(arguments):
    drawn = draw(claims())
    if "--check" in arguments:
        if not CHART.exists() or CHART.read_text(encoding="utf-8") != drawn:
            print("docs/figures.svg is not of these tables: scripts/chart_figures.py")
            return 1
        return 0
    CHART.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
