"""The API page, the explanations of options, and the programs that the docs show."""
import asyncio
import builtins
import contextlib
import inspect
import pathlib
import re
import runpy

import pytest

import engine_race
from conftest import SMALL, value_of
from engine_race._option_help import HELP

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "python-api.md"
GUIDE = ROOT / "docs" / "python.md"


def test_the_api_page_is_made_of_the_docstrings():
    made = runpy.run_path(str(ROOT / "python" / "api_page.py"))["page"]()
    assert PAGE.read_text(encoding="utf-8") == made, "run python/api_page.py"


def test_every_public_name_is_explained():
    page = PAGE.read_text(encoding="utf-8")
    for name in engine_race.__all__:
        found = getattr(engine_race, name)
        if inspect.isroutine(found) or inspect.isclass(found):
            assert found.__doc__, name
            assert re.search(rf"^## {name}\b", page, re.MULTILINE), name
        else:
            (meaning,) = re.findall(rf"^\| `{name}` \| `.*` \| (.*) \|$", page, re.MULTILINE)
            assert meaning != "None", name
    for kind in (engine_race.Store, engine_race.Snapshot, engine_race.Iterator,
                 engine_race.WriteBatch):
        for name, found in inspect.getmembers(kind):
            if not name.startswith("_"):
                assert re.search(rf"^### `{kind.__name__}`: `(await )?{name}\b", page,
                                 re.MULTILINE), (kind, name)


def test_the_page_says_what_errors_are_caught_as():
    page = PAGE.read_text(encoding="utf-8")
    errors = [found for found in vars(engine_race).values()
              if inspect.isclass(found) and issubclass(found, Exception)]
    assert len(errors) == 9
    for error in errors:
        told = re.search(rf"^## {error.__name__}\n\nA kind of (.*)\.$", page, re.MULTILINE).group(1)
        named = [getattr(engine_race, name, None) or getattr(builtins, name)
                 for name in re.findall(r"`(\w+)`", told)]
        assert {base for kind in named for base in kind.__mro__} == {
            base for base in error.__mro__[1:] if not base.__name__.startswith("_")}, error


def test_every_option_is_explained():
    defaults = engine_race.options()
    assert list(HELP) == list(defaults)
    for told in (engine_race.open.__doc__, engine_race.OpenOptions.__doc__):
        for name, default in defaults.items():
            assert f"\n    {name} = {default}\n        {HELP[name][:40]}" in told


def test_the_values_of_options_that_are_named_are_there():
    """Each text in quotes is a value that the option takes, or a size."""
    named = {name: re.findall(r'"([^"]+)"', told) for name, told in HELP.items()}
    assert named["sync_mode"] == ["none", "every_write", "group"]
    for name, values in named.items():
        if name != "journal_bytes":
            for value in values:
                engine_race._options.new_options({name: value})


def snippets():
    """The programs of docs/python.md that run here."""
    found = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"),
                       re.MULTILINE | re.DOTALL)
    # test_examples.py runs examples/torch_dataset.py, which has more of the same.
    return [code for code in found if "Dataset" not in code and "DataLoader" not in code]


def make_sources(ids, rows):
    """What the docs load, of the kinds whose libraries are here."""
    with contextlib.suppress(ImportError):
        import lmdb
        with lmdb.open("data.lmdb", map_size=1 << 20) as env, env.begin(write=True) as writing:
            for key, row in zip(ids, rows):
                writing.put(b"%d" % key, row.tobytes())
    with contextlib.suppress(ImportError):
        import pyarrow.parquet
        values = pyarrow.array(list(rows), pyarrow.list_(pyarrow.float32()))
        pyarrow.parquet.write_table(pyarrow.table({"id": ids, "row": values}), "rows.parquet")
    with contextlib.suppress(ImportError):
        import rocksdict
        made = rocksdict.Rdict("data.rocksdb", rocksdict.Options(raw_mode=True))
        for key, row in zip(ids, rows):
            made[int(key).to_bytes(8, "big")] = row.tobytes()
        made.close()


@pytest.fixture
def world(tmp_path, monkeypatch):
    """The names that the docs take for granted."""
    numpy = pytest.importorskip("numpy")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mnt").mkdir()
    ids = numpy.arange(20, dtype=numpy.uint64)
    batch = numpy.random.default_rng(1).random((20, 1024), dtype=numpy.float32)
    numpy.save("rows.npy", batch)
    numpy.save("keys.npy", ids)
    make_sources(ids, batch)
    store = engine_race.open("tmp-store", **SMALL)
    store.write_many(ids, batch)
    yield {"engine_race": engine_race, "numpy": numpy, "asyncio": asyncio, "store": store,
           "ids": ids, "batch": batch, "rows": batch, "value": value_of(1),
           "path": str(tmp_path / "of-path")}
    store.close()


def needs_more(code):
    """What the snippet needs that is not here."""
    return [name for name, sign in (("torch", "torch"), ("lmdb", "load_lmdb"),
                                    ("pyarrow", "load_parquet"), ("rocksdict", "load_rocksdb")) if sign in code]


@pytest.mark.parametrize("at", range(len(snippets())))
def test_the_programs_of_the_docs_run(world, tmp_path, at):
    code = snippets()[at]
    if needs_more(code):
        for name in needs_more(code):
            pytest.importorskip(name)
    code = code.replace('"/tmp/', f'"{tmp_path}/').replace('"/mnt/', f'"{tmp_path}/mnt/')
    if "verify(" in code or 'mode="r"' in code:
        engine_race.open(tmp_path / "my-store", **SMALL).close()
    exec(compile(code, f"snippet {at} of {GUIDE.name}", "exec"), world)
