"""The console in a real browser: every action of it reaches the service, and names stay text."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.browser.chromium import Page
from tests.browser.conftest import Site, serving_site
from tests.cli.running import run

HOSTILE = "<img src=x onerror=alert(1)>"
REFUSED = "Failed to load resource"
"""A browser's line about an answer such as 404, which the console shows in words."""

RULES = [{"rule": "first_score", "max": 100, "then": "hold"}]


class Console:
    """The console, as a person works in it."""

    def __init__(self, page: Page, site: Site) -> None:
        self.page = page
        self.site = site

    def go(self, section: str) -> None:
        """Open a section, and wait until it is drawn."""
        self.page.open(f"{self.site.url}/console?{section}#{section}")
        self.wait("document.querySelector('#main h1, #main form') !== null")

    def wait(self, expression: str) -> Any:
        return self.page.wait_for(expression)

    def reads(self, text: str) -> None:
        """Wait until the page has a text."""
        self.wait(f"document.getElementById('main').innerText.includes({json.dumps(text)})")

    def press(self, label: str, within: str = "#main") -> None:
        """Press the first button with a label."""
        found = (
            f"[...document.querySelectorAll('{within} button')]"
            f".find(one => one.textContent === {json.dumps(label)})"
        )
        self.wait(f"{found} !== undefined")
        self.page.evaluate(f"{found}.click()")

    def fill(self, within: str = "#main", **fields: str) -> None:
        """Fill in fields by their names."""
        for name, value in fields.items():
            where = f"document.querySelector('{within} [name={name}]')"
            self.wait(f"{where} !== null")
            self.page.evaluate(f"{where}.value = {json.dumps(value)}")

    def confirm(self, label: str, **fields: str) -> None:
        """Answer the dialog that has just opened, and wait until it is closed."""
        self.wait("document.getElementById('dialog').open")
        self.fill("#dialog", **fields)
        self.press(label, "#dialog")
        self.wait("!document.getElementById('dialog').open")

    def told(self, text: str) -> None:
        """Wait for a short message."""
        self.wait(f"document.getElementById('toast').textContent.includes({json.dumps(text)})")


@pytest.fixture
def console(page: Page, site: Site) -> Iterator[Console]:
    site.define("arena", title="Arena", windows=["all", "daily"], rules=RULES)
    site.submit("arena", "ada", 40)
    site.submit("arena", "bob", 60)
    yield Console(page, site)
    assert [one for one in page.complaints if REFUSED not in one] == []


def read(site: Site, path: str) -> dict[str, Any]:
    found: dict[str, Any] = site.client.get(path).raise_for_status().json()
    return found


def test_boards_are_defined_previewed_and_redefined(console: Console) -> None:
    site = console.site
    console.go("boards")
    console.reads("Arena")
    console.fill(name="golf", definition='{"direction": "lower"}')
    console.press("Define")
    console.told("golf is defined")
    assert read(site, "/v1/boards/golf")["definition"]["direction"] == "lower"
    console.go("boards/arena")
    changed = {"title": "Arena", "windows": ["all"], "rule": "latest", "rules": RULES}
    console.fill(definition=json.dumps(changed))
    console.press("Preview")
    console.reads("latest")
    console.press("Apply")
    console.told("arena is redefined")
    assert read(site, "/v1/boards/arena")["definition"]["rule"] == "latest"
    console.go("boards/golf")
    console.press("Retire")
    console.confirm("Retire", reason="a test")
    console.wait("location.hash === '#boards'")
    assert site.client.get("/v1/boards/golf").status_code == 404


def test_wrong_definitions_are_told(console: Console) -> None:
    console.go("boards/arena")
    console.fill(definition="{")
    console.press("Preview")
    console.reads("This is not JSON")
    console.fill(definition='{"rule": "most"}')
    console.press("Preview")
    console.reads("rule must be one of")


def test_rules_are_tried_on_the_past(console: Console) -> None:
    console.go("boards/arena")
    rules = [{"rule": "first_score", "max": 50, "then": "flag"}]
    console.fill(definition=json.dumps({"windows": ["all", "daily"], "rules": rules}))
    console.press("What would the rules have caught?")
    console.reads("1 of 2 past submissions would have been caught")


@pytest.mark.parametrize(
    ("label", "state"), [("Reset", "sealed"), ("Freeze", "frozen"), ("Settle", "final")]
)
def test_windows_take_their_steps(console: Console, label: str, state: str) -> None:
    console.go("boards/arena")
    console.press(label)
    console.confirm(label, reason="a test")
    console.told("is done")
    windows = read(console.site, "/v1/boards/arena/windows")["windows"]
    assert state in [one["state"] for one in windows]


@pytest.mark.parametrize(
    ("label", "state"), [("Ban", "banned"), ("Hide", "hidden"), ("Shadow", "shadowed")]
)
def test_players_are_taken_out_and_brought_back(console: Console, label: str, state: str) -> None:
    console.go("players/bob")
    console.press(label)
    console.confirm(label, reason="a test")
    console.reads(state)
    assert read(console.site, "/v1/players/bob")["state"] == state
    console.press("Restore")
    console.confirm("Restore", reason="an error")
    console.reads("active")
    assert read(console.site, "/v1/boards/arena/standings/bob")["rank"] == 1


def test_players_are_found_and_names_stay_text(console: Console) -> None:
    console.site.client.put("/v1/players/ada", json={"name": HOSTILE}).raise_for_status()
    console.go("players")
    console.fill(query="<img")
    console.press("Find")
    console.reads("ada")
    console.go("players/ada")
    console.reads(HOSTILE)
    console.reads("score_submitted")
    assert console.page.evaluate("document.querySelectorAll('#main img').length") == 0


@pytest.mark.parametrize(("label", "state"), [("Approve", "approved"), ("Reject", "rejected")])
def test_held_scores_are_decided(console: Console, label: str, state: str) -> None:
    held = {"player": "cyd", "score": 9000}
    assert console.site.client.post("/v1/boards/arena/scores", json=held).status_code == 202
    console.go("reviews")
    console.reads("first_score: 9,000, limit 100")
    console.press("Evidence")
    console.confirm("Close")
    console.press(label)
    console.confirm(label, reason="seen")
    console.reads("Nothing to review.")
    (review,) = read(console.site, "/v1/reviews")["reviews"]
    assert (review["state"], review["reason"]) == (state, "seen")


def test_submissions_are_retracted_after_a_dry_run_and_taken_back(console: Console) -> None:
    console.go("retractions")
    console.fill(board="arena", player="bob", reason="a test")
    console.press("Dry run")
    console.reads("1 submissions of 1 players.")
    assert read(console.site, "/v1/boards/arena/standings/bob")["rank"] == 1
    console.press("Retract 1 submissions")
    console.told("are retracted")
    assert console.site.client.get("/v1/boards/arena/standings/bob").status_code == 404
    (done,) = read(console.site, "/v1/boards/arena/corrections")["corrections"]
    console.go("retractions")
    forms = "document.querySelectorAll('#main form')[1]"
    for name, value in (
        ("board", "arena"),
        ("position", str(done["position"])),
        ("reason", "an error"),
    ):
        console.page.evaluate(f"{forms}.elements.{name}.value = {json.dumps(value)}")
    console.press("Take back")
    console.told("count again")
    assert read(console.site, "/v1/boards/arena/standings/bob")["rank"] == 1


def test_the_audit_trail_is_filtered(console: Console) -> None:
    console.go("audit")
    console.reads("board_defined")
    console.fill(player="ada")
    console.press("Filter")
    console.reads("score_submitted")
    console.wait("!document.getElementById('main').innerText.includes('board_defined')")


def test_webhooks_are_set_and_deleted(console: Console) -> None:
    console.go("webhooks")
    console.fill(name="hook", url="https://game.example/hook")
    console.press("Set")
    console.confirm("I have kept it")
    console.reads("https://game.example/hook")
    console.go("webhooks/hook")
    console.reads("No delivery")
    console.go("webhooks")
    console.press("Delete")
    console.confirm("Delete")
    console.reads("No webhook yet.")


def test_health_shows_live_rates(console: Console) -> None:
    console.go("health")
    console.reads("ready")
    console.reads("commits a second")
    console.reads("rankd_")


def test_keys_are_asked_for_created_and_revoked(page: Page, tmp_path: Path) -> None:
    made = run("keys", "create", "--scope", "admin", "--data", tmp_path)
    key = made.out.strip().splitlines()[-1]
    with serving_site(tmp_path) as site:
        console = Console(page, site)
        console.go("keys")
        console.reads("This service asks for a key")
        console.fill(key="rk_wrong")
        console.press("Open")
        console.reads("the key is unknown")
        console.fill(key=key)
        console.press("Open")
        console.reads("New key")
        console.fill(title="for a test")
        console.press("Create")
        console.wait("document.getElementById('dialog').open")
        shown = page.evaluate("document.querySelector('#dialog textarea').value")
        console.confirm("I have kept it")
        with httpx.Client(
            base_url=site.url, headers={"authorization": f"Bearer {shown}"}
        ) as client:
            assert client.get("/v1/boards").status_code == 200
            console.reads("for a test")
            rows = "document.querySelectorAll('#main tbody tr')"
            page.evaluate(f"{rows}[1].querySelector('button').click()")
            console.confirm("Revoke")
            console.wait(f"{rows}.length === 1")
            assert client.get("/v1/boards").status_code == 401
        page.evaluate("document.getElementById('sign-out').click()")
        console.reads("This service asks for a key")
    assert [one for one in page.complaints if REFUSED not in one] == []


def test_a_phone_needs_no_sideways_scrolling(console: Console) -> None:
    console.page.look_like(width=390, height=844)
    wide: Callable[[], Any] = lambda: console.page.evaluate(  # noqa: E731
        "document.documentElement.scrollWidth"
    )
    for section in ("boards", "boards/arena", "players/ada", "retractions", "keys"):
        console.go(section)
        assert wide() <= 390, section
