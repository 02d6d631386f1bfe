"""For programs that run for minutes: progress on a terminal, clean ends, a look at the disk."""
import contextlib
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_on_signals():
    """Turns the signals that ask a program to end into SystemExit, so that it cleans up first. Only
    the first signal counts: a second one must not interrupt the cleaning."""
    def end(number, _):
        for other in ENDING_SIGNALS:
            signal.signal(other, signal.SIG_IGN)
        raise SystemExit(128 + number)

    for number in ENDING_SIGNALS:
        # nohup has the hangup ignored.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)


@contextlib.contextmanager
def work_directory(prefix, parent):
    """A new directory in the parent. It is removed at the end, even if a signal comes meanwhile."""
    path = pathlib.Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        yield path
    finally:
        try:
            shutil.rmtree(path)
        except (SystemExit, KeyboardInterrupt):
            shutil.rmtree(path, ignore_errors=True)
            raise


def file_system_of(path):
    return subprocess.run(["stat", "-f", "-c", "%T", path], check=True, capture_output=True,
                          text=True).stdout.strip()


def why_in_memory(directory):
    """Nothing if files of the directory lie on a disk, otherwise why they do not."""
    kind = file_system_of(directory)
    return (f"{directory} lies on a {kind}: its files are never read from a disk"
            if kind in ("tmpfs", "ramfs") else "")


def why_no_room(directory, needed_bytes):
    """Nothing if the directory has that much space, otherwise how much is missing."""
    free = shutil.disk_usage(directory).free
    if needed_bytes <= free:
        return ""
    return f"{needed_bytes >> 20} MiB of disk needed, {free >> 20} MiB free in {directory}"


def refuse(parser, json_path, claims, why):
    """Ends the program before its work. The file for the figures says why these claims lack one."""
    if json_path:
        json_path.write_text(json.dumps(
            {"claims": {}, "not_measured": {name: why for name in claims}, "errors": [why]},
            indent=2))
    parser.error(why)


class Progress:
    """One line on a terminal that says which step runs, and about how much time is left.

    Steps are taken to be equally long. Where standard error is no terminal, nothing is shown.
    """

    def __init__(self, steps):
        self._steps, self._done, self._began = steps, 0, time.monotonic()
        self._shows = sys.stderr.isatty()

    def show(self, text):
        if self._shows:
            print(f"\r\033[K{self._done} of {self._steps}, {text}{self._left()}", end="",
                  file=sys.stderr, flush=True)

    def step(self):
        self._done += 1

    def _left(self):
        if self._done == 0:
            return ""
        seconds = (time.monotonic() - self._began) / self._done * (self._steps - self._done)
        return f", {seconds / 60:.0f} min left" if seconds >= 90 else f", {seconds:.0f} s left"

    def clear(self):
        if self._shows:
            with contextlib.suppress(OSError):
                print("\r\033[K", end="", file=sys.stderr, flush=True)
