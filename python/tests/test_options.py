"""Options of `open`, and paths."""
import os
import pickle
import pathlib
import re
import typing

import pytest

import engine_race
from conftest import SMALL, value_of
from engine_race._library import ffi, lib, text_of
from engine_race._options import new_options


class Number:
    def __index__(self):
        return 128

    def __str__(self):
        return str(self.__index__())


def text_of_option(name, value):
    made = new_options({name: value})
    text = ffi.new("char**")
    assert lib.engine_race_options_get(made, name.encode(), text) == 0
    return text_of(ffi.gc(text[0], lib.engine_race_free))


def test_values_of_every_type():
    for name, value, text in (("bucket_count", 64, "64"), ("bucket_count", "0x40", "64"),
                              ("memory_budget_bytes", "64m", str(64 << 20)),
                              ("verify_checksums", False, "false"),
                              ("sync_on_close", True, "true"), ("sync_mode", "none", "none"),
                              ("bucket_count", None, "1024"), ("bucket_count", Number(), "128")):
        assert text_of_option(name, value) == text
    for name, value, error in (("bucket_count", [1], TypeError),
                               ("bucket_count", object(), TypeError),
                               ("bucket_count", 1.5, ValueError), ("bucket_count", -1, ValueError),
                               ("bucket_count", True, ValueError),
                               ("sync_on_close", 1, ValueError), ("paths", 5, TypeError),
                               ("paths", ["/a", 5], TypeError), ("paths", [None], TypeError)):
        with pytest.raises(error):
            new_options({name: value})


def test_modes_are_octal(path):
    for name, value, text in (("directory_mode", 0o750, "0750"), ("file_mode", "0640", "0640"),
                              ("file_mode", 0o600, "0600"), ("file_mode", "640", "0640")):
        assert text_of_option(name, value) == text
    with pytest.raises(ValueError, match="file_mode"):
        engine_race.open(path, file_mode=640)
    with engine_race.open(path, directory_mode=0o750, file_mode=0o640, **SMALL):
        assert path.stat().st_mode & 0o777 == 0o750 & ~umask()
        assert all(file.stat().st_mode & 0o777 == 0o640 & ~umask() for file in path.iterdir())


def umask():
    was = os.umask(0)
    os.umask(was)
    return was


def test_type_hints_name_every_option():
    assert set(engine_race.OpenOptions.__annotations__) == set(engine_race.options())
    assert not engine_race.OpenOptions.__total__
    # A program that checks hints at run time gets no error from the class.
    assert typing.get_type_hints(engine_race.OpenOptions)


def test_properties(store):
    store[1] = value_of(1)
    assert store[1] == value_of(1)
    for name in ("io_backend", "write_backend"):
        assert store.property(name)
    assert store.property("key_range") == f"0-{2**64 - 1}"
    stats = dict(line.split()[:2] for line in store.property("stats").splitlines() if line.strip())
    assert stats["record_count"] == "1"
    text = store.property("prometheus")
    assert text.startswith("# HELP engine_race_")
    assert re.search(r"^engine_race_\w+(\{[^}]*\})? 1$", text, re.MULTILINE)
    assert all(name in engine_race.Store.property.__doc__ for name in (
        "io_backend", "write_backend", "key_range", "stats", "prometheus"))
    for name, error in (("no_such", ValueError), ("a\0b", ValueError), (5, TypeError)):
        with pytest.raises(error):
            store.property(name)


def test_a_nul_is_refused(path):
    for call in (lambda: engine_race.open("/tmp/a\0b"), lambda: engine_race.open(b"/tmp/a\0b"),
                 lambda: engine_race.open(pathlib.Path("/tmp/a\0b")),
                 lambda: engine_race.open(path, paths=["/tmp/a\0b"]),
                 lambda: engine_race.open(path, sync_mode="none\0"),
                 lambda: engine_race.open(path, **{"sync_mode\0x": "none"})):
        with pytest.raises(ValueError, match="NUL"):
            call()
    with pytest.raises(TypeError):
        engine_race.open(5)
    assert not path.exists()


def test_paths(path, tmp_path):
    folders = [tmp_path / "one", str(tmp_path / "two"), os.fsencode(tmp_path / "three")]
    for folder in folders:
        os.mkdir(folder)
    with engine_race.open(path, paths=folders, **SMALL) as store:
        assert store.stats()["path_count"] == 3
        for number in range(100):
            store[number] = value_of(number)
    assert any(os.scandir(tmp_path / "two"))
    with engine_race.open(path, paths=None) as store:
        assert list(store) == list(range(100))
    (tmp_path / "four").mkdir()
    with engine_race.open(tmp_path / "alone", paths=tmp_path / "four", **SMALL) as store:
        assert store.stats()["path_count"] == 1


def test_paths_with_colons_and_backslashes(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = [tmp_path / "pci-0000:00:1f.2", tmp_path / "back\\slash", tmp_path / "both\\:"]
    for folder in folders:
        folder.mkdir()
    with engine_race.open(path, paths=folders, **SMALL) as store:
        assert store.stats()["path_count"] == 3
        store[1] = value_of(1)
    assert sorted(tmp_path.iterdir()) == sorted([*folders, path])


@pytest.mark.parametrize("given", [["one", b"two:\\"], "one:two\\:\\\\", b"one:two\\:\\\\"])
def test_a_pickled_store_finds_its_paths_from_elsewhere(tmp_path, monkeypatch, given):
    names = ["one", "two:\\"]
    for folder in [*names, "elsewhere"]:
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path)
    with engine_race.open("store", paths=given, **SMALL) as store:
        store[1] = value_of(1)
        pickled = pickle.dumps(store)
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pickle.loads(pickled) as store:
        assert store[1] == value_of(1) and store.stats()["path_count"] == 2
    assert all(any(os.scandir(tmp_path / name)) for name in names)
    assert not any(os.scandir("."))


def test_bytes_of_paths_that_are_no_text(tmp_path):
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")
    with engine_race.open(name, **SMALL) as store:
        store[1] = value_of(1)
    assert os.path.isdir(name)
    with engine_race.open(os.fsencode(name)) as store:
        assert store[1] == value_of(1)
