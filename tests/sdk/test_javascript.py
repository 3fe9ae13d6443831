"""The JavaScript client, in Node and in a real browser, against a running service."""

import functools
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from tests.browser.chromium import browser
from tests.cli.running import run, serving
from tests.not_tested import not_tested

from rankd.testing.servers import ServerMissing, chromium_binary

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "sdk" / "javascript"
SCENARIO = Path(__file__).with_name("scenario.mjs")

BOARDS = {
    "arena": (),
    "big": (),
    "decimals": ("--set", "decimals=2"),
    "live": (),
    "sums": ("--set", "rule=sum"),
}


@contextmanager
def service(folder: Path, *options: str) -> Iterator[str]:
    with serving(folder, *options) as served:
        for name, settings in BOARDS.items():
            run("board", "apply", name, *settings, "--url", served.url)
        yield served.url


def test_every_call_works_in_node(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        not_tested("the JavaScript client in Node", "no node")
    script = f"import {{ run }} from {json.dumps(SCENARIO.as_uri())};"
    with service(tmp_path) as url:
        script += f"console.log(JSON.stringify(await run({json.dumps(url)})));"
        command = [node, "--input-type=module", "-e", script]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


class _Quiet(SimpleHTTPRequestHandler):
    extensions_map = MappingProxyType(
        {**SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}
    )  # type: ignore[assignment]

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def site() -> Iterator[str]:
    """Serve the tree as another origin than the service's."""
    handler = functools.partial(_Quiet, directory=str(ROOT))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_every_call_works_in_a_page_of_another_origin(tmp_path: Path) -> None:
    try:
        chromium_binary()
    except ServerMissing as missing:
        not_tested("the JavaScript client in a browser", missing)
    with site() as origin, service(tmp_path, "--cors-origins", origin) as url, browser() as page:
        page.open(f"{origin}/sdk/javascript/package.json")
        where = json.dumps(f"{origin}/tests/sdk/scenario.mjs")
        page.evaluate(
            f"import({where}).then((module) => module.run({json.dumps(url)}))"
            ".then((failures) => { globalThis.failures = failures; },"
            " (error) => { globalThis.failures = [String(error)]; })"
        )
        page.wait_for("globalThis.failures !== undefined")
        assert page.evaluate("globalThis.failures") == []


@pytest.mark.parametrize("name", ["Rankd", "LiveBoard"])
def test_types_name_the_same_members_as_the_module(name: str) -> None:
    def members(file: str) -> set[str]:
        text = (CLIENT / file).read_text()
        body = text.split(f"export class {name} {{", 1)[1].split("\n}", 1)[0]
        found = re.findall(r"^  (?:async )?(?:readonly )?\*?(?:get )?(\w+)(?=[(:])", body, re.M)
        found += re.findall(r"^    this\.(\w+) = ", body, re.M)
        return {one for one in found if not one.startswith("_")} - {"constructor"}

    told = members("rankd.d.ts")
    there = members("rankd.js") - ({"timeout", "retries"} if name == "Rankd" else set())
    assert told == there


def test_the_module_has_no_dependency() -> None:
    assert "import" not in re.findall(r"^\w+", (CLIENT / "rankd.js").read_text(), re.M)
    package = json.loads((CLIENT / "package.json").read_text())
    assert not {"dependencies", "peerDependencies"} & set(package)


def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        not_tested("the JavaScript client in Node", "no node")
    text = (ROOT / "docs" / "javascript.md").read_text()
    module = json.dumps((CLIENT / "rankd.js").as_uri())
    with service(tmp_path) as url:
        for example in re.findall(r"```js\n(.*?)```", text, re.S):
            script = example.replace('"rankd"', module).replace("http://127.0.0.1:8700", url)
            command = [node, "--input-type=module", "-e", script]
            ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
            assert ran.stderr == ""
            assert "ada" in ran.stdout or "rank 1 of 1" in ran.stdout
