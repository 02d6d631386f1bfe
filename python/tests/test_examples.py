"""The data set for PyTorch, with the few names of PyTorch that it uses where that is missing."""
import importlib.util
import inspect
import os
import pathlib
import pickle
import subprocess
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
    # Another one reads the store beside it.
    assert pickle.loads(pickle.dumps(data)).store is None
    assert (numpy.asarray(copy[7]) == rows[7]).all()
    copy.store.close()
    data.store.close()
    # It opens the store again where that is closed.
    assert (numpy.asarray(data[7]) == rows[7]).all()
    data.store.close()


# As the docs show it, with processes in the place of a loader's workers.
PROGRAM = """
import multiprocessing
import sys

from torch_dataset import Rows


def work(data, indices, answers):
    for index in iter(indices.get, None):
        try:
            answers.put(float(data[index].mean()))
        except Exception as error:
            answers.put(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    method, path = sys.argv[1:]
    context = multiprocessing.get_context(method)
    data = Rows(path, range(100, 150), memory_budget_bytes="64m")
    seen = float(data[7].mean())
    workers = []
    for _ in range(2):
        indices, answers = context.Queue(), context.Queue()
        worker = context.Process(target=work, args=(data, indices, answers))
        worker.start()
        workers.append((worker, indices, answers))
    # The first has the store open while the second reads.
    for index in ([7], [8, 9]):
        for _, indices, answers in workers:
            indices.put(index)
            print(seen, answers.get(timeout=100))
    for worker, indices, _ in workers:
        indices.put(None)
        worker.join()
    print(float(data[7].mean()) == seen)
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_two_workers_after_a_look_in_the_parent(filled, tmp_path, method):
    path, rows = filled
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    search = [str(EXAMPLES), *sys.path]
    if importlib.util.find_spec("torch") is None:
        (tmp_path / "stand_in").mkdir()
        (tmp_path / "stand_in" / "torch.py").write_text(
            "class utils:\n    class data:\n        Dataset = object\n\n"
            "def from_numpy(array):\n    return array\n")
        search.insert(0, str(tmp_path / "stand_in"))
    told = subprocess.run([sys.executable, str(program), method, str(path)], check=True,
                          timeout=200, env={**os.environ, "PYTHONPATH": os.pathsep.join(search)},
                          capture_output=True, text=True).stdout.splitlines()
    seen = float(rows[7].mean())
    pair = float(rows[8:10].mean())
    assert told == [f"{seen} {seen}"] * 2 + [f"{seen} {pair}"] * 2 + ["True"]


def test_the_docs_show_the_class(example):
    source = inspect.getsource(example.Rows)
    docs = (EXAMPLES.parent.parent / "docs" / "python.md").read_text(encoding="utf-8")
    assert f"```python\nimport numpy\nimport torch\n\nimport engine_race\n\n\n{source}```" in docs
    body = [line for line in source.splitlines()[1:] if line.strip()]
    assert len(body) <= 14, "the data set takes more than fourteen lines"
