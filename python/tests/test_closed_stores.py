"""verify and copy."""
import os
import pickle
import subprocess
import sys

import pytest

import engine_race
from conftest import SMALL, damage, value_of

COUNT = 50


@pytest.fixture
def closed(path):
    with engine_race.open(path, **SMALL) as store:
        for number in range(COUNT):
            store[number] = value_of(number)
        store[0] = value_of(0, 1)
        del store[1]
    return path


def test_a_whole_store(closed, tmp_path):
    report = engine_race.verify(closed)
    assert report.record_count == COUNT + 2
    assert (report.bad_count, report.lost_tail_count) == (0, 0)
    assert report._fields[0] == "record_count"
    copied = engine_race.copy(closed, tmp_path / "copy")
    assert copied.record_count == COUNT + 2 and copied.bad_count == 0
    with engine_race.open(tmp_path / "copy") as store, engine_race.open(closed) as source:
        assert list(store.scan()) == list(source.scan())
        assert store[0] == value_of(0, 1) and 1 not in store


def test_damage_is_reported(closed, tmp_path):
    assert sum(damage(file, value_of(7)) for file in closed.iterdir()) > 0
    for call in (lambda: engine_race.verify(closed),
                 lambda: engine_race.copy(closed, tmp_path / "copy")):
        with pytest.raises(engine_race.CorruptionError) as raised:
            call()
        assert raised.value.report.bad_count >= 1
        assert raised.value.report.record_count > 0
        same = pickle.loads(pickle.dumps(raised.value))
        assert same.report == raised.value.report
    with pytest.raises(engine_race.EngineRaceError):
        engine_race.open(tmp_path / "copy", create_if_missing=False)
    # Reading one damaged record has nothing to report.
    with engine_race.open(closed) as store:
        with pytest.raises(engine_race.CorruptionError) as raised:
            store[7]
        assert raised.value.report is None


def test_values_of_the_copy_lie_on_paths(closed, tmp_path):
    (tmp_path / "disk").mkdir()
    engine_race.copy(closed, os.fsencode(tmp_path / "copy"), paths=[tmp_path / "disk"])
    assert any(os.scandir(tmp_path / "disk"))
    with engine_race.open(tmp_path / "copy") as store:
        assert store[5] == value_of(5)


def test_what_is_refused(closed, tmp_path):
    with engine_race.open(closed):
        for call in (lambda: engine_race.verify(closed),
                     lambda: engine_race.copy(closed, tmp_path / "copy")):
            with pytest.raises(OSError, match="open elsewhere"):
                call()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("something")
    with pytest.raises(ValueError, match="full"):
        engine_race.copy(closed, tmp_path / "full")
    for call in (lambda: engine_race.verify(tmp_path / "nowhere"),
                 lambda: engine_race.copy(tmp_path / "nowhere", tmp_path / "copy")):
        with pytest.raises(OSError, match="nowhere"):
            call()
    for call in (lambda: engine_race.verify(b"a\0b"), lambda: engine_race.copy(closed, "a\0b"),
                 lambda: engine_race.verify(closed, no_such_option=1)):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(TypeError):
        engine_race.verify(5)
    assert not (tmp_path / "nowhere").exists()


def test_the_interpreter_runs_on_meanwhile(closed):
    """A thread that verifies without end does not hold up the program."""
    program = ("import engine_race, sys, threading\n"
               "def verify():\n"
               "    while True: engine_race.verify(sys.argv[1])\n"
               "threading.Thread(target=verify, daemon=True).start()\n"
               "for _ in range(100): threading.Event().wait(0.001)\n")
    ended = subprocess.run([sys.executable, "-c", program, str(closed)], timeout=60, check=False,
                           env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                           capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
