"""Calls as a checker of types sees them. It finds an error in each line that says so, and no other.

scripts/test_python.sh compares. The program is never run.
"""
from typing import Any, Dict, List, Optional, Tuple

import numpy
from numpy.typing import NDArray

import engine_race

store = engine_race.open("/tmp/store", memory_budget_bytes="2g", bucket_count=16,
                         paths=["/a", b"b"], sync_mode="group", verify_checksums=True, numa=None)
engine_race.open("/tmp/store", bucket_size=16)  # wrong
engine_race.open("/tmp/store", bucket_count=[16])  # wrong
engine_race.open("/tmp/store", sync_mode="sometimes")  # wrong
engine_race.open("/tmp/store", sync_on_close=1)  # wrong
engine_race.open(5)  # wrong
vectors = engine_race.open("/tmp/vectors", dtype="float32", shape=768, value_bytes="3k")
engine_race.open("/tmp/vectors", "r", dtype=numpy.float16, shape=(numpy.int64(32), 32))
engine_race.open("/tmp/vectors", dtype=768)  # wrong
engine_race.open("/tmp/vectors", shape="768")  # wrong
size: int = vectors.value_bytes + vectors.snapshot().value_bytes
vectors.value_bytes = 5  # wrong

value: bytes = store[1]
value = store[numpy.int64(1)]
value = store[bytearray(8)]
store[numpy.uint32(7)] = memoryview(value)
store.put(memoryview(bytes(8)), value)
del store[numpy.int64(1)]
store.batch().put(numpy.int64(3), value)
store.iterator(numpy.int64(3), bytearray(8), prefetch_records=numpy.int64(8))
engine_race.open("/tmp/store", bucket_count=numpy.int64(16))
store[1.5]  # wrong
store.get(1).hex()  # wrong
with_default: bytes = store.get(1, b"")
store.scan("a")  # wrong
for key, found in store.scan(b"8 bytes!"):
    key.bit_length()
    found.hex()
keys: List[int] = list(store.keys(reverse=True))
values: List[bytes] = list(store.values())
items: Dict[int, bytes] = dict(store.items())

some: Dict[int, bytes] = dict(store[5:9])
some = dict(store.scan(b"ab", b"b"))
prefixed: List[int] = list(store.keys(prefix=b"ab"))
store.keys(prefix="ab")  # wrong
counts: List[int] = [len(store), store.count(5), store.count(prefix=bytearray(b"a"))]
backwards: List[int] = list(reversed(store))
store.update(some)
store.update(store)
store.update((number, memoryview(value)) for number in range(5))
store.update(b"text")  # wrong
store.batch().update({b"8 bytes!": bytearray(4096)})
popped: bytes = store.pop(5)
perhaps: Optional[bytes] = store.pop(b"8 bytes!", None)
popped = store.pop(5, None)  # wrong
value = store.setdefault(5, bytearray(4096))
said: str = store.path + engine_race.__version__ + repr(store)
store.path = "other"  # wrong
settings: Dict[str, Any] = {"bucket_count": 16}
engine_race.open("/tmp/store", **settings)

rows: NDArray[numpy.uint8] = store.read_many([1, 2])
floats: NDArray[numpy.float32] = store.read_many([1, 2], dtype=numpy.float32, shape=(-1, 1024))
out = bytearray(8192)
filled: bytearray = store.read_many([1, 2], out=out, missing="keep")
store.read_many([1, 2], kind="f4")  # wrong
store.read_many([1, 2], missing="perhaps")  # wrong
masked: Tuple[NDArray[numpy.float32], NDArray[numpy.bool_]]
masked = store.read_many([1, 2], missing="mask", dtype=numpy.float32)
with_out: Tuple[bytearray, NDArray[numpy.bool_]] = store.read_many([1, 2], out, missing="mask")
unmasked: NDArray[numpy.uint8] = store.read_many([1, 2], missing="mask")  # wrong
store.write_many([1], rows, progress=lambda done, most: print(done, most))
store.write_many([1], rows, progress=lambda done: None)  # wrong
engine_race.verify("/tmp/store", progress=print)
engine_race.verify("/tmp/store", progress=5)  # wrong
with store.snapshot() as snapshot:
    gathered: NDArray[numpy.uint8] = snapshot.read_many(range(3), missing="zero")
    snapshot.write_many([1], rows)  # wrong
    blocks: List[Tuple[NDArray[numpy.uint64], NDArray[numpy.uint8]]] = list(snapshot.blocks(10))
for block_keys, block in store.blocks(dtype="f4", snapshot=snapshot):
    block.view(numpy.uint8)



async def wait() -> None:
    maybe: Optional[bytes] = await store.aget(1)
    sure: bytes = await store.aget(b"8 bytes!", b"")
    sure = await store.aget(1)  # wrong
    many: NDArray[numpy.uint8] = await store.aread_many([1, b"8 bytes!"])
    same: bytearray = await store.aread_many([1], out=bytearray(4096))
    pair: Tuple[NDArray[Any], NDArray[numpy.bool_]] = await store.aread_many([1], missing="mask")
    await store.aread_many([1], missing="perhaps")  # wrong

report_of_load: engine_race.LoadReport = engine_race.load_npy(store, "rows.npy", [1, b"8 bytes!"])
engine_race.load_npy(store, "rows.npy", numpy.arange(5), resume="note", progress=print)
engine_race.load_npy("store", "rows.npy")  # wrong
engine_race.load_parquet(store, "rows.parquet", 0, value="row")
engine_race.load_lmdb(store, "data.lmdb", b"name", key=int, value=lambda value: value[4:])
engine_race.load_rocksdb(store, "data.rocksdb", key="int")  # wrong

store.compact()
store.compact("all")  # wrong
space: List[engine_race.BucketSpace] = store.bucket_space()
space[0].dead_bytes.bit_length()
space[0].free_bytes  # wrong
engine_race.open("/tmp/store", reclaim="background", reclaim_dead_percent=20)
engine_race.open("/tmp/store", reclaim="always")  # wrong

report: engine_race.Report = engine_race.verify("/tmp/store", key_range="0-5")
report.bad_count.bit_length()
engine_race.copy("/tmp/store", b"/tmp/copy").colour  # wrong
try:
    engine_race.verify("/tmp/store")
except engine_race.CorruptionError as error:
    error.report.bad_count  # wrong
