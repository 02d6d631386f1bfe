#!/usr/bin/env python3
"""Runs everything that `make bench-compare` measures, one part after the other on one directory.

    scripts/bench_compare.py [--dir out/compare-store] [--json out/bench-compare.json] [--tiny]
    scripts/bench_compare.py --only users

The second form runs users.py alone, as `make bench-users` does. bin/compare does not take its claims
over.

The parts: bin/claims c-api, python/benchmarks/read_many.py, python/examples/embeddings.py, and at
last bin/compare, which takes the claims of the others over into its JSON. The short parts come
first. Each has a limit of time, and works in a directory of its own, which this program removes
afterwards. A part that cannot be measured does not end the run: the JSON and the last lines of the
output have the reason.

The parts in Python run in an environment in build/bench-python. It takes NumPy, lmdb and cffi from
the system and installs by pip what is missing there. PYTHON is the interpreter, by default
/usr/bin/python3.

The JSON of an earlier run stays until this run has ended. Each part leaves its figures beside it in
bench-NAME.json and replaces those of the earlier run. An interrupted comparison leaves what it has
measured in unfinished-NAME, where NAME is the name of the JSON.

--tiny runs everything once, tiny: no figure means much. The names of its files end in -tiny. The
options that end in -args take further arguments of a part, as one text. Exit code 0 when every part
has ended well, 1 otherwise, 2 when the disk or the flags will not do, 130 after an interrupt.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "bin"
ENVIRONMENT = ROOT / "build" / "bench-python"
WHEELS = ROOT / "build" / "bench-wheel"
MODULES = ["numpy", "lmdb", "cffi"]
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Time to clean up, for a part that is told to end.
PATIENCE_SECONDS = 120
# Time for the kernel to take apart processes that were killed.
KILL_SECONDS = 10
INSTALL_SECONDS = 1800


class Part:
    """A program with claims in its JSON."""

    def __init__(self, name, command, tiny, claims, most_seconds, in_python=True):
        self.name, self.command, self.tiny, self.claims = name, command, tiny, claims
        self.most_seconds, self.in_python = most_seconds, in_python

    def arguments_of(self, options):
        further = shlex.split(getattr(options, self.name.replace("-", "_") + "_args"))
        return (self.tiny if options.tiny else []) + further


# bin/compare takes their claims over.
PARTS = [
    Part("c-api", [BIN / "claims", "c-api"], ["--smoke"], ["c_api_cost"], 1800, in_python=False),
    Part("read-many", [ROOT / "python" / "benchmarks" / "read_many.py"], ["--tiny"],
         ["python_read_many_ratio", "python_hot_ratio"], 3600),
    Part("embeddings", [ROOT / "python" / "examples" / "embeddings.py"],
         ["--rows", "16000", "--batch", "256", "--limit", "32m", "--memory", "32m", "--rounds", "1",
          "--seconds", "0.1", "--warm-rows", "4000"], ["embeddings_vs_memmap"], 3 * 3600),
]
OTHER_PARTS = [
    Part("users", [ROOT / "python" / "benchmarks" / "users.py"], ["--tiny"],
         ["readers_8_processes", "readers_shared_cache", "import_npy_ratio", "follow_writer_cost",
          "follow_lag_ms_p99"], 3600),
]


class Interrupt:
    """Turns the first signal that asks this program to end into KeyboardInterrupt. Later ones are
    ignored: they must not interrupt the cleaning."""

    def __init__(self):
        self._is_held_back = self._has_come = False

    def handle(self):
        for number in ENDING_SIGNALS:
            # nohup has the hangup ignored.
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._come)

    def _come(self, *_):
        self._has_come = True
        if self._is_held_back:
            return
        for number in ENDING_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    @contextlib.contextmanager
    def held_back(self):
        """A signal that comes meanwhile raises at the end of this."""
        self._is_held_back = True
        try:
            yield
        finally:
            self._is_held_back = False
            if self._has_come:
                self._come()


INTERRUPT = Interrupt()


def run(command, most_seconds=None, **how):
    """Nothing when the command ends well in time, otherwise what went wrong. It is told to end
    before this raises, and after most_seconds. None of its children outlives it.

    It gets a session of its own: an interrupt of the terminal reaches this program alone, which then
    tells the command once."""
    command, child = [str(word) for word in command], None
    try:
        with INTERRUPT.held_back():
            child = subprocess.Popen(  # pylint: disable=consider-using-with
                command, cwd=ROOT, start_new_session=True, **how)
        code = child.wait(most_seconds)
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    except subprocess.TimeoutExpired:
        end(child)
        return f"it had not ended after {most_seconds} s"
    except BaseException:
        if child:
            end(child)
        raise
    finally:
        if child:
            kill_group(child.pid)
    return f"it ended with code {code}" if code else ""


def end(child):
    child.terminate()
    try:
        child.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def kill_group(group):
    """Kills what a command has left running, and waits until it is gone."""
    until = time.monotonic() + KILL_SECONDS
    try:
        while time.monotonic() < until:
            os.killpg(group, signal.SIGKILL)
            time.sleep(0.01)
    except OSError:
        # There are none.
        pass


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
    # The system may have a package of this version, with which pip would be content.
    wrong = run([*pip, "--no-index", "--no-deps", "--force-reinstall",
                 *WHEELS.glob("engine_race-*.whl")], INSTALL_SECONDS)
    return f"the wheel does not install: {wrong}" if wrong else why_not_ours(python)


def why_not_ours(python):
    """Nothing if this interpreter imports the engine_race of the environment."""
    code = ("import engine_race, pathlib, sys\n"
            "file = pathlib.Path(engine_race.__file__).resolve()\n"
            "sys.exit(f'engine_race is {file}' if pathlib.Path(sys.argv[1]).resolve()"
            " not in file.parents else 0)")
    wrong = run([python, "-c", code, ENVIRONMENT], INSTALL_SECONDS)
    return f"Python does not import the engine_race of {ENVIRONMENT}" if wrong else ""


def measure(part, options, no_python):
    """Runs a part. Returns the file with its figures, or with why there are none."""
    file = options.json.with_name(f"bench-{part.name}{options.suffix}")
    file.unlink(missing_ok=True)
    wrong = no_python if part.in_python else ""
    if not wrong:
        print(f"bench-compare: {part.name}", file=sys.stderr, flush=True)
        directory = options.dir / part.name
        where = ["--dir", directory] if part.in_python else []
        interpreter = [ENVIRONMENT / "bin" / "python"] if part.in_python else []
        directory.mkdir(parents=True, exist_ok=True)
        try:
            wrong = run([*interpreter, *part.command, *where, "--json", file,
                         *part.arguments_of(options)], part.most_seconds)
        finally:
            remove(directory)
    figures = figures_in(file)
    if not wrong and figures is None:
        wrong = "it left no figures"
    if wrong:
        print(f"bench-compare: {part.name}: {wrong}", file=sys.stderr, flush=True)
        file.write_text(json.dumps(without_claims(figures or {}, part.claims, wrong), indent=2))
    return file


def remove(directory):
    """Removes it, even if an interrupt comes meanwhile."""
    try:
        shutil.rmtree(directory)
    except KeyboardInterrupt:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    except OSError as error:
        print(f"bench-compare: {directory} is not removed: {error}", file=sys.stderr)


def figures_in(file):
    """The JSON object in the file; None when there is none."""
    try:
        figures = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return figures if isinstance(figures, dict) else None


def without_claims(figures, claims, wrong):
    """The figures of a part that has failed. A reason that it gives itself stays."""
    return {**figures, "claims": {}, "errors": [*figures.get("errors", []), wrong],
            "not_measured": {**{claim: wrong for claim in claims},
                             **figures.get("not_measured", {})}}


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--dir", default="out/compare-store", type=pathlib.Path,
                        help="must be empty; made when missing")
    parser.add_argument("--json", type=pathlib.Path,
                        help="by default out/bench-compare.json, or out/bench-compare-tiny.json")
    parser.add_argument("--tiny", action="store_true", help="everything once, tiny")
    parser.add_argument("--compare-args", default="", help="of bin/compare")
    parser.add_argument("--only", choices=[part.name for part in OTHER_PARTS],
                        help="this part alone, into bench-PART.json beside --json")
    for part in PARTS + OTHER_PARTS:
        parser.add_argument(f"--{part.name}-args", default="", help=f"of {part.command[0].name}")
    options = parser.parse_args(arguments)
    options.suffix = "-tiny.json" if options.tiny else ".json"
    options.json = options.json or pathlib.Path("out") / f"bench-compare{options.suffix}"
    options.dir, options.json = options.dir.absolute(), options.json.absolute()
    options.unfinished = options.json.with_name(f"unfinished-{options.json.name}")
    return options


def environment_failure():
    """Makes the environment for Python. Why it could not, or nothing."""
    no_python = make_environment()
    if no_python:
        print(f"bench-compare: {no_python}", file=sys.stderr, flush=True)
    return no_python


def bench_alone(options):
    part = next(part for part in OTHER_PARTS if part.name == options.only)
    figures = figures_in(measure(part, options, environment_failure()))
    return 1 if figures.get("errors") else 0


def bench(options):
    compare = [BIN / "compare", "--dir", options.dir, *(["--smoke"] if options.tiny else []),
               *shlex.split(options.compare_args)]
    # The largest part is the last one, so its needs are looked at first.
    if run([*compare, "--check_only"]):
        return 2
    options.unfinished.unlink(missing_ok=True)
    no_python = environment_failure()
    merges = []
    for part in PARTS:
        merges += ["--merge", measure(part, options, no_python)]
    print("bench-compare: the comparison", file=sys.stderr, flush=True)
    wrong = run([*compare, *merges, "--json", options.unfinished])
    if options.unfinished.exists():
        options.unfinished.replace(options.json)
    return 1 if wrong else 0


def main(arguments):
    INTERRUPT.handle()
    options = parse(arguments)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    try:
        return bench_alone(options) if options.only else bench(options)
    except KeyboardInterrupt:
        # The comparison leaves what it has measured so far.
        left = f"; see {options.unfinished}" if options.unfinished.exists() else ""
        print(f"bench-compare: interrupted{left}", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
