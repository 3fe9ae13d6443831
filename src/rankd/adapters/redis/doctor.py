"""Checks of a Redis before nodes use it, for ``rankd doctor``."""

from redis.exceptions import AuthenticationError, NoPermissionError

from rankd.adapters.redis.client import RedisAddress, RedisClient
from rankd.adapters.redis.generations import Generations
from rankd.errors import IndexUnavailable, InvalidSetting
from rankd.ports import Finding


async def examine(url: str) -> list[Finding]:
    """Inspect a server without changing it. Raises InvalidSetting, IndexUnavailable."""
    link = RedisClient(RedisAddress.read(url))
    try:
        findings = await _servers(link)
        findings.append(await _index(link))
        return findings
    except IndexUnavailable as exc:
        if not isinstance(exc.__cause__, AuthenticationError | NoPermissionError):
            raise
        return [Finding("Redis", str(exc), _refused(link.address, exc.__cause__))]
    finally:
        await link.close()


async def _servers(link: RedisClient) -> list[Finding]:
    refused = evicting = ""
    try:
        await link.check()
    except InvalidSetting as exc:
        if "maxmemory-policy" in exc.problem:
            evicting = f"it {exc.problem}"
        else:
            refused = exc.problem
    versions, policies = await link.described()
    return [
        Finding("Redis", ", ".join(versions), refused),
        Finding("eviction", ", ".join(policies), evicting),
        Finding("persistence", await _persistence(link)),
    ]


async def _persistence(link: RedisClient) -> str:
    """Describe the persistence of each server, as far as it is readable."""
    kept: list[str] = []
    for target, info in await link._infos():
        saves = await link._config(target, "save")
        if info.get("aof_enabled") == "1":
            kept.append("it writes every change to disk (appendonly yes)")
        elif saves is None:
            kept.append("it appends nothing to a file, and does not tell whether it saves")
        elif saves:
            kept.append(f"it saves now and then (save {saves})")
        else:
            kept.append("it writes nothing to disk: after a restart the index is filled again")
    return "; ".join(dict.fromkeys(kept))


def _refused(address: RedisAddress, error: BaseException) -> str:
    """Return the remedy for a server that answers but refuses access."""
    if isinstance(error, NoPermissionError):
        return "it runs, and its user may not do this: give it the commands, with ACL SETUSER"
    if address.password is None:
        return "it runs, and wants a password: name it in the URL, redis://:PASSWORD@host"
    return "it runs, and refused the password in the URL, or the user"


async def _index(link: RedisClient) -> Finding:
    living, wanted = await Generations(link).pointed(), link.address.partitions
    if living is None:
        return Finding("index", "none yet: the first node that starts begins one")
    return Finding("index", spread(living.partitions, wanted) or f"partitions: {wanted}")


def spread(partitions: int, wanted: int) -> str:
    """Return a warning if an index has another number of partitions than its URL; else ""."""
    if partitions == wanted:
        return ""
    return f"the index has {partitions} partitions, not {wanted}: one that is rebuilt will"
