"""The example of embeddings, and its limit of memory."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("numpy")
EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"


@pytest.fixture
def embeddings(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import embeddings as loaded
    return loaded


@pytest.fixture
def memory_limit(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import memory_limit as loaded
    return loaded


def figures_of(embeddings, monkeypatch, tmp_path, *more):
    """What a tiny run leaves."""
    monkeypatch.setattr(embeddings, "end_on_signals", lambda: None)
    figures = tmp_path / "figures"
    monkeypatch.setattr(sys.modules["long_work"], "file_system_of", lambda _: "ext2/ext3")
    monkeypatch.setattr(sys, "argv", [
        "embeddings.py", "--dir", str(tmp_path), "--rows", "500", "--batch", "50", "--seconds",
        "0.01", "--rounds", "1", "--limit", "1m", "--memory", "64m", "--json", str(figures), *more])
    embeddings.main()
    return json.loads(figures.read_text())


def test_no_ratio_without_a_limit(embeddings, memory_limit, monkeypatch, tmp_path, capsys):
    def refuse(_):
        raise PermissionError(1, "not here")

    monkeypatch.setattr(memory_limit.MemoryLimit, "_make", refuse)
    given = figures_of(embeddings, monkeypatch, tmp_path)
    assert given["limit_bytes"] is None and given["rounds"]["memmap"][0]["rows_a_second"] > 0
    assert given["claims"] == {} and given["ratios"] == {}
    assert "not here" in given["not_measured"]["embeddings_vs_memmap"]
    told = capsys.readouterr().out
    assert "no memory cgroup" in told and "engine_race over" not in told
    # Every table is equally warm: half as many rows again as fit in the limit.
    assert {rounds[0]["rows_warmed"] for rounds in given["rounds"].values()} == {400}


def test_rows_of_other_sizes(embeddings, memory_limit, monkeypatch, tmp_path):
    def refuse(_):
        raise PermissionError(1, "not here")

    monkeypatch.setattr(memory_limit.MemoryLimit, "_make", refuse)
    given = figures_of(embeddings, monkeypatch, tmp_path, "--dim", "768")
    assert given["dim"] == 768 and given["rounds"]["engine_race"][0]["rows_a_second"] > 0
    # Half as many rows again of 3072 bytes as fit in 1 MiB, in whole batches of 50.
    assert {rounds[0]["rows_warmed"] for rounds in given["rounds"].values()} == {550}
    for dim in ("1", "262145"):
        with pytest.raises(SystemExit):
            figures_of(embeddings, monkeypatch, tmp_path, "--dim", dim)


def test_the_claim_is_over_the_faster_map(embeddings):
    rounds = {name: [{"rows_a_second": rate} for rate in rates] for name, rates in (
        ("engine_race", (60, 80, 60)), ("memmap", (10, 40, 10)), ("random_map", (20, 20, 30)))}
    assert embeddings.ratio(rounds, "memmap") == 6
    assert embeddings.ratio(rounds, "memmap", "random_map") == 2


def test_a_column_that_was_not_warm_makes_no_claim(embeddings):
    arguments = SimpleNamespace(warm_rows=100, warm_seconds=300.0, limit=1 << 20)

    def rounds_with(name, rows, read):
        rounds = {column: [{"rows_warmed": 100, "bytes_read_to_warm": 0}] * 2
                  for column in (*embeddings.COLUMNS_OF_CLAIM, "LMDB")}
        rounds[name] = [rounds[name][0], {"rows_warmed": rows, "bytes_read_to_warm": read}]
        return rounds

    assert embeddings.why_cold(rounds_with("engine_race", 128, 0), arguments) == ""
    for name in embeddings.COLUMNS_OF_CLAIM:
        assert f"{name} was not warm" in embeddings.why_cold(
            rounds_with(name, 99, (1 << 20) - 1), arguments)
        # Each row of a map that reads far ahead costs much, and soon its page cache is full.
        assert embeddings.why_cold(rounds_with(name, 1, 1 << 20), arguments) == ""
    assert embeddings.why_cold(rounds_with("LMDB", 1, 0), arguments) == ""


@pytest.mark.parametrize("cold, claims", [("", {"embeddings_vs_memmap"}), ("too cold", set())])
def test_a_claim_or_its_reason_is_left(embeddings, monkeypatch, tmp_path, cold, claims):
    class NoLimit(embeddings.MemoryLimit):
        def _make(self):
            self._path = None

        run = staticmethod(lambda function, *arguments: function(*arguments))

    monkeypatch.setattr(embeddings, "MemoryLimit", NoLimit)
    monkeypatch.setattr(embeddings, "why_cold", lambda *_: cold)
    given = figures_of(embeddings, monkeypatch, tmp_path)
    assert set(given["claims"]) == claims
    assert given["not_measured"] == ({"embeddings_vs_memmap": cold} if cold else {})


def test_a_table_in_memory_is_refused(embeddings, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys.modules["long_work"], "file_system_of", lambda _: "tmpfs")
    monkeypatch.setattr(sys, "argv", ["embeddings.py", "--dir", str(tmp_path)])
    with pytest.raises(SystemExit):
        embeddings.main()
    assert "memory" in capsys.readouterr().err


@pytest.fixture
def limit(memory_limit):
    with memory_limit.MemoryLimit(64 << 20) as made:
        if made.why_not:
            pytest.skip(made.why_not)
        yield made


def test_a_limit_has_no_swap(limit):
    has = {file.name: file for file in limit._path.iterdir()}
    if "memory.memsw.limit_in_bytes" in has:
        assert int(has["memory.memsw.limit_in_bytes"].read_text()) == 64 << 20
    elif "memory.swappiness" in has:
        assert int(has["memory.swappiness"].read_text()) == 0
    elif "memory.swap.max" in has:
        assert int(has["memory.swap.max"].read_text()) == 0


def test_a_cgroup_that_stays_is_told(limit, capsys):
    with subprocess.Popen(["sleep", "100"]) as inside:
        limit._write("cgroup.procs", inside.pid)
        limit.remove()
        assert "could not be removed" in capsys.readouterr().err
        inside.kill()
    limit.remove()
    assert capsys.readouterr().err == "" and not limit._path.exists()


def test_a_signal_leaves_nothing(embeddings, tmp_path):
    if embeddings.why_in_memory(tmp_path):
        pytest.skip("the directory of the tests is a tmpfs")
    if not pathlib.Path("/proc/self/task", str(os.getpid()), "children").exists():
        pytest.skip("the kernel does not list the children of a process")
    with subprocess.Popen(
            [sys.executable, EXAMPLES / "embeddings.py", "--dir", tmp_path, "--rows", "2000",
             "--batch", "200", "--limit", "64m", "--memory", "32m", "--warm-rows", "200",
             "--seconds", "600", "--rounds", "1"], stdout=subprocess.DEVNULL) as program:
        # Its children, the first of which measures.
        children = pathlib.Path(f"/proc/{program.pid}/task/{program.pid}/children")
        try:
            while not (any(tmp_path.glob("embeddings.*/store")) and children.read_text()):
                assert program.poll() is None
                time.sleep(0.01)
            child = pathlib.Path(f"/proc/{children.read_text().split()[0]}")
            program.terminate()
            assert program.wait(100) == 128 + signal.SIGTERM
        finally:
            program.kill()
    assert not child.exists() and not list(tmp_path.iterdir())
    assert not list(pathlib.Path("/sys/fs/cgroup").rglob(f"limit.{program.pid}"))


def test_a_disk_that_is_too_small_is_told(embeddings, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys.modules["long_work"], "file_system_of", lambda _: "ext2/ext3")
    monkeypatch.setattr(sys.modules["long_work"].shutil, "disk_usage",
                        lambda _: SimpleNamespace(free=1 << 20))
    figures = tmp_path / "figures"
    monkeypatch.setattr(sys, "argv",
                        ["embeddings.py", "--dir", str(tmp_path), "--json", str(figures)])
    with pytest.raises(SystemExit):
        embeddings.main()
    assert "1 MiB free" in capsys.readouterr().err
    given = json.loads(figures.read_text())
    assert given["claims"] == {} and "free" in given["not_measured"]["embeddings_vs_memmap"]
