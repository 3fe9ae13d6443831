"""Scripts say what they take and give, are all used, and stay within what every server has."""

import re
from pathlib import Path

import pytest

from rankd.adapters.redis import client

LUA = sorted(client._LUA.glob("*.lua"))
SCRIPTS = [thing for thing in vars(client).values() if isinstance(thing, client.LuaScript)]


def test_every_file_is_a_script_or_their_prelude() -> None:
    assert {path.stem for path in LUA} == {script.name for script in SCRIPTS} | {"partition"}


@pytest.mark.parametrize("path", LUA, ids=lambda path: path.stem)
def test_a_script_says_what_it_is_for_and_why_it_is_one(path: Path) -> None:
    text = path.read_text()
    header = re.match(rf"-- {path.stem}: .+\n(--.*\n)+", text)
    assert header is not None
    if path.stem != "partition":
        for word in ("KEYS[1]", "ARGV[1]", "Returns ", "O(", "Atomic because"):
            assert word in header[0], word


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_nothing_newer_than_the_oldest_server_is_called(script: client.LuaScript) -> None:
    """And nothing that depends on the server's clock or on chance."""
    commands = set(re.findall(rb'call\("([A-Z]+)"', script.text))
    known = """EXISTS GET HDEL HGET HGETALL HMGET HSCAN HSET LINDEX LLEN LPOP LRANGE RPUSH SADD SET
        SMEMBERS SPOP SREM UNLINK ZADD ZCARD ZLEXCOUNT ZRANGE ZRANGEBYLEX ZRANK ZREM ZSCORE"""
    assert {command.decode() for command in commands} <= set(known.split())


def test_no_number_of_a_position_is_made_of_text() -> None:
    """Lua's numbers are doubles: a position over 2**53 would become another."""
    for script in SCRIPTS:
        for name in ("after", "through", "at", "asked", "whereto"):
            assert not re.search(rb"tonumber\(%s\)" % name.encode(), script.text)
