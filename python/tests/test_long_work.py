"""What the examples and benchmarks that run for minutes share."""
import json
import pathlib
import signal
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"

# Gets some signals while it works, and the others each time that it removes its directory.
PROGRAM = """
import os, pathlib, signal, sys, time
sys.path.insert(0, sys.argv[1])
signal.signal(signal.SIGINT, signal.default_int_handler)
import long_work
remove = long_work.shutil.rmtree
working, cleaning = eval(sys.argv[3])

def interrupted(path, **how):
    for number in cleaning:
        os.kill(os.getpid(), number)
    remove(path, **how)

long_work.shutil.rmtree = interrupted
long_work.end_on_signals()
with long_work.work_directory("work.", sys.argv[2]) as directory:
    (directory / "large").write_text("much")
    for number in working:
        os.kill(os.getpid(), number)
        time.sleep(100)
"""


@pytest.mark.parametrize("working, cleaning, ended_by", [
    ([signal.SIGINT], [signal.SIGTERM, signal.SIGINT], signal.SIGINT),
    ([signal.SIGTERM], [signal.SIGINT, signal.SIGHUP], signal.SIGTERM),
    ([], [signal.SIGTERM], signal.SIGTERM)])
def test_no_signal_interrupts_the_cleaning(tmp_path, working, cleaning, ended_by):
    signals = repr(([int(number) for number in working], [int(number) for number in cleaning]))
    ended = subprocess.run([sys.executable, "-B", "-c", PROGRAM, EXAMPLES, tmp_path, signals],
                           check=False, timeout=100)
    assert ended.returncode == 128 + ended_by
    assert not list(tmp_path.iterdir())


def test_a_disk_is_told_from_memory(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import long_work
    monkeypatch.setattr(long_work, "file_system_of", lambda _: "xfs")
    assert long_work.why_in_memory(tmp_path) == ""
    monkeypatch.setattr(long_work, "file_system_of", lambda _: "ramfs")
    assert "lies on a ramfs" in long_work.why_in_memory(tmp_path)
    monkeypatch.setattr(long_work, "file_system_of", lambda _: "tmpfs")
    assert "lies on a tmpfs" in long_work.why_in_memory(tmp_path)


def test_many_reads_are_not_measured_in_memory(monkeypatch, tmp_path, capsys):
    pytest.importorskip("numpy")
    monkeypatch.syspath_prepend(str(EXAMPLES.parent / "benchmarks"))
    import read_many
    monkeypatch.setattr(sys.modules["long_work"], "file_system_of", lambda _: "tmpfs")
    figures = tmp_path / "figures"
    monkeypatch.setattr(sys, "argv", ["read_many.py", "--dir", str(tmp_path), "--tiny", "--program",
                                      sys.executable, "--json", str(figures)])
    with pytest.raises(SystemExit):
        read_many.main()
    assert "lies on a tmpfs" in capsys.readouterr().err
    given = json.loads(figures.read_text())
    assert given["claims"] == {} and set(given["not_measured"]) == set(read_many.CLAIMS)
