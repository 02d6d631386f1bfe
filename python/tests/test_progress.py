"""Long calls: their progress, and how a function or a signal ends them."""
import os
import shutil
import signal
import threading

import pytest

import engine_race
from conftest import SMALL

numpy = pytest.importorskip("numpy")

COUNT = 9000


class Stop(Exception):
    """Ends a call."""


class Follower:
    """Notes each call, and does something in the one with that number."""

    def __init__(self, number=None, action=None):
        self.told, self._number, self._action = [], number, action

    def __call__(self, done, most):
        self.told.append((done, most))
        if len(self.told) == self._number:
            self._action()

    @property
    def done(self):
        return self.told[-1][0]


def stop():
    raise Stop


@pytest.fixture
def ids():
    return numpy.random.default_rng(4).permutation(COUNT)


@pytest.fixture
def rows():
    made = numpy.zeros((COUNT, 512), numpy.uint64)
    made[:, 0] = range(COUNT)
    return made


@pytest.fixture
def one_region(path, ids, rows):
    """A store of one bucket, so that one thread works and pieces can be counted."""
    options = {**SMALL, "bucket_count": 1, "file_count": 1, "reclaim": "off"}
    with engine_race.open(path, **options) as store:
        store.write_many(ids, rows[ids])
        yield store


def expect_ended(call, kind=Stop, action=stop):
    """The second call of its function ends it. It is not called again."""
    follower = Follower(2, action)
    with pytest.raises(kind) as raised:
        call(follower)
    assert len(follower.told) == 2
    assert follower.done < follower.told[-1][1]
    return raised.value


def expect_told(call):
    follower = Follower()
    result = call(follower)
    assert len(follower.told) >= 2 and follower.told[-1] == (COUNT, COUNT)
    assert follower.told == sorted(follower.told)
    return result


def test_reads_and_writes_of_many(one_region, ids, rows):
    store = one_region
    error = expect_ended(lambda p: store.write_many(ids, rows, progress=p))
    assert error.done_count == 512
    # The first ones of `ids`, and no others.
    expected = rows.copy()
    expected[ids[:512]] = rows[:512]
    got = store.read_many(range(COUNT), dtype=numpy.uint64)
    assert (got == expected).all()
    expect_told(lambda p: store.write_many(ids, rows[ids], progress=p))
    out = numpy.full((COUNT, 512), 5, numpy.uint64)
    expect_ended(lambda p: store.read_many(ids, out=out, progress=p))
    assert (out[:8192] == rows[ids[:8192]]).all() and (out[8192:] == 5).all()
    assert (expect_told(lambda p: store.read_many(ids, dtype="u8", progress=p)) == rows[ids]).all()
    with store.snapshot() as snapshot:
        expect_ended(lambda p: snapshot.read_many(ids, progress=p))
        expect_told(lambda p: snapshot.read_many(ids, progress=p))


def test_copies_of_an_open_store(one_region, tmp_path, rows):
    store = one_region
    backup, restored = tmp_path / "backup", tmp_path / "restored"
    expect_ended(lambda p: store.backup(backup, progress=p))
    assert list(backup.iterdir()) == []
    assert expect_told(lambda p: store.backup(backup, progress=p)).record_count == COUNT
    expect_ended(lambda p: engine_race.verify_backup(backup, progress=p))
    expect_told(lambda p: engine_race.verify_backup(backup, progress=p))
    expect_ended(lambda p: engine_race.restore(backup, restored, progress=p))
    assert list(restored.iterdir()) == []
    expect_told(lambda p: engine_race.restore(backup, restored, progress=p))
    with engine_race.open(restored, create_if_missing=False) as again:
        assert (again.read_many(range(COUNT), dtype="u8") == rows).all()
    if not shares_blocks(store, tmp_path):
        expect_ended(lambda p: store.checkpoint(tmp_path / "checkpoint", progress=p))
        assert list((tmp_path / "checkpoint").iterdir()) == []


def shares_blocks(store, tmp_path):
    """Whether a checkpoint here copies nothing, and so tells nothing."""
    follower = Follower()
    store.checkpoint(tmp_path / "other", progress=follower)
    return not follower.told


def test_closed_stores(one_region, path, tmp_path):
    one_region.close()
    expect_ended(lambda p: engine_race.verify(path, progress=p))
    assert expect_told(lambda p: engine_race.verify(path, progress=p)).record_count == COUNT
    copy = tmp_path / "copy"
    expect_ended(lambda p: engine_race.copy(path, copy, progress=p))
    with pytest.raises(engine_race.MissingStoreError):
        engine_race.open(copy, create_if_missing=False)
    shutil.rmtree(copy)
    expect_told(lambda p: engine_race.copy(path, copy, progress=p))


def test_compact(one_region, rows):
    store = one_region
    store.write_many(range(0, COUNT, 2), rows[::2].copy())
    expect_ended(lambda p: store.compact(progress=p))
    assert (store.read_many(range(COUNT), dtype="u8") == rows).all()
    store.compact()
    assert (store.read_many(range(COUNT), dtype="u8") == rows).all()


def interrupt_from_another_thread():
    thread = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT))
    thread.start()
    thread.join()


@pytest.fixture
def default_interrupts():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_a_call(one_region, path, tmp_path, ids, rows, default_interrupts):
    store, ended = one_region, []
    for call in (lambda p: store.read_many(ids, progress=p),
                 lambda p: store.write_many(ids, rows[ids], progress=p),
                 lambda p: store.backup(tmp_path / "backup", progress=p),
                 lambda p: store.compact(progress=p),
                 lambda p: engine_race.verify(path, progress=p)):
        if len(ended) == 3:
            store.write_many(range(0, COUNT, 2), rows[::2].copy())
        if len(ended) == 4:
            store.close()
        ended.append(expect_ended(call, KeyboardInterrupt, interrupt_from_another_thread))
    assert ended[1].done_count == 512


def test_an_interrupt_needs_no_function_of_the_caller(one_region, ids, monkeypatch,
                                                      default_interrupts):
    """It comes between two pieces, in the code that the engine calls there."""
    told = []
    number_of = engine_race._progress._number_of

    def interrupted(argument):
        told.append(1)
        if len(told) == 2:
            interrupt_from_another_thread()
        return number_of(argument)

    monkeypatch.setattr(engine_race._progress, "_number_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        one_region.read_many(ids)
    # Two pieces, and a look at the call that was interrupted.
    assert len(told) == 3
    assert engine_race._progress._calls == {}


def test_a_call_of_one_piece_tells_nobody(one_region, ids, rows, monkeypatch):
    """Nothing comes between its pieces, so it costs no more than it did."""
    told, number_of = [], engine_race._progress._number_of

    def counted(argument):
        told.append(1)
        return number_of(argument)

    monkeypatch.setattr(engine_race._progress, "_number_of", counted)
    one_region.write_many(ids[:256], rows[ids[:256]])
    one_region.read_many(ids[:4096])
    assert not told
    one_region.write_many(ids[:257], rows[ids[:257]])
    one_region.read_many(ids[:4097])
    assert len(told) == 4
    follower = Follower()
    one_region.read_many(ids[:5], progress=follower)
    assert follower.told == [(5, 5)]


def test_calls_within_a_function_and_in_other_threads(one_region, ids, rows):
    """A call within a call has its own progress, and the outer one keeps its own."""
    store, inner, results = one_region, Follower(), []

    def use():
        results.append(store.read_many(ids, progress=inner))

    outer = Follower(1, use)
    assert (store.read_many(ids, dtype="u8", progress=outer) == rows[ids]).all()
    assert len(outer.told) == len(inner.told) == 3

    def use_one_piece():
        results.append(store.read_many(ids[:5]))

    outer = Follower(1, use_one_piece)
    assert (store.read_many(ids, dtype="u8", progress=outer) == rows[ids]).all()
    assert len(outer.told) == 3
    results.pop()

    def work():
        follower = Follower(2, stop)
        with pytest.raises(Stop):
            store.read_many(ids, progress=follower)
        results.append(store.read_many(ids))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(results) == 2 and len(outer.told) == len(inner.told) == 3


def test_a_handler_closes_the_store_during_a_long_call(one_region, ids, rows):
    follower = Follower(1, one_region.close)
    assert (one_region.read_many(ids, dtype="u8", progress=follower) == rows[ids]).all()
    assert len(follower.told) == 3
    with pytest.raises(engine_race.ClosedError):
        one_region.read_many(ids)


def test_a_walk_takes_many_records_in_pieces(one_region, rows, monkeypatch, default_interrupts):
    """So an interrupt comes between two of them."""
    with one_region.iterator() as walk:
        walk.seek_to_first()
        taken = numpy.empty(COUNT + 5, numpy.uint64)
        got = numpy.zeros((COUNT + 5, 512), numpy.uint64)
        assert walk.take(taken, got) == COUNT
        assert (taken[:COUNT] == range(COUNT)).all() and (got[:COUNT] == rows).all()
        walk.seek_to_first()
        calls, call = [], walk._call

        def counted(function, *arguments):
            calls.append(1)
            if len(calls) == 2:
                interrupt_from_another_thread()
            return call(function, *arguments)

        monkeypatch.setattr(walk, "_call", counted)
        with pytest.raises(KeyboardInterrupt):
            walk.take(taken)
        assert len(calls) == 2
