#!/usr/bin/env python3
"""Draws docs/figures.svg from the tables of docs/figures.md: how far each claim lies from its aim.

    scripts/chart_figures.py [--check]

A bar to the right of the line is a claim beyond its aim, one to the left is a claim that fell
short. --check fails when the file differs from the chart of the present tables. The drawing is that
of bin/report; scripts/plot draws the experiments and needs matplotlib.
"""
import pathlib
import re
import sys

from report import charts, ratios

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "docs" / "figures.md"
CHART = ROOT / "docs" / "figures.svg"
WIDTH = 880


def beyond(aim, figure):
    """How many times better than its aim a figure is; None where there is no aim or no figure."""
    bound = re.fullmatch(r"([≥≤]?) ?([\d.]+)", aim)
    measured = re.match(r"-?[\d.]+", figure)
    if not bound or not measured or float(measured.group(0)) <= 0:
        return None
    ratio = float(measured.group(0)) / float(bound.group(2))
    return measured.group(0), 1 / ratio if bound.group(1) == "≤" else ratio


def claims():
    """[(section, [Ratio])] of each claim that has an aim, for each machine."""
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
                name = name if len(machines) == 1 else f"{name}, {machine}"
                sections[-1][1].append(ratios.Ratio(name, found[1], f"{found[0]}, aim {cells[2]}"))
    return [section for section in sections if section[1]]


def draw(sections):
    canvas = charts.Canvas("figures", "Each claim beside its aim",
                           "A bar to the right of the line is a claim beyond its aim, one to the "
                           "left is a claim that fell short. The axis is logarithmic.", WIDTH,
                           shows_title=True)
    ratios.ratio_chart(canvas, sections, "aim")
    return charts.stand_alone(canvas.finish())


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
