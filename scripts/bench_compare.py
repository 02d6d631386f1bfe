#!/usr/bin/env python3
"""Runs everything that `make bench-compare` measures, one part after the other on one directory.

    scripts/bench_compare.py [--dir out/compare-store] [--json out/bench-compare.json] [--tiny]

The parts: bin/bench_c_api, python/benchmarks/read_many.py, python/examples/embeddings.py, and at
last bin/compare, which takes the claims of the others over into its JSON. The short parts come
first. Each has a limit of time, works in a directory of its own, and removes it. A part that cannot
be measured does not end the run: the JSON and the last lines of the output have the reason.

The parts in Python run in an environment in build/bench-python. It takes NumPy, lmdb and cffi from
the system and installs by pip what is missing there. PYTHON is the interpreter, by default
/usr/bin/python3.

--tiny runs everything once, tiny: no figure means much. The options that end in -args take further
arguments of a part, as one text. Exit code 0 when every part has ended well, 1 otherwise, 2 when the
disk or the flags will not do, 130 after an interrupt.
"""
import argparse
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "bin"
ENVIRONMENT = ROOT / "build" / "bench-python"
WHEELS = ROOT / "build" / "bench-wheel"
MODULES = ["numpy", "lmdb", "cffi"]
# Time to clean up, for a part that is told to end.
PATIENCE_SECONDS = 120
INSTALL_SECONDS = 1800


class Part:
    """A program whose claims bin/compare takes over from its JSON."""

    def __init__(self, name, command, tiny, claims, most_seconds, in_python=True):
        self.name, self.command, self.tiny, self.claims = name, command, tiny, claims
        self.most_seconds, self.in_python = most_seconds, in_python

    def arguments_of(self, options):
        further = shlex.split(getattr(options, self.name.replace("-", "_") + "_args"))
        return (self.tiny if options.tiny else []) + further


PARTS = [
    Part("c-api", [BIN / "bench_c_api"], ["--smoke"], ["c_api_cost"], 1800, in_python=False),
    Part("read-many", [ROOT / "python" / "benchmarks" / "read_many.py"], ["--tiny"],
         ["python_read_many_ratio", "python_hot_ratio"], 3600),
    Part("embeddings", [ROOT / "python" / "examples" / "embeddings.py"],
         ["--rows", "16000", "--batch", "256", "--limit", "32m", "--memory", "32m", "--rounds", "1",
          "--seconds", "0.1", "--warm-rows", "4000"], ["embeddings_vs_memmap"], 3 * 3600),
]


def run(command, most_seconds=None, **how):
    """Nothing when the command ends well in time, otherwise what went wrong. It is told to end
    before this raises, and after most_seconds."""
    command = [str(word) for word in command]
    try:
        child = subprocess.Popen(command, cwd=ROOT, **how)  # pylint: disable=consider-using-with
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    try:
        code = child.wait(most_seconds)
    except subprocess.TimeoutExpired:
        end(child)
        return f"it had not ended after {most_seconds} s"
    except BaseException:
        end(child)
        raise
    return f"it ended with code {code}" if code else ""


def end(child):
    child.terminate()
    try:
        child.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def make_environment():
    """What went wrong, or nothing."""
    base = os.environ.get("PYTHON", "/usr/bin/python3")
    python = ENVIRONMENT / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wrong = (run([base, "-m", "venv", "--clear", "--system-site-packages", ENVIRONMENT],
                 INSTALL_SECONDS)
             or run([ROOT / "scripts" / "package" / "make_wheel.sh", WHEELS], INSTALL_SECONDS,
                    env={**os.environ, "PYTHON": base}))
    if wrong:
        return f"no environment for Python: {wrong}"
    for module in MODULES:
        if run([python, "-c", f"import {module}"], INSTALL_SECONDS, stderr=subprocess.DEVNULL):
            wrong = run([*pip, module], INSTALL_SECONDS)
            # embeddings.py runs without lmdb, and says so.
            if wrong and module != "lmdb":
                return f"pip brings no {module}: {wrong}"
    wrong = run([*pip, "--no-index", "--no-deps", *WHEELS.glob("engine_race-*.whl")],
                INSTALL_SECONDS)
    return f"the wheel does not install: {wrong}" if wrong else ""


def measure(part, options, no_python, file):
    """Runs a part, which leaves its figures in the file, or this leaves the reason there."""
    file.unlink(missing_ok=True)
    wrong = no_python if part.in_python else ""
    if not wrong:
        print(f"bench-compare: {part.name}", file=sys.stderr, flush=True)
        where = ["--dir", options.dir] if part.in_python else []
        interpreter = [ENVIRONMENT / "bin" / "python"] if part.in_python else []
        wrong = run([*interpreter, *part.command, *where, "--json", file,
                     *part.arguments_of(options)], part.most_seconds)
    if file.exists():
        return
    why = wrong or "it left no figures"
    print(f"bench-compare: {part.name}: {why}", file=sys.stderr, flush=True)
    file.write_text(json.dumps({"claims": {}, "errors": [why],
                                "not_measured": {claim: why for claim in part.claims}}))


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--dir", default="out/compare-store", type=pathlib.Path,
                        help="must be empty; made when missing")
    parser.add_argument("--json", default="out/bench-compare.json", type=pathlib.Path)
    parser.add_argument("--tiny", action="store_true", help="everything once, tiny")
    parser.add_argument("--compare-args", default="", help="of bin/compare")
    for part in PARTS:
        parser.add_argument(f"--{part.name}-args", default="", help=f"of {part.command[0].name}")
    options = parser.parse_args(arguments)
    options.dir, options.json = options.dir.absolute(), options.json.absolute()
    return options


def bench(options):
    compare = [BIN / "compare", "--dir", options.dir, *(["--smoke"] if options.tiny else []),
               *shlex.split(options.compare_args)]
    # The largest part is the last one, so its needs are looked at first.
    if run([*compare, "--check_only"]):
        return 2
    no_python = make_environment()
    if no_python:
        print(f"bench-compare: {no_python}", file=sys.stderr, flush=True)
    merges = []
    for part in PARTS:
        file = options.json.with_name(f"bench-{part.name}.json")
        measure(part, options, no_python, file)
        merges += ["--merge", file]
    print("bench-compare: the comparison", file=sys.stderr, flush=True)
    return 1 if run([*compare, *merges, "--json", options.json]) else 0


def main(arguments):
    def interrupt(*_):
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupt)
    options = parse(arguments)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.unlink(missing_ok=True)
    try:
        return bench(options)
    except KeyboardInterrupt:
        print("bench-compare: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
