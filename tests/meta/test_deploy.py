"""What deploy/ sets up and docs/operating tells can be done: commands, settings, routes, SQL."""

import asyncio
import configparser
import http.client
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile, which
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import click
import pytest
import yaml  # type: ignore[import-untyped]
from tests.not_tested import not_tested

import rankd
from rankd.api.routing import ROLES
from rankd.app import ROUTES
from rankd.bootstrap import EngineConfig
from rankd.cli import main
from rankd.settings import OTHER_VARIABLES, TABLE, resolve
from rankd.testing import debian
from rankd.testing.servers import (
    ServerMissing,
    haproxy_binary,
    postgres_programs,
    postgres_server,
)

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
OPERATING = ROOT / "docs" / "operating"
SETTING_UP = OPERATING / "setting-up.md"
PAGES = [ROOT / "README.md", *sorted(OPERATING.glob("*.md"))]
COMPOSE = sorted(DEPLOY.glob("compose.*.yml"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))

VARIABLES = {row.environment: row for row in TABLE}
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

SPECIFIERS = {"%i": "a", "%H": "host", "%%": "%"}


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def fences(text: str, language: str) -> list[str]:
    return [body for found, body in FENCE.findall(text) if found == language]


# -------------------------------------------------------------------------------- commands


def read(words: list[str], *, config: Path) -> dict[str, Any]:
    """Have the command line read a command, and do nothing; return what it read."""
    rest = [str(config) if word.startswith("/etc/rankd/") else word for word in words]
    command: click.Command = main
    context: click.Context | None = None
    name: str | None = "rankd"
    while isinstance(command, click.Group):
        context = click.Context(command, parent=context, info_name=name)
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None, words
        command = found
    return command.make_context(name, rest, parent=context).params


def commands_of_pages() -> Iterator[Any]:
    for page in PAGES:
        for fence in fences(page.read_text(), "sh"):
            for line in fence.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words[:1] == ["rankd"]:
                    yield pytest.param(words[1:], id=f"{named(page)}: {shlex.join(words[:3])}")


def commands_of_compose() -> Iterator[Any]:
    for path in COMPOSE:
        for name, service in yaml.safe_load(path.read_text())["services"].items():
            if service["image"] == "rankd":
                words = service.get("command", ["serve"])  # What the Dockerfile runs.
                yield pytest.param(words, id=f"{path.name}: {name}")


def commands_of_units() -> Iterator[Any]:
    for path in UNITS:
        words = shlex.split(read_unit(path)["Service"]["ExecStart"][-1])
        assert words[0] == "/opt/rankd/bin/rankd"
        yield pytest.param(words[1:], id=path.name)


def read_unit(path: Path) -> dict[str, dict[str, list[str]]]:
    """Return what a unit says: its settings by section, each as often as it is there."""
    sections: dict[str, dict[str, list[str]]] = {}
    section = ""
    for line in path.read_text().splitlines():
        if found := re.fullmatch(r"\[(\w+)\]", line):
            section = found[1]
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            for specifier, stands_for in SPECIFIERS.items():
                value = value.replace(specifier, stands_for)
            sections.setdefault(section, {}).setdefault(name, []).append(value)
    return sections


COMMANDS = [*commands_of_pages(), *commands_of_compose(), *commands_of_units()]


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_is_one_that_there_is(words: list[str]) -> None:
    config = DEPLOY / "systemd" / "rankd.toml"
    given = read(words, config=config)
    if words[0] == "serve":
        values = {row.name: given[row.name] for row in TABLE}
        EngineConfig.chosen(resolve(command_line=values, file=config if given["config"] else None))


def test_a_command_that_there_is_not_is_found() -> None:
    for wrong in ("serve --leger sqlite", "serf", "keys make", "keys revoke"):
        with pytest.raises(click.UsageError):
            read(wrong.split(), config=DEPLOY)


def test_there_are_commands_of_every_kind() -> None:
    assert len(list(commands_of_pages())) >= 5
    assert len(list(commands_of_compose())) >= 7
    assert len(list(commands_of_units())) == 2


# -------------------------------------------------------------------------------- settings


@pytest.mark.parametrize("path", COMPOSE, ids=named)
def test_the_variables_of_containers_are_settings_with_values_they_take(path: Path) -> None:
    for service in yaml.safe_load(path.read_text())["services"].values():
        given = {
            name: str(value)
            for name, value in service.get("environment", {}).items()
            if name.startswith("RANKD_")
        }
        assert set(given) <= set(VARIABLES)
        settings = resolve(environment=given)
        EngineConfig.chosen(settings)
        assert settings.role in ROLES


@pytest.mark.parametrize("path", COMPOSE, ids=named)
def test_containers_name_only_services_and_volumes_that_there_are(path: Path) -> None:
    whole = yaml.safe_load(path.read_text())
    for service in whole["services"].values():
        assert set(service.get("depends_on", ())) <= set(whole["services"])
        for mount in service.get("volumes", ()):
            source = mount.split(":")[0]
            assert source in whole["volumes"] or (DEPLOY / source).is_file()
        if service["image"] == "rankd":  # It is in no registry: whoever is first builds it.
            assert (DEPLOY / service["build"]["context"]).resolve() == ROOT
            assert (ROOT / service["build"]["dockerfile"]).is_file()


def test_of_several_nodes_each_has_a_name_and_a_folder_and_one_does_the_chores() -> None:
    services = yaml.safe_load((DEPLOY / "compose.nodes.yml").read_text())["services"]
    nodes = {
        name: service["environment"]
        for name, service in services.items()
        if service["image"] == "rankd" and "profiles" not in service
    }
    roles = [settings["RANKD_ROLE"] for settings in nodes.values()]
    assert sorted(roles) == ["api", "api", "api", "manager"]
    assert [settings["RANKD_NODE"] for settings in nodes.values()] == list(nodes)
    folders = [tuple(services[name]["volumes"]) for name in nodes]
    assert len(set(folders)) == len(nodes)


def test_the_files_of_settings_are_taken() -> None:
    file = DEPLOY / "systemd" / "rankd.toml"
    EngineConfig.chosen(resolve(file=file))
    lines = [line.split("#")[0] for line in (DEPLOY / "systemd" / "a.env").read_text().splitlines()]
    given = dict(line.split("=", 1) for line in lines if line.strip())
    assert set(given) <= set(VARIABLES)
    assert resolve(file=file, environment=given).role in ROLES


@pytest.mark.parametrize("page", [*PAGES, *sorted(DEPLOY.rglob("*"))], ids=named)
def test_every_variable_that_is_named_is_a_setting(page: Path) -> None:
    if page.is_file():
        found = set(re.findall(r"\bRANKD_[A-Z_]+\b", page.read_text()))
        assert found <= set(VARIABLES) | OTHER_VARIABLES


def test_the_container_listens_where_its_health_is_asked() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    port = str(next(row.default for row in TABLE if row.name == "port"))
    assert re.search(r"^EXPOSE (\d+)$", text, re.MULTILINE)[1] == port  # type: ignore[index]
    assert f"http://127.0.0.1:{port}/healthz" in text
    assert set(re.findall(r"RANKD_\w+(?==)", text)) <= set(VARIABLES)


def test_container_image_is_refused_without_a_native_part() -> None:
    package = DEPLOY.parent / "src"
    files = [path.relative_to(package).with_suffix("") for path in package.rglob("*.pyx")]
    (imported,) = re.findall(r"python -c 'import (.+)'", (DEPLOY / "Dockerfile").read_text())
    assert {".".join(file.parts) for file in files} <= set(imported.split(", "))


@pytest.mark.parametrize("path", UNITS, ids=named)
def test_a_unit_gives_a_node_its_folder_and_nothing_more(path: Path) -> None:
    service = read_unit(path)["Service"]
    words = shlex.split(service["ExecStart"][-1])
    folder = words[words.index("--data") + 1]
    assert folder == f"/var/lib/{service['StateDirectory'][0]}"
    assert service["CapabilityBoundingSet"] == [""]
    assert service["ProtectSystem"] == ["strict"]
    assert service["NoNewPrivileges"] == service["PrivateDevices"] == ["yes"]
    assert service["Restart"] == ["always"]


def test_both_units_are_held_as_tightly() -> None:
    one, several = [read_unit(path)["Service"] for path in UNITS]
    own = {"ExecStart", "StateDirectory", "WorkingDirectory", "EnvironmentFile"}
    assert {name: one[name] for name in one.keys() - own} == {
        name: several[name] for name in several.keys() - own
    }


def test_units_have_the_form_of_units() -> None:
    for path in [*UNITS, DEPLOY / "systemd" / "rankd.target"]:
        parser = configparser.ConfigParser(strict=False, interpolation=None)
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read(path)
        assert {"Unit", "Install"} <= set(parser.sections())


@pytest.mark.skipif(which("systemctl") is None, reason="NOT TESTED, units: no systemd")
def test_nodes_that_are_enabled_come_back_with_the_machine(tmp_path: Path) -> None:
    """Also if the target of all of them is not enabled, or one of them is disabled."""
    folder = tmp_path / "etc" / "systemd" / "system"
    folder.mkdir(parents=True)
    for path in [*UNITS, DEPLOY / "systemd" / "rankd.target"]:
        copyfile(path, folder / path.name)

    def systemctl(*words: str) -> None:
        command = ["systemctl", f"--root={tmp_path}", *words]
        subprocess.run(command, check=True, capture_output=True)

    systemctl("enable", "rankd@a", "rankd@b", "rankd@c")
    systemctl("disable", "rankd@c")
    wanted = {path.name for path in (folder / "multi-user.target.wants").iterdir()}
    together = {path.name for path in (folder / "rankd.target.wants").iterdir()}
    assert wanted == together == {"rankd@a.service", "rankd@b.service"}


def test_what_the_page_installs_is_there_and_where_units_look_for_it() -> None:
    (steps,) = [fence for fence in fences(SETTING_UP.read_text(), "sh") if "sysusers" in fence]
    words = [shlex.split(line, comments=True) for line in steps.splitlines()]
    installed: dict[str, str] = {}
    for line in words:
        given = [word for word in line if word.startswith("deploy/")]
        assert all(map(list, map(ROOT.glob, given))), line
        for source in [path for word in given for path in ROOT.glob(word)]:
            name = line[-1] + source.name if line[-1].endswith("/") else line[-1]
            installed[name] = line[line.index("-m") + 1]
    units = {f"/etc/systemd/system/{path.name}" for path in UNITS}
    assert units | {"/etc/systemd/system/rankd.target"} <= set(installed)
    for path in UNITS:
        service = read_unit(path)["Service"]
        named = [name.removeprefix("-") for name in service["EnvironmentFile"]]
        assert {*named, "/etc/rankd/rankd.toml"} <= set(installed)
    assert installed["/etc/rankd/rankd.env"] == "0600"
    assert "/etc/sysusers.d/rankd.conf" in installed


# --------------------------------------------------------------------------------- balancers


def is_read_by(name: str, method: str, path: str) -> bool:
    """Whether a balancer sends a request to those that answer reads, by what its file says."""
    text = (DEPLOY / name).read_text()
    if name == "haproxy.cfg":
        methods = re.findall(r"^\s+acl reads method (.+)$", text, re.MULTILINE)[0].split()
        ends = re.findall(r"^\s+acl reads path,url_dec -m end (\S+)$", text, re.MULTILINE)
        return method in methods or path.endswith(tuple(ends))
    patterns = re.findall(r'^\s+"~(.+)"\s+rankd_readers;$', text, re.MULTILINE)
    return any(re.search(pattern, f"{method} {path}") for pattern in patterns)


@pytest.mark.parametrize("balancer", ["haproxy.cfg", "nginx.conf"])
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_balancers_send_each_route_to_a_role_that_answers_it(balancer: str, route: Any) -> None:
    path = re.sub(r"\{\w+\}", "x", route.path)
    assert is_read_by(balancer, route.method, path) == (not route.writes)


def test_haproxy_keeps_from_strangers_what_is_of_one_node(tmp_path: Path) -> None:
    """However they write it: a node reads %6d as m."""
    try:
        haproxy = haproxy_binary()
    except ServerMissing as missing:
        not_tested("deploy/haproxy.cfg", missing)
    text = (DEPLOY / "haproxy.cfg").read_text()
    text = re.sub(r"^resolvers names\n(    .*\n)+", "", text, flags=re.MULTILINE)
    text = text.replace(" init-addr last,libc,none resolvers names", "")
    with bound_to_nobody() as nobody, bound_to_nobody() as free:
        text = re.sub(r"\bnode\d:8700", f"127.0.0.1:{nobody}", text)
        port = free
    (tmp_path / "cfg").write_text(text.replace("bind :8700", f"bind 127.0.0.1:{port}"))
    with subprocess.Popen(
        [str(haproxy), "-f", str(tmp_path / "cfg")],
        stderr=subprocess.DEVNULL,
        env={**os.environ, **debian.environment(haproxy)},
    ) as process:
        try:
            for path in ("/metrics", "/readyz", "/%6detrics", "/%72e%61dyz", "/metrics?a=b"):
                assert status_of(port, path) == 404, path
            assert status_of(port, "/v1/boards") == 503, "there is no node"
        finally:
            process.terminate()


@contextmanager
def bound_to_nobody() -> Iterator[int]:
    """Give a port that is free, as long as nobody takes it."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        yield found.getsockname()[1]


def status_of(port: int, path: str) -> int:
    """Ask until somebody listens."""
    for _ in range(200):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except ConnectionRefusedError:
            time.sleep(0.05)
        finally:
            connection.close()
    pytest.fail("nobody listens")


def test_balancers_know_the_nodes_that_containers_are() -> None:
    services = yaml.safe_load((DEPLOY / "compose.nodes.yml").read_text())["services"]
    answering = {
        f"{name}:8700"
        for name, service in services.items()
        if service.get("environment", {}).get("RANKD_ROLE") == "api"
    }
    for name in ("haproxy.cfg", "nginx.conf"):
        listed = re.findall(r"\bserver (?:\w+ )?(\w+:\d+)", (DEPLOY / name).read_text())
        assert set(listed) == answering
        assert len(listed) == 2 * len(answering)


# --------------------------------------------------------------------------------------- SQL


MOMENT = "(SELECT max(at) FROM rankd.submissions)"
"""Stands for now: a day may end between a submission and a question about it."""


YESTERDAY = f"to_char({MOMENT} AT TIME ZONE 'UTC' - interval '1 day', 'YYYY-MM-DD')"
ARCHIVED = f"""
INSERT INTO rankd.sealed_standings (board, window_id, since, place, rank, player, scores)
SELECT 'arena', 'daily:' || {YESTERDAY}, 1, given.*
  FROM (VALUES (1, 1, 'ada', '{{9}}'::bigint[]), (2, 1, 'bob', '{{9}}'), (3, 3, 'cyd', '{{7}}'),
               (4, 4, 'dee', '{{1}}')) AS given;
INSERT INTO rankd.sealed_windows VALUES ('arena', 'daily:' || {YESTERDAY}, 1, 4);
"""
"""What is archived when a day is over, and this one is not."""


@pytest.mark.servers
def test_the_sql_of_the_page_is_answered_as_it_says() -> None:
    (founding,) = fences(SETTING_UP.read_text(), "sql")
    granting, *questions = fences((OPERATING / "analysts.md").read_text(), "sql")
    assert len(questions) == 4
    with postgres_server(durable=True) as server:
        asyncio.run(_execute(server.url, founding.replace("rankd", "games")))
        url = f"postgresql://games@{server.host}:{server.port}/games"
        with rankd.open(url) as ranks:
            board = ranks.board("arena", windows=["all", "daily"])
            board.submit_many([("ada", 4300), ("bob", 4700), ("ada", 4800)])
            board.submit("cyd", delta=50)
            ranks.profile("ada", name="Ada")
        asyncio.run(_execute(url, ARCHIVED))
        asyncio.run(_execute(url.replace("games@", "rankd@"), granting))
        analyst = url.replace("games@", "analyst@")
        questions = [question.replace("now()", MOMENT) for question in questions]
        first, by_day, best, by_node = asyncio.run(_ask(analyst, questions))
    assert [tuple(row)[1:] for row in first] == [
        (1, "ada", "Ada", 9),
        (1, "bob", None, 9),
        (3, "cyd", None, 7),
    ]
    assert [tuple(row)[0::2] for row in by_day] == [("arena", 4)]
    assert [tuple(row) for row in best] == [
        ("ada", "Ada", 4800, None, 2),
        ("bob", None, 4700, None, 1),
        ("cyd", None, None, 50, 1),
    ]
    assert sum(row["facts"] for row in by_node) == 6


@pytest.mark.servers
def test_a_back_up_is_made_and_restored_as_the_page_prints_it(tmp_path: Path) -> None:
    """On another server, too, where there is nothing but the role of the first step."""
    programs = postgres_programs()
    if not (programs / "pg_restore").exists():
        not_tested("a back-up by pg_dump", "there are no tools of PostgreSQL beside the server")
    (founding,) = fences(SETTING_UP.read_text(), "sql")
    granting, *_ = fences((OPERATING / "analysts.md").read_text(), "sql")
    dumping, restoring, *_ = fences((OPERATING / "back-up.md").read_text(), "sh")
    with postgres_server(durable=True) as server, postgres_server(durable=True) as other:
        for each in (server, other):
            asyncio.run(_execute(each.url, founding.replace("rankd", "games")))
        url = f"postgresql://games@{server.host}:{server.port}/games"
        with rankd.open(url) as ranks:
            ranks.board("arena").submit_many([("ada", 4300), ("bob", 4700)])
        asyncio.run(_execute(url.replace("games@", "rankd@"), granting))
        for each, printed in ((server, dumping), (other, restoring)):
            # The role that may do everything is called rankd here, not postgres.
            named = printed.replace("rankd@", "games@").replace("internal/rankd", "internal/games")
            named = named.replace("--username postgres --owner rankd", "-U rankd -O games")
            named = named.replace("db.internal", each.host)
            named = named.replace("rankd verify", f"{sys.executable} -m rankd verify")
            paths = f"{programs}{os.pathsep}{os.environ['PATH']}"
            environment = os.environ | {"PGPORT": str(each.port), "PATH": paths}
            words = ["sh", "-e", "-c", named]
            done = subprocess.run(
                words, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr


async def _execute(url: str, statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in filter(str.strip, statements.split(";")):
            await connection.execute(statement)
    finally:
        await connection.close()


async def _ask(url: str, questions: list[str]) -> list[list[Any]]:
    connection = await asyncpg.connect(url)
    try:
        return [await connection.fetch(question) for question in questions]
    finally:
        await connection.close()
