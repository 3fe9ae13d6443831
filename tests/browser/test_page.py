"""The live page in a real browser: it shows, it follows, it asks for a key, and names stay text."""

import json
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.browser.chromium import Page
from tests.browser.conftest import Site, serving_site

from rankd.testing.servers import postgres_server

ROWS = """[...document.querySelectorAll('#rows tr')].map(
    row => [...row.children].map(cell => cell.innerText.trim()))"""

START, END = "2999-01-02T12:00:00Z", "2999-02-01T00:00:00Z"

HOSTILE_NAME = "<img src=x onerror=alert(1)>"
HOSTILE_ID = "\u05d0\u05d1\u05d2<script>alert(2)</script>"


def rows(page: Page) -> list[list[str]]:
    found: list[list[str]] = page.evaluate(ROWS)
    return found


def shown(page: Page, *players: str) -> None:
    """Wait until the list is these players, from the first to the last."""
    wanted = json.dumps(list(players))
    names = "[...document.querySelectorAll('#rows .name')].map(name => name.textContent)"
    page.wait_for(f"JSON.stringify({names}) === JSON.stringify({wanted})")


def text(page: Page, id: str) -> Any:
    return page.evaluate(f"document.getElementById({id!r}).textContent")


def test_it_shows_the_first_board_with_entries_and_follows_it_by_itself(
    page: Page, site: Site
) -> None:
    site.define("empty", title="Nobody yet")
    site.define("arena", title="Arena", windows=["all", "daily"])
    site.submit("arena", "ada", 4300)
    site.submit("arena", "bob", 1234567)
    page.open(site.url)
    shown(page, "bob", "ada")
    assert text(page, "title") == "Arena"
    assert text(page, "total") == "2"
    assert [(row[0], row[3]) for row in rows(page)] == [("1", "1,234,567"), ("2", "4,300")]

    site.submit("arena", "ada", 2000000)
    shown(page, "ada", "bob")
    moved = "[...document.querySelectorAll('#rows tr')].map(row => row.dataset.moved)"
    assert page.evaluate(moved) == ["1", "-1"]
    assert page.wait_for("document.getElementById('state').dataset.state === 'live'")
    assert page.complaints == []


def test_a_name_that_would_run_or_turn_the_text_around_stays_text(page: Page, site: Site) -> None:
    site.define("arena", title="<b>Arena</b>")
    site.submit("arena", "mallory", 10)
    site.client.put("/v1/players/mallory", json={"name": HOSTILE_NAME}).raise_for_status()
    site.submit("arena", HOSTILE_ID, 5)
    page.open(site.url)
    shown(page, HOSTILE_NAME, HOSTILE_ID)
    page.evaluate("document.querySelectorAll('#rows .who')[1].click()")
    page.wait_for("document.querySelectorAll('#neighbours tr').length === 2")

    assert text(page, "title") == "<b>Arena</b>"
    assert (
        page.evaluate("document.querySelectorAll('td img, th img, main script, main b').length")
        == 0
    )
    isolated = "getComputedStyle(document.querySelectorAll('#rows .name')[1]).unicodeBidi"
    assert page.evaluate(isolated) == "isolate"
    assert page.complaints == []


def test_hidden_players_have_rows_without_a_name(page: Page, site: Site) -> None:
    site.define("arena")
    for player, score in (("ada", 30), ("bob", 20), ("cyd", 10)):
        site.submit("arena", player, score)
    for player in ("ada", "cyd"):
        body = {"visibility": "anonymous", "name": f"Name of {player}"}
        site.client.put(f"/v1/players/{player}", json=body).raise_for_status()
    page.open(site.url)
    shown(page, "Anonymous", "bob", "Anonymous")
    assert [(row[0], row[3]) for row in rows(page)] == [("1", "30"), ("2", "20"), ("3", "10")]
    page.evaluate("document.querySelectorAll('#rows .who')[0].click()")
    assert page.evaluate("document.getElementById('pinned').hidden")
    site.submit("arena", "cyd", 25)
    page.wait_for("document.querySelectorAll('#rows tr')[1].innerText.includes('25')")
    shown(page, "Anonymous", "Anonymous", "bob")
    whole = page.evaluate("document.documentElement.innerHTML")
    assert not any(one in whole for one in ("ada", "cyd", "Name of"))
    assert page.complaints == []


def test_scores_are_shown_digit_for_digit(page: Page, site: Site) -> None:
    site.define("whole")
    site.submit("whole", "max", 9223372036854775806)
    site.submit("whole", "min", -9223372036854775806)
    page.open(site.url)
    shown(page, "max", "min")
    assert [row[3] for row in rows(page)] == [
        "9,223,372,036,854,775,806",
        "-9,223,372,036,854,775,806",
    ]


def test_decimals_keep_their_places(page: Page, site: Site) -> None:
    site.define("laps", direction="lower", decimals=2)
    site.submit("laps", "ada", "1061.50")
    page.open(site.url)
    shown(page, "ada")
    assert [row[3] for row in rows(page)] == ["1,061.50"]


def test_windows_segments_and_boards_can_be_chosen_and_are_kept_in_the_address(
    page: Page, site: Site
) -> None:
    site.define("arena", windows=["all", "daily"], segments=["region"])
    site.define("other")
    for player, region in (("ada", "eu"), ("bob", "na")):
        sent = {"player": player, "score": 10, "attributes": {"region": region}}
        site.client.post("/v1/boards/arena/scores", json=sent).raise_for_status()
    page.open(site.url)
    shown(page, "ada", "bob")
    page.evaluate("document.querySelector('input[value=daily]').click()")
    page.wait_for("location.hash.includes('window=daily')")
    page.evaluate("document.getElementById('segment').focus()")
    page.wait_for("document.querySelectorAll('#segment-values option').length === 2")
    page.type("na")
    page.press("Enter", 13)
    shown(page, "bob")
    assert page.evaluate("location.hash") == "#board=arena&window=daily&segment=region%3Ana"
    assert page.complaints == []

    page.evaluate("location.hash = 'board=other'")
    page.wait_for("document.getElementById('title').textContent === 'other'")
    page.wait_for("!document.getElementById('nobody').hidden")


def test_a_link_may_say_in_its_query_what_is_shown(page: Page, site: Site) -> None:
    site.define("arena")
    site.define("other", windows=["all", "daily"])
    for board, player in (("arena", "ada"), ("other", "bob"), ("other", "cyd")):
        site.submit(board, player, 10)
    page.open(f"{site.url}/?board=other&window=daily&player=cyd&utm_source=x")
    shown(page, "bob", "cyd")
    page.wait_for("document.querySelectorAll('#neighbours tr').length === 2")
    assert page.evaluate("document.querySelector('input[value=daily]').checked")

    page.evaluate("document.getElementById('unpin').click()")
    page.wait_for("location.hash === '#board=other&window=daily'")
    assert page.evaluate("location.search") == "", "loaded again, the player would be back"

    page.open(f"{site.url}/?board=other&window=daily#board=arena&window=")
    shown(page, "ada")
    assert page.complaints == []


def test_a_link_that_names_no_board_may_name_the_rest(page: Page, site: Site) -> None:
    site.define("arena", windows=["all", "daily"])
    site.submit("arena", "ada", 10)
    page.open(f"{site.url}/?window=daily")
    shown(page, "ada")
    assert page.evaluate("document.querySelector('input[value=daily]').checked")

    page.open(f"{site.url}/?board=gone&window=weekly")
    shown(page, "ada")
    assert page.evaluate("document.querySelector('input[value=all]').checked")
    assert page.complaints == []


def test_a_player_can_be_found_and_is_pinned_with_its_neighbours(page: Page, site: Site) -> None:
    site.define("arena")
    sent = [{"board": "arena", "player": f"p{n}", "score": -n} for n in range(1, 101)]
    site.client.post("/v1/scores:batch", json={"scores": sent}).raise_for_status()
    page.open(site.url)
    page.wait_for("document.querySelectorAll('#rows tr').length === 25")
    page.evaluate("document.getElementById('player').focus()")
    page.type("p50")
    page.press("Enter", 13)
    page.wait_for("document.querySelectorAll('#neighbours tr').length === 7")
    assert text(page, "place-rank") == "#50"
    assert page.evaluate("document.querySelector('#neighbours .chosen .name').textContent") == "p50"
    assert "50 of 100" in text(page, "said")

    site.submit("arena", "p50", 1000)
    page.wait_for("document.getElementById('place-rank').textContent === '#1'")
    assert page.complaints == []


def test_a_service_that_went_away_is_said_to_be_gone(page: Page, site: Site) -> None:
    site.define("arena")
    site.submit("arena", "ada", 1)
    page.open(site.url)
    shown(page, "ada")
    site.process.kill()
    page.wait_for("document.getElementById('trouble').textContent.includes('does not answer')")
    page.wait_for("'stale' in document.body.dataset")
    assert rows(page), "what was known is still shown"


def test_stale_answers_are_not_called_live(page: Page, tmp_path: Path) -> None:
    with ExitStack() as stack:
        postgres = stack.enter_context(ExitStack())
        ledger = postgres.enter_context(postgres_server(durable=True)).url
        site = stack.enter_context(serving_site(tmp_path, "--ledger", ledger))
        site.define("arena")
        site.submit("arena", "ada", 1)
        page.open(site.url)
        shown(page, "ada")
        page.wait_for("document.getElementById('state-text').textContent === 'Live'")
        postgres.close()
        page.wait_for("document.getElementById('state-text').textContent === 'Stale'")
        page.wait_for("'stale' in document.body.dataset")
        assert "may be old" in text(page, "trouble")
        assert rows(page), "the last known standings are still shown"


def test_a_key_is_asked_for_and_kept_in_this_tab_only(page: Page, site: Site) -> None:
    site.define("arena")
    site.submit("arena", "ada", 1)
    first = site.client.post("/v1/keys", json={"scopes": ["admin"]}).raise_for_status()
    site.client.headers["authorization"] = f"Bearer {first.json()['key']}"
    made = site.client.post("/v1/keys", json={"scopes": ["read"]}).raise_for_status()
    page.open(site.url)
    page.wait_for("document.activeElement?.id === 'key'")
    assert rows(page) == []
    page.type(made.json()["key"])
    page.press("Enter", 13)
    shown(page, "ada")
    assert page.evaluate("[localStorage.length, document.cookie, sessionStorage.length]") == [
        0,
        "",
        1,
    ]
    page.evaluate("location.reload()")
    shown(page, "ada")


def test_without_a_board_it_tells_how_to_make_one(page: Page, site: Site) -> None:
    page.open(site.url)
    page.wait_for("!document.getElementById('empty').hidden")
    assert f"curl -X PUT {site.url}/v1/boards/arena" in text(page, "first-steps")
    site.define("arena")
    site.submit("arena", "ada", 1)
    shown(page, "ada")
    assert page.complaints == []


def test_it_fits_a_phone(page: Page, site: Site) -> None:
    site.define("arena", title="A board with rather a long title", windows=["all", "daily"])
    site.submit("arena", "a-player-whose-id-is-quite-as-long-as-anybody-would-want", 10**18)
    page.look_like(width=320, height=640)
    page.open(site.url)
    page.wait_for("document.querySelectorAll('#rows tr').length === 1")
    assert page.evaluate("document.documentElement.scrollWidth") == 320


def test_six_windows_fit_a_phone(page: Page, site: Site) -> None:
    season = {"name": "season", "every": "4w", "start": "2026-01-05T00:00:00Z"}
    cup = {"name": "champions-cup", "every": "2w", "start": "2026-01-05T00:00:00Z"}
    site.define("arena", windows=["all", "daily", "weekly", "monthly", season, cup])
    site.submit("arena", "ada", 10)
    page.look_like(width=390, height=844)
    page.open(site.url)
    page.wait_for("document.querySelectorAll('#windows label').length === 6")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    outside = """[...document.querySelectorAll('#windows span')].filter((name) => {
        const edge = document.getElementById('windows').getBoundingClientRect();
        const box = name.getBoundingClientRect();
        const cut = name.scrollWidth > name.clientWidth;
        return cut || box.left < edge.left || box.right > edge.right;
    }).length"""
    assert page.evaluate(outside) == 0, "a name is cut off"
    heights = "[...document.querySelectorAll('#windows span')].map((name) => name.clientHeight)"
    assert len(set(page.evaluate(heights))) == 1, "a name is broken into two lines"


def test_a_board_before_its_start_counts_down_to_it(page: Page, site: Site) -> None:
    site.define("cup", windows=[{"name": "cup", "start": START, "end": END}])
    page.open(site.url)
    page.wait_for("document.getElementById('state').dataset.state === 'live'")
    page.wait_for("!document.getElementById('nobody').hidden")
    assert text(page, "nobody").startswith("Opens 1/2/2999, ")
    assert text(page, "reset-label") == "Cup opens in"
    assert re.fullmatch(r"\d+ d \d\d:\d\d:\d\d", text(page, "reset"))
    assert text(page, "state-text") == "Live"
    assert page.evaluate("document.getElementById('trouble').hidden")
    assert page.complaints == []


def test_a_scheduled_window_can_be_chosen_beside_open_ones(page: Page, site: Site) -> None:
    site.define("arena", windows=["all", {"name": "cup", "start": START, "end": END}])
    site.submit("arena", "ada", 10)
    page.open(site.url)
    shown(page, "ada")
    page.evaluate("document.querySelector('input[value=cup]').click()")
    page.wait_for("document.getElementById('nobody').textContent.startsWith('Opens 1/2/2999')")
    assert page.complaints == []


ASKED = "performance.getEntriesByType('resource').filter(one => one.name.includes('/standings'))"


def test_it_follows_a_stream_and_not_by_asking(page: Page, site: Site) -> None:
    site.define("arena", title="Arena")
    site.submit("arena", "ada", 4300)
    page.open(f"{site.url}#board=arena&player=ada")
    shown(page, "ada")
    before = page.evaluate(f"{ASKED}.length")
    for number in range(5):
        site.submit("arena", f"p{number}", 5000 + number)
    shown(page, "p4", "p3", "p2", "p1", "p0", "ada")
    page.wait_for("document.getElementById('place-rank').textContent === '#6'")
    assert page.evaluate(f"{ASKED}.length") - before <= 2, "it asked before the stream had begun"
    assert page.complaints == []


def test_it_survives_a_restart_of_the_service_and_goes_on(page: Page, tmp_path: Path) -> None:
    with serving_site(tmp_path) as site:
        port = site.url.rpartition(":")[2].strip("/")
        site.define("arena", title="Arena")
        site.submit("arena", "ada", 4300)
        page.open(f"{site.url}#board=arena")
        shown(page, "ada")
    page.wait_for("document.getElementById('state').dataset.state === 'lost'")
    with serving_site(tmp_path, "--port", port) as again:
        again.submit("arena", "bob", 5000)
        shown(page, "bob", "ada")
        page.wait_for("document.getElementById('state').dataset.state === 'live'")
        again.submit("arena", "cyd", 6000)
        shown(page, "cyd", "bob", "ada")
