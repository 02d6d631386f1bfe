"""The colours of charts and pages, light and dark, and the style sheets made of them.

A page names its colours by CSS variables. An SVG file that stands alone has the colours themselves,
because not every program that draws SVG knows variables.
"""
import re

LIGHT = {
    "page": "#f3f4f6", "surface": "#ffffff", "text": "#1b1f24", "quiet": "#545d68",
    "rule": "#d5dae0", "axis": "#6e7781", "good": "#217a55", "bad": "#c0392b",
    "s0": "#1f5fc4", "s1": "#b9530a", "s2": "#1a7a48", "s3": "#8a3cc4",
    "s4": "#bf2c4a", "s5": "#0d7480", "s6": "#86580f", "s7": "#5b6470",
}
DARK = {
    "page": "#0f1115", "surface": "#181b20", "text": "#e8eaed", "quiet": "#a8b0bb",
    "rule": "#363c45", "axis": "#8b949e", "good": "#4cc38a", "bad": "#f2806f",
    "s0": "#6ea8fe", "s1": "#f39b50", "s2": "#55c98f", "s3": "#c79bf2",
    "s4": "#f47f93", "s5": "#4fc6d6", "s6": "#d9b45f", "s7": "#a5aebb",
}
SERIES = 8  # colours of series, s0 to s7

FONTS = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif'

# Lines of several series differ also by their dashes, for readers that do not tell colours apart.
DASHES = ("none", "8 3", "2 3", "8 3 2 3", "5 5", "12 3", "1 4", "10 3 2 3 2 3")

CHART_RULES = f"""
svg text {{ font-family: {FONTS}; font-size: 12px; fill: $text; }}
svg text.quiet {{ fill: $quiet; }}
svg text.small {{ font-size: 11px; }}
svg text.head {{ font-weight: 600; }}
svg text.title {{ font-size: 14px; }}
.plate {{ fill: $surface; }}
.rule {{ stroke: $rule; }}
.axis {{ stroke: $axis; }}
.whisker {{ stroke: $text; stroke-width: 1.5; }}
.limit {{ stroke: $text; stroke-width: 1.5; stroke-dasharray: 5 4; }}
.good {{ fill: $good; }}
.bad {{ fill: $bad; }}
""" + "\n".join(f".s{i} {{ fill: $s{i}; stroke: $s{i}; }}" for i in range(SERIES)) + """
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.unfinished { fill-opacity: 0.25; stroke-dasharray: 3 2; }
""" + "\n".join(f".line.s{i} {{ stroke-dasharray: {dash}; }}" for i, dash in enumerate(DASHES))

PAGE_RULES = f"""
* {{ box-sizing: border-box; }}
html {{ color-scheme: light dark; -webkit-text-size-adjust: 100%; }}
body {{ margin: 0 auto; padding: 16px; max-width: 1400px; background: $page; color: $text;
  font: 15px/1.5 {FONTS}; }}
h1 {{ font-size: 24px; margin: 8px 0; overflow-wrap: anywhere; }}
h2 {{ font-size: 19px; margin: 32px 0 4px; overflow-wrap: anywhere; }}
h3 {{ font-size: 15px; margin: 0 0 8px; overflow-wrap: anywhere; }}
p, li, figcaption {{ max-width: 80ch; margin: 4px 0; overflow-wrap: anywhere; }}
nav ul {{ list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: 4px 16px; }}
a {{ color: $s0; }}
a:focus-visible, .scroll:focus-visible, summary:focus-visible {{ outline: 2px solid $s0; }}
figcaption, .quiet {{ color: $quiet; font-size: 13px; }}
.cards {{ display: grid; gap: 16px; margin-top: 12px;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 600px), 1fr)); }}
.card {{ margin: 0; padding: 16px; min-width: 0; background: $surface; border: 1px solid $rule;
  border-radius: 8px; }}
.card.full {{ grid-column: 1 / -1; }}
.chart {{ display: block; width: 100%; height: auto; }}
.chart.wide {{ max-width: 860px; }}
.chart.narrow {{ display: none; }}
.scroll {{ overflow-x: auto; margin-top: 8px; max-width: 100%; }}
summary {{ cursor: pointer; margin-top: 8px; color: $quiet; font-size: 13px; }}
table {{ border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }}
th, td {{ padding: 3px 12px 3px 0; text-align: right; white-space: nowrap;
  border-bottom: 1px solid $rule; }}
th {{ font-weight: 600; vertical-align: bottom; }}
th.words, td.words {{ text-align: left; }}
td.words.long {{ white-space: normal; min-width: 20ch; max-width: 70ch; overflow-wrap: anywhere; }}
@media (min-width: 1200px) {{
  .card.full:has(.chart) {{ display: grid; column-gap: 24px; align-items: start;
    grid-template-columns: minmax(0, 700px) minmax(0, 1fr); grid-template-rows: auto auto 1fr; }}
  .card.full h3 {{ grid-column: 1 / -1; }}
  .card.full details {{ grid-column: 2; grid-row: 2 / 4; min-width: 0; }}
}}
@media (max-width: 640px) {{
  .chart.wide {{ display: none; }}
  .chart.narrow {{ display: block; }}
  .card {{ padding: 12px; }}
}}
@media print {{ body {{ max-width: none; }} .card {{ break-inside: avoid; }} }}
"""


def with_colours(rules, colours):
    return re.sub(r"\$(\w+)", lambda match: colours[match.group(1)], rules)


def svg_style():
    """The style sheet of an SVG file that stands alone."""
    # Rules of dark come in full and in order, because later rules win.
    return (with_colours(CHART_RULES, LIGHT) + "\n@media (prefers-color-scheme: dark) {"
            + with_colours(CHART_RULES, DARK) + "\n}\n")


def page_style():
    def variables(colours):
        return " ".join(f"--{name}: {colour};" for name, colour in colours.items())

    named = with_colours(CHART_RULES + PAGE_RULES, {name: f"var(--{name})" for name in LIGHT})
    return (f":root {{ {variables(LIGHT)} }}\n@media (prefers-color-scheme: dark) {{\n"
            f":root {{ {variables(DARK)} }}\n}}\n{named}")
