"""The HTML page: charts with their figures as tables, then every run, settings, machines, notes.

The page holds all that it shows. It has no scripts, and its policy forbids every request.
"""
from . import charts, look, scales
from .gallery import Table
from .markup import element, to_text

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
MAX_ROWS = 1000  # of one table
LONG = 24  # characters from which a text breaks into lines


def add_table(parent, table, label):
    """A table in a box that scrolls by itself when it is wider than the page."""
    box = element(parent, "div", class_="scroll", tabindex="0", role="region", aria_label=label)
    grid = element(box, "table")
    row = element(element(grid, "thead"), "tr")
    for i, head in enumerate(table.heads):
        element(row, "th", head, scope="col", class_="words" if i < table.words else None)
    body = element(grid, "tbody")
    for cells in table.rows[:MAX_ROWS]:
        row = element(body, "tr")
        for i, cell in enumerate(cells):
            class_ = "words long" if len(cell) > LONG else "words" if i < table.words else None
            element(row, "td", cell, class_=class_)
    if len(table.rows) > MAX_ROWS:
        element(parent, "p", f"{len(table.rows) - MAX_ROWS} more rows are left out.",
                class_="quiet")


def add_chart(parent, chart):
    figure = element(parent, "figure", id=f"chart-{chart.slug}",
                     class_="card full" if chart.full else "card")
    element(figure, "h3", chart.title)
    for width in (charts.WIDE, charts.NARROW):
        figure.append(chart.picture(width))
    element(figure, "figcaption", chart.desc)
    details = element(figure, "details", open="" if chart.full else None)
    element(details, "summary", "The figures as a table")
    add_table(details, chart.table, f"Figures: {chart.title}")


def optional(value, show):
    return "–" if value is None else show(value)


def finished_text(run):
    if run.failure is not None:
        return f"failed: {run.failure}"
    return "yes" if run.finished else "no"


def run_rows(sources):
    for source in sources:
        for run in source.runs:
            yield [source.name, run.store, run.phase, str(run.round),
                   optional(run.threads, scales.count), optional(run.operations, scales.count),
                   optional(run.seconds, scales.seconds), optional(run.open_s, scales.seconds),
                   optional(run.close_s, scales.seconds), optional(run.rate, scales.count),
                   finished_text(run),
                   optional(run.latency_ns.get("mean"), scales.duration_ns),
                   optional(run.latency_ns.get("p99"), scales.duration_ns),
                   optional(run.cpu_s, scales.seconds),
                   optional(run.rss_peak_bytes, scales.bytes_),
                   optional(run.device_read_bytes, scales.bytes_),
                   optional(run.device_written_bytes, scales.bytes_),
                   optional(run.write_amplification, scales.ratio),
                   optional(run.space_amplification, scales.ratio)]


RUN_HEADS = ["file", "store", "phase", "round", "threads", "operations", "time", "open", "close",
             "ops/s", "finished", "mean", "P99", "CPU time", "peak memory", "device read",
             "device written", "write ampl.", "space ampl."]
FLOORS = (("random_read_ops_per_s", "random reads", "/s", scales.count),
          ("sequential_read_bytes_per_s", "sequential reads", "/s", scales.bytes_),
          ("sequential_write_bytes_per_s", "sequential writes", "/s", scales.bytes_))


def settings_of(source):
    """[(heading, [(name, text)])] of a file."""
    floor = [(name, show(source.floor[field]) + per) for field, name, per, show in FLOORS
             if field in source.floor]
    yield "Machine", source.machine
    yield "Device by itself, measured in the run", floor
    yield "Flags", source.config
    for store, settings in source.stores:
        yield f"Settings of {store}", settings


def add_section(main, nav, slug, title):
    element(element(nav, "li"), "a", title, href=f"#{slug}")
    section = element(main, "section", id=slug)
    element(section, "h2", title)
    return section


def add_tables(main, nav, sources):
    several = len(sources) > 1
    claims = [source for source in sources if source.claims]
    if claims:
        section = add_section(main, nav, "claims", "Claims")
        cards = element(section, "div", class_="cards")
        for source in claims:
            card = element(cards, "div", class_="card")
            if several:
                element(card, "h3", source.name)
            rows = [[name, figure, optional(low, scales.ratio), optional(top, scales.ratio)]
                    for name, figure, low, top in source.claims]
            add_table(card, Table(["claim", "measured", "lower quartile", "upper quartile"], rows),
                      "Claims")
    rows = list(run_rows(sources))
    if rows:
        section = add_section(main, nav, "runs", "Every run")
        card = element(element(section, "div", class_="cards"), "div", class_="card full")
        add_table(card, Table(RUN_HEADS, rows, 3), "Every run")
    section = add_section(main, nav, "settings", "Machine and settings")
    cards = element(section, "div", class_="cards")
    for source in sources:
        for title, rows in settings_of(source):
            if rows:
                card = element(cards, "div", class_="card")
                element(card, "h3", title + (f", {source.name}" if several else ""))
                add_table(card, Table(["name", "value"], rows, 2), title)


def add_notes(main, nav, sources, entrants):
    notes = [f"{source.name}: {note}" for source in sources for note in source.notes]
    notes += [f"{source.name}: {source.left_out} more notes" for source in sources
              if source.left_out]
    if entrants.not_drawn:
        notes.append(f"Charts show the first {look.SERIES} stores; without a colour are "
                     + ", ".join(entrants.not_drawn[:20]))
    if entrants.phases_not_drawn:
        notes.append(f"Not shown: {len(entrants.phases_not_drawn)} phases beyond the first "
                     f"{len(entrants.phases)}")
    if not notes:
        return
    section = add_section(main, nav, "notes", "Notes on the input")
    entries = element(section, "ul")
    for note in notes:
        element(entries, "li", note)


def page(title, sources, entrants, sections):
    """The text of the page."""
    root = element(None, "html", lang="en")
    head = element(root, "head")
    element(head, "meta", charset="utf-8")
    element(head, "meta", http_equiv="Content-Security-Policy", content=POLICY)
    element(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    element(head, "meta", name="color-scheme", content="light dark")
    element(head, "title", title)
    element(head, "style", look.page_style())
    body = element(root, "body")
    header = element(body, "header")
    element(header, "h1", title)
    for source in sources:
        facts = dict(source.machine)
        shown = [f"bin/{source.kind}"] + [f"{name.replace('_', ' ')}: {facts[name]}"
                                          for name in ("git_hash", "cpu", "kernel", "device",
                                                       "file_system") if name in facts]
        element(header, "p", f"{source.name}: " + ", ".join(shown), class_="quiet")
    nav = element(element(header, "nav", aria_label="Sections"), "ul")
    main = element(body, "main")
    for section in sections:
        slug = "section-" + section.title.lower().replace(",", "").replace(" ", "-")
        cards = element(add_section(main, nav, slug, section.title), "div", class_="cards")
        for chart in section.charts:
            add_chart(cards, chart)
    add_tables(main, nav, sources)
    add_notes(main, nav, sources, entrants)
    return "<!DOCTYPE html>\n" + to_text(root) + "\n"
