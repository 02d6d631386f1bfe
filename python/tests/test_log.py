"""The engine's log as records of `logging`, whatever its handlers do."""
import logging
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import engine_race
from conftest import SMALL, value_of
from engine_race._library import lib
from test_processes import run_in_fork

# Writing or deleting this key is a failure, which the engine logs.
BAD_KEY = 1001
OPTIONS = {**SMALL, "key_range": "0-1000"}


class Kept(logging.Handler):
    """Keeps records, after it has done something with each."""

    def __init__(self, work=None):
        super().__init__()
        self.records, self._work = [], work
        # Not what the engine says of the machine.
        self.addFilter(lambda record: record.levelno == logging.ERROR
                       or "dropped" in record.getMessage())

    def emit(self, record):
        if self._work:
            self._work(record)
        self.records.append(record)

    @property
    def texts(self):
        return [record.getMessage() for record in self.records]


@pytest.fixture
def keeps():
    """Makes handlers that are removed again."""
    logger = logging.getLogger("engine_race")
    made = []

    def make(work=None):
        made.append(Kept(work))
        logger.addHandler(made[-1])
        return made[-1]

    before = logger.level, logger.propagate
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    yield make
    for handler in made:
        logger.removeHandler(handler)
    logger.setLevel(before[0])
    logger.propagate = before[1]


@pytest.fixture
def bounded(path):
    with engine_race.open(path, **OPTIONS) as store:
        # The first read may say what the engine does without; the second one hands it on.
        store.get(0)
        store.get(0)
        yield store


def fail(store):
    with pytest.raises(engine_race.InvalidArgumentError):
        store.delete(BAD_KEY)


def fail_often(store, count):
    """In one call of the package."""
    store._handle.call(lambda pointer: [lib.engine_race_delete(pointer, BAD_KEY)
                                        for _ in range(count)])


def test_the_next_call_hands_it_on(bounded, keeps, path):
    kept = keeps()
    before = time.time()
    fail(bounded)
    after = time.time()
    assert kept.records == []
    time.sleep(0.01)
    bounded.get(1)
    (record,) = kept.records
    assert (record.name, record.levelno) == ("engine_race", logging.ERROR)
    assert "kInvalidArgument" in record.getMessage() and record.store == str(path)
    # The time at which the engine logged it.
    assert before - 1e-3 <= record.created <= after + 1e-3
    assert 0 <= record.msecs < 1000
    assert logging.Formatter("%(asctime)s %(message)s").format(record)
    bounded.get(1)
    assert len(kept.records) == 1


@pytest.mark.parametrize("call", [
    lambda store, snapshot: store.stats(), lambda store, snapshot: store.put(1, value_of(1)),
    lambda store, snapshot: snapshot.get(1), lambda store, snapshot: store.sync(),
    lambda store, snapshot: list(store.scan()), lambda store, snapshot: store.close()])
def test_every_call_of_a_store_and_a_snapshot_does(bounded, keeps, call):
    kept = keeps()
    snapshot = bounded.snapshot()
    fail(bounded)
    call(bounded, snapshot)
    assert len(kept.records) == 1


def test_calls_that_hold_a_lock_do_not(bounded, keeps):
    for number in range(3):
        bounded[number] = value_of(number)
    kept = keeps()
    with bounded.iterator() as walk, bounded.scan() as scan:
        fail(bounded)
        walk.seek_to_first()
        walk.next()
        next(scan)
        assert kept.records == []
    bounded.get(1)
    assert len(kept.records) == 1


def test_calls_within_a_call_do_not(bounded, keeps):
    """A log handler may wait for a thread that closes the snapshot, which waits for the call."""
    kept = keeps()
    snapshot = bounded.snapshot()

    def use(_):
        fail(bounded)
        bounded.get(1)
        snapshot.get(1)
        bounded.sync()

    snapshot._handle.call(use)
    assert kept.records == []
    bounded.get(1)
    assert len(kept.records) == 1


def test_what_fails_to_open_is_logged_at_once(path, keeps):
    kept = keeps()
    with pytest.raises(ValueError, match="bucket_count"):
        engine_race.open(path, bucket_count=3)
    assert len(kept.texts) == 1 and "bucket_count" in kept.texts[0]
    for call in (lambda: engine_race.verify(path), lambda: engine_race.copy(path, path / "copy")):
        kept.records.clear()
        with pytest.raises(engine_race.EngineRaceError):
            call()
        assert any(str(path) in text for text in kept.texts)


def test_levels_are_those_of_logging(bounded, keeps):
    kept = keeps()
    logging.getLogger("engine_race").setLevel(logging.CRITICAL)
    fail(bounded)
    bounded.get(1)
    logging.getLogger("engine_race").setLevel(logging.DEBUG)
    bounded.get(1)
    assert kept.records == []


def test_too_many_messages_are_counted(bounded, keeps):
    kept = keeps()
    fail_often(bounded, 1500)
    bounded.get(1)
    assert len(kept.records) == 1001
    assert kept.texts[-1] == "messages dropped from the log: 500"
    assert kept.records[-1].levelno == logging.WARNING


def test_a_handler_that_raises_fails_no_call(bounded, keeps, capsys):
    def give_up(_):
        raise OSError("the disk of the logs is full")

    keeps(give_up)
    bounded[1] = value_of(1)
    fail_often(bounded, 3)
    assert bounded[1] == value_of(1)
    assert capsys.readouterr().err.count("OSError: the disk of the logs is full") == 3


def test_a_handler_may_use_the_store(bounded, keeps):
    """Also fail at it, for which there are further messages."""
    def use(record):
        bounded[2] = value_of(2)
        assert bounded[2] == value_of(2)
        fail(bounded)

    kept = keeps(use)
    fail_often(bounded, 3)
    for count in (3, 6, 9):
        bounded.get(1)
        assert len(kept.records) == count


def test_a_handler_does_not_change_the_message_of_a_failure(bounded, keeps, path):
    def open_again(_):
        with pytest.raises(engine_race.StoreIOError, match="open elsewhere"):
            engine_race.open(path)

    keeps(open_again)
    for _ in range(3):
        with pytest.raises(engine_race.InvalidArgumentError) as raised:
            bounded.delete(BAD_KEY)
        assert "open elsewhere" not in str(raised.value)


def test_a_handler_may_close_the_store(path, keeps):
    stores = [engine_race.open(path, **OPTIONS)]
    keeps(lambda _: stores[0].close())
    fail_often(stores[0], 2)
    with pytest.raises(engine_race.ClosedError):
        stores[0].get(1)
    engine_race.open(path, **OPTIONS).close()


def test_a_signal_handler_that_interrupts_a_log_handler(bounded, keeps):
    """The log handler holds a lock, which it would wait for once more."""
    lock, failures, signals = threading.Lock(), [], []

    def interrupted(*_):
        signals.append(1)
        fail(bounded)
        bounded.get(1)

    def work(_):
        if not lock.acquire(timeout=20):
            failures.append("it waits for itself")
            return
        signal.raise_signal(signal.SIGUSR1)
        # The handler of the signal has run when this is called.
        time.sleep(0)
        lock.release()

    kept = keeps(work)
    before = signal.signal(signal.SIGUSR1, interrupted)
    try:
        fail_often(bounded, 3)
        bounded.get(1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert failures == [] and len(signals) == len(kept.records) == 3


def test_threads_wait_for_no_log_handler_but_their_own(bounded, keeps):
    """A handler waits for a thread that uses the store meanwhile."""
    inside, leave, used = threading.Event(), threading.Event(), threading.Event()

    def work(_):
        inside.set()
        assert leave.wait(60)

    kept = keeps(work)
    fail(bounded)
    waits = threading.Thread(target=bounded.get, args=(1,))
    waits.start()
    assert inside.wait(60)

    def use():
        bounded[1] = value_of(1)
        assert list(bounded.scan()) == [(1, value_of(1))]
        used.set()

    uses = threading.Thread(target=use)
    uses.start()
    assert used.wait(60)
    leave.set()
    waits.join()
    uses.join()
    assert len(kept.records) == 1


def test_no_message_is_lost_or_told_twice(bounded, keeps):
    kept = keeps()

    def work():
        for _ in range(100):
            fail(bounded)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bounded.get(1)
    assert len(kept.records) == 600


def test_a_store_opened_in_a_thread_that_has_ended(path, keeps):
    kept, opened = keeps(), []
    thread = threading.Thread(target=lambda: opened.append(engine_race.open(path, **OPTIONS)))
    thread.start()
    thread.join()
    with opened[0] as store:
        fail(store)
    assert len(kept.records) == 1


def test_a_dropped_generator_hands_nothing_on(path, keeps):
    """It may be dropped by code that holds a lock that a handler wants."""
    kept = keeps()

    def records():
        with engine_race.open(path, **OPTIONS) as store:
            fail(store)
            yield

    made = records()
    next(made)
    del made
    assert kept.records == []


def test_a_forked_child_leaves_it_to_its_parent(bounded, keeps, path):
    kept = keeps()
    fail_often(bounded, 3)

    def use():
        for call in (lambda: bounded.get(1), bounded.sync, bounded.snapshot):
            with pytest.raises(engine_race.ClosedError):
                call()
        bounded.close()
        assert kept.records == []
        # Its own stores log in the child.
        with engine_race.open(path.parent / "own", **OPTIONS) as own:
            fail(own)
        assert len(kept.records) == 1

    assert run_in_fork(use) == 0
    bounded.get(1)
    assert len(kept.records) == 3


AT_THE_END = f"""
import engine_race, logging, sys
store = engine_race.open(sys.argv[1], **{OPTIONS})
try:
    store.delete({BAD_KEY})
except ValueError:
    pass
"""


@pytest.mark.parametrize("before, is_told", [("", False),
                                             ("import logging; logging.basicConfig()", True)],
                         ids=["without logging", "with logging"])
def test_the_interpreter_ends_with_messages_that_wait(path, before, is_told):
    ended = subprocess.run([sys.executable, "-c", before + AT_THE_END, str(path)], timeout=60,
                           env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                           capture_output=True, text=True, check=False)
    assert ended.returncode == 0
    assert ("ERROR:engine_race:" in ended.stderr) == is_told
    assert is_told or ended.stderr == ""
