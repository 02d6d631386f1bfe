"""The examples of redis-py's own pages, with keys of 8 bytes and values of 4096.

    redis_py.py HOST PORT OTHER_HOST OTHER_PORT

The client has its defaults, but for the addresses of two nodes. It ends with a failure at the first
reply that is wrong.
"""

import asyncio
import sys

import redis
import redis.asyncio


def value(number):
    return f"value {number} ".ljust(4096, ".")


def expect(got, wanted):
    assert got == wanted, f"got {str(got)[:200]}, not {str(wanted)[:200]}"


def expect_error(text, call, *arguments, **named):
    try:
        got = call(*arguments, **named)
    except redis.ResponseError as error:
        assert text in str(error), f"{error}: not '{text}'"
        return
    raise AssertionError(f"{str(got)[:200]} instead of the error '{text}'")


def strings(r, other):
    expect(r.ping(), True)
    expect(r.get("py000001"), None)
    expect(r.set("py000001", value(1)), True)
    expect(r.get("py000001"), value(1))
    expect(other.get("py000001"), value(1))
    expect(r.mset({"py000002": value(2), "py000003": value(3)}), True)
    expect(r.mget("py000003", "py000009", "py000002"), [value(3), None, value(2)])
    expect(r.exists("py000001", "py000002", "py000009"), 2)
    expect(r.strlen("py000001"), 4096)
    expect(r.type("py000001"), "string")
    expect((r.ttl("py000001"), r.pttl("py000009")), (-1, -2))
    expect(r.keys("py*"), ["py000001", "py000002", "py000003"])
    expect(r.delete("py000002", "py000009"), 1)
    expect(r.unlink("py000003"), 1)
    expect(r.get("no such key"), None)
    expect(r.hgetall("py000009"), {})
    expect(r.smembers("py000009"), set())
    expect(r.lrange("py000009", 0, -1), [])
    expect_error("WRONGTYPE", r.hget, "py000001", "field")
    expect_error("not 3 and 3", r.set, "foo", "bar")
    expect_error("a value alone", r.set, "py000001", value(1), ex=10)
    expect_error("SETNX is not served", r.setnx, "py000001", value(1))
    expect_error("nothing expires", r.expire, "py000001", 10)
    expect_error("every value is a string", r.hset, "py000001", "field", "value")
    r.delete("py000001")


def pipelines(r):
    """A pipeline is a transaction, unless it is told otherwise."""
    pipe = r.pipeline()
    pipe.set("py000001", value(1)).set("py000002", value(2)).get("py000001").delete("py000002")
    pipe.get("py000002").mget("py000001", "py000002")
    expect(pipe.execute(), [True, True, value(1), 1, None, [value(1), None]])
    with r.pipeline() as reads:
        expect(reads.get("py000001").get("py000002").execute(), [value(1), None])
    plain = r.pipeline(transaction=False)
    for i in range(100):
        plain.set(f"py1{i:05}", value(i))
        plain.get(f"py1{i:05}")
    expect(plain.execute(), [x for i in range(100) for x in (True, value(i))])
    # Keys of two shards.
    across = r.pipeline().set("py000001", value(5)).set(b"\xff" * 8, value(5))
    expect_error("one shard", across.execute)
    expect(r.get("py000001"), value(1))
    expect_error("WATCH is not served", r.transaction, lambda pipe: None, "py000001")


def scans(r, other):
    found, cursor, calls = [], 0, 0
    while calls == 0 or cursor != 0:
        cursor, keys = (r, other)[calls % 2].scan(cursor, match="py1*", count=7)
        found += keys
        calls += 1
    expect(found, [f"py1{i:05}" for i in range(100)])
    expect(len(list(r.scan_iter(match="py1*"))), 100)
    expect(list(r.scan_iter(match="py1*", _type="list")), [])
    expect(r.delete(*found), 100)


def servers(r, host, port, protocol):
    info = r.info()
    expect((info["role"], info["loading"], info["redis_mode"]), ("master", 0, "standalone"))
    assert info["redis_version"], info
    expect(r.info("replication")["connected_slaves"], 0)
    expect(r.config_get("maxmemory*"), {"maxmemory": "0", "maxmemory-policy": "noeviction"})
    expect(r.command_count() > 30, True)
    expect(r.command()["get"]["arity"], 2)
    expect(r.command_getkeys("MSET", "a", "1", "b", "2"), ["a", "b"])
    expect(r.client_setname("tester"), True)
    expect(r.client_getname(), "tester")
    own = [c for c in r.client_list() if int(c["id"]) == r.client_id()]
    expect((len(own), own[0]["lib-name"], own[0]["resp"]), (1, "redis-py", str(protocol)))
    second = redis.Redis(host=host, port=port)
    expect(r.client_kill_filter(_id=str(second.client_id())), 1)
    expect(second.ping(), True)  # On another connection.
    expect(r.dbsize(), 1)
    expect(r.delete("py000001"), 1)


async def asynchronous(host, port):
    r = redis.asyncio.Redis(host=host, port=port, decode_responses=True)
    async with r.pipeline() as pipe:
        expect(await pipe.set("py000001", value(1)).get("py000001").execute(), [True, value(1)])
    expect([key async for key in r.scan_iter()], ["py000001"])
    expect(await r.delete("py000001"), 1)
    await r.aclose()


def main():
    host, port, other_host, other_port = sys.argv[1:]
    for protocol in (None, 2, 3):
        named = {} if protocol is None else {"protocol": protocol}
        r = redis.Redis(host=host, port=int(port), decode_responses=True, **named)
        other = redis.Redis(host=other_host, port=int(other_port), decode_responses=True, **named)
        strings(r, other)
        pipelines(r)
        scans(r, other)
        servers(r, host, int(port), protocol or 3)
    asyncio.run(asynchronous(host, int(port)))


main()
