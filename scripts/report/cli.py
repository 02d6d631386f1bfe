"""The command line of bin/report."""
import argparse
import contextlib
import os
import stat
import sys
import tempfile

from . import charts
from .gallery import Entrants, sections_of
from .markup import safe_text
from .page import page
from .reading import BadInput, read

SUMMARY = "Shows results of bench, compare and race as one HTML page, and as SVG charts."
DESCRIPTION = "The page needs no other file. Files given together are shown together."
# The exit codes of all programs: harness/system/exit_codes.h has the same text.
ENDING = """Exit codes:
  0      done, and all is well
  1      done, and something failed: a damaged record, a missing key, a phase, a benchmark
  2      not done: a wrong command line, or files that cannot be used
  130    interrupted"""
REFUSED = 2

MAX_NAME = 40  # characters of a file's name that are shown
MAX_LINKS = 40  # that lead to an output; the kernel follows as many


def version():
    """Of the library that the program was built with; its build leaves a module for it."""
    try:
        from . import built
        return built.VERSION
    except ImportError:
        return "of a checkout"


class Parser(argparse.ArgumentParser):
    """The help begins with what the program does, as that of all programs."""

    def format_help(self):
        return SUMMARY + "\n" + super().format_help().replace("usage: ", "Usage: ", 1)


def parsed(arguments):
    parser = Parser(prog="report", usage="%(prog)s [OPTIONS] FILE.json...", description=DESCRIPTION,
                    epilog=ENDING, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=f"%(prog)s (engine_race) {version()}",
                        help="print name and version and exit")
    parser.add_argument("files", nargs="+", metavar="FILE.json", help="a result")
    parser.add_argument("-o", "--output", metavar="PAGE.html", help="write the page here")
    parser.add_argument("--svg", metavar="DIR", help="write each chart into DIR as an SVG file")
    parser.add_argument("--title", help="title of the page")
    options = parser.parse_args(arguments)
    if options.output is None and options.svg is None:
        parser.error("say where to: -o PAGE.html, --svg DIR, or both")
    return options


def names_of(paths):
    """A short name for each file, unlike the others."""
    names = []
    for path in paths:
        plain = os.path.basename(path)
        plain = plain[:-len(".json")] if plain.endswith(".json") else plain
        name, i = safe_text(plain, MAX_NAME), 1
        while name in names:
            i += 1
            name = f"{safe_text(plain, MAX_NAME - len(f' {i}'))} {i}"
        names.append(name)
    return names


def replaceable(path):
    """The file to replace for an output, at the end of all links, or None. A device, a pipe and all
    that lies or leads below /dev or /proc must be opened and written instead: programs hold it
    open, and a file in its place would not reach them."""
    for _ in range(MAX_LINKS):
        path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        if path.startswith(("/dev/", "/proc/")):
            return None
        if not os.path.islink(path):
            return path if os.path.isfile(path) or not os.path.exists(path) else None
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    return None


def replace(path, text):
    """Replaces a file as a whole, so that no reader sees a half-written one. A file that was there
    before keeps its mode and its owner."""
    descriptor, beside = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".report-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        if os.path.exists(path):
            before = os.stat(path)
            with contextlib.suppress(OSError):  # Only root gives files away.
                os.chown(beside, before.st_uid, before.st_gid)
            os.chmod(beside, stat.S_IMODE(before.st_mode))
        else:
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(beside, 0o666 & ~mask)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def write(path, text, inputs):
    """Writes an output, which must be none of the inputs, and tells its path. Standard output may
    be the output itself, so the path goes to standard error."""
    try:
        for name in inputs:
            if os.path.exists(path) and os.path.exists(name) and os.path.samefile(path, name):
                raise BadInput(f"{path}: is also an input; refusing to overwrite it")
        regular = replaceable(path)
        if regular is not None:
            replace(regular, text)
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}") from None
    if os.path.isfile(path):
        print(path, file=sys.stderr)


def write_svgs(folder, sections, inputs):
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{folder}: cannot be made: {error.strerror}") from None
    for section in sections:
        for chart in section.charts:
            picture = chart.picture(charts.WIDE, shows_title=True)
            write(os.path.join(folder, chart.slug + ".svg"), charts.stand_alone(picture), inputs)


def main(arguments):
    options = parsed(arguments)
    try:
        sources = [read(path, name) for path, name in zip(options.files, names_of(options.files))]
        entrants = Entrants(sources)
        sections = sections_of(entrants)
        if options.svg is not None:
            write_svgs(options.svg, sections, options.files)
        if options.output is not None:
            title = options.title or "Results: " + ", ".join(source.name for source in sources)
            write(options.output, page(safe_text(title), sources, entrants, sections),
                  options.files)
    except BadInput as error:
        print(f"report: {error}", file=sys.stderr)
        return REFUSED
    for source in sources:
        if source.notes:
            print(f"report: {source.name}: {len(source.notes) + source.left_out} notes on the "
                  f"input, such as: {source.notes[0]}", file=sys.stderr)
    return 0


def run():
    sys.exit(main(sys.argv[1:]))
