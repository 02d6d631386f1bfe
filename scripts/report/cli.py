"""The command line of bin/report."""
import argparse
import os
import sys
import tempfile

from . import charts
from .gallery import Entrants, sections_of
from .markup import safe_text
from .page import page
from .reading import BadInput, read

DESCRIPTION = """Shows results of bin/bench, bin/compare and bin/race as one HTML page that needs
no other file, and as SVG charts. Files given together are shown together."""
ENDING = """Exit codes: 0, all was written; 1, a file of the input or the output cannot be used;
2, the command line is wrong."""


MAX_NAME = 40  # characters of a file's name that are shown


def parsed(arguments):
    parser = argparse.ArgumentParser(prog="report", description=DESCRIPTION, epilog=ENDING)
    parser.add_argument("files", nargs="+", metavar="FILE.json", help="a result")
    parser.add_argument("-o", "--output", metavar="PAGE.html", help="write the page here")
    parser.add_argument("--svg", metavar="DIR", help="write each chart into DIR as an SVG file")
    parser.add_argument("--title", help="title of the page")
    found = parser.parse_args(arguments)
    if found.output is None and found.svg is None:
        parser.error("say where to: -o PAGE.html, --svg DIR, or both")
    return found


def names_of(paths):
    """A short name for each file, unlike the others."""
    names = []
    for path in paths:
        plain = os.path.basename(path)
        plain = plain[:-len(".json")] if plain.endswith(".json") else plain
        plain = safe_text(plain, MAX_NAME)
        name, i = plain, 1
        while name in names:
            i += 1
            name = f"{plain} {i}"
        names.append(name)
    return names


def write(path, text):
    """Replaces a file as a whole, so that no reader sees a half-written one."""
    folder = os.path.dirname(path) or "."
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            # A pipe or a device, which cannot be replaced.
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return
        made, beside = tempfile.mkstemp(dir=folder, prefix=".report-")
        try:
            with os.fdopen(made, "w", encoding="utf-8") as file:
                file.write(text)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(beside, 0o666 & ~mask)
            os.replace(beside, path)
        except BaseException:
            os.unlink(beside)
            raise
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}") from None


def write_svgs(folder, sections):
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{folder}: cannot be made: {error.strerror}") from None
    for section in sections:
        for chart in section.charts:
            path = os.path.join(folder, chart.slug + ".svg")
            write(path, charts.stand_alone(chart.picture(charts.WIDE, shows_title=True)))
            print(path)


def main(arguments):
    asked = parsed(arguments)
    try:
        for path in asked.files:
            if asked.output and os.path.exists(asked.output) and os.path.exists(path) and \
                    os.path.samefile(asked.output, path):
                raise BadInput(f"{path}: is to be read and would be overwritten")
        sources = [read(path, name) for path, name in zip(asked.files, names_of(asked.files))]
        entrants = Entrants(sources)
        sections = sections_of(entrants)
        if asked.svg is not None:
            write_svgs(asked.svg, sections)
        if asked.output is not None:
            title = asked.title or "Results: " + ", ".join(source.name for source in sources)
            write(asked.output, page(safe_text(title), sources, entrants, sections))
            print(asked.output)
    except BadInput as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    for source in sources:
        if source.notes:
            print(f"report: {source.name}: {len(source.notes) + source.left_out} notes on the "
                  f"input, such as: {source.notes[0]}", file=sys.stderr)
    return 0


def run():
    sys.exit(main(sys.argv[1:]))
