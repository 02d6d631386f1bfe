"""The data set for PyTorch, with the few names of PyTorch that it uses where that is missing."""
import importlib.util
import inspect
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
    data = types.SimpleNamespace(Dataset=object)
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
    # A worker that is spawned gets the data set before it is used, and opens the store itself.
    copy = pickle.loads(pickle.dumps(data))
    assert len(data) == 50
    got = data.__getitems__([3, 49, 3])
    assert isinstance(got, list) and len(got) == 3
    assert all((numpy.asarray(row) == rows[at]).all() for row, at in zip(got, [3, 49, 3]))
    assert numpy.shape(data[7]) == (1024,) and (numpy.asarray(data[7]) == rows[7]).all()
    # What a sampler of batches asks for.
    assert (numpy.asarray(data[[3, 49, 3]]) == rows[[3, 49, 3]]).all()
    assert numpy.shape(data[[5]]) == (1, 1024)
    assert data.store.stats()["memory_budget_bytes"] == 64 << 20
    # Once it is used, it belongs to this process.
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(data)
    with pytest.raises(OSError, match="open elsewhere"):
        copy[7]
    data.store.close()
    assert (numpy.asarray(copy[7]) == rows[7]).all()
    copy.store.close()


def test_the_docs_show_the_class(example):
    source = inspect.getsource(example.Rows)
    docs = (EXAMPLES.parent.parent / "docs" / "python.md").read_text(encoding="utf-8")
    assert f"```python\nimport numpy\nimport torch\n\nimport engine_race\n\n\n{source}```" in docs
    body = [line for line in source.splitlines()[1:] if line.strip()]
    assert len(body) <= 10, "the data set takes more than ten lines"
