"""The data set for PyTorch, with the few names of PyTorch that it uses where that is missing."""
import importlib.util
import pathlib
import pickle
import sys
import types

import pytest

import engine_race
from conftest import SMALL

numpy = pytest.importorskip("numpy")

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"


def stand_in():
    data = types.SimpleNamespace(Dataset=object, get_worker_info=lambda: None)
    return types.SimpleNamespace(utils=types.SimpleNamespace(data=data), from_numpy=lambda a: a)


@pytest.fixture
def torch(monkeypatch):
    if importlib.util.find_spec("torch") is None:
        monkeypatch.setitem(sys.modules, "torch", stand_in())
    return importlib.import_module("torch")


@pytest.fixture
def example(torch, monkeypatch):
    spec = importlib.util.spec_from_file_location("torch_dataset", EXAMPLES / "torch_dataset.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "torch_dataset", module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def filled(path):
    rows = numpy.random.default_rng(1).random((50, 1024), dtype=numpy.float32)
    with engine_race.open(path, **SMALL) as store:
        store.write_many(range(100, 150), rows)
    return path, rows


def test_rows_are_gathered(example, filled):
    path, rows = filled
    data = example.Rows(path, range(100, 150), memory_budget_bytes="64m")
    assert len(data) == 50
    got = data.__getitems__([3, 49, 3])
    assert all((numpy.asarray(row) == rows[at]).all() for row, at in zip(got, [3, 49, 3]))
    assert (numpy.asarray(data[7]) == rows[7]).all()
    # What a sampler of batches asks for.
    assert (numpy.asarray(data[[3, 49, 3]]) == rows[[3, 49, 3]]).all()
    # A worker that is spawned gets the data set without the store, which is open here.
    copy = pickle.loads(pickle.dumps(data))
    with pytest.raises(OSError):
        copy[7]
    data.close()
    assert (numpy.asarray(copy[7]) == rows[7]).all()
    copy.close()


def test_two_workers_are_told(example, torch, filled, monkeypatch):
    path, rows = filled
    for count in (1, 2):
        monkeypatch.setattr(torch.utils.data, "get_worker_info",
                            lambda count=count: types.SimpleNamespace(num_workers=count))
        data = example.Rows(path, range(100, 150), memory_budget_bytes="64m")
        if count == 1:
            assert (numpy.asarray(data[0]) == rows[0]).all()
            data.close()
        else:
            with pytest.raises(RuntimeError, match="num_workers"):
                data[0]
