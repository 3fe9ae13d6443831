"""The description of the API is true: what is made up from it is answered as it says."""

import asyncio
from pathlib import Path

import pytest
from tests.http.schema_campaign import campaign
from tests.http.whole import run, whole

from rankd.api.server import new_event_loop

EXAMPLES = 1
"""For each operation in each phase, beside all that the coverage phase makes up."""

GROUPS = [
    ("create_key", "revoke_key", "put_board", "list_boards", "list_windows", "retire_board"),
    ("submit_score", "submit_scores", "lookup_standings", "put_player", "erase_player"),
    ("list_standings", "get_standing", "around_rank", "player_history", "list_facts"),
    ("get_clock", "confirm_clock", "correct_clock"),
    ("retract_scores", "undo_retraction", "approve_review", "start_run", "reset_window"),
    ("classic_score", "classic_top", "classic_rank", "classic_around", "classic_neighbours"),
]
"""One of each kind: what a commit has the time for. The long run leaves none out."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("operations", GROUPS, ids=lambda group: group[0])
def test_requests_made_up_from_the_description_are_answered_as_described(
    operations: tuple[str, ...], tmp_path: Path
) -> None:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        found = runner.run(
            campaign(examples=EXAMPLES, seed=None, folder=tmp_path, operations=operations)
        )
    assert found.code == 0, found.text
    assert found.report, "it made no report, so it may have made no requests"


def test_the_page_loads_its_style_from_here_and_nothing_from_elsewhere() -> None:
    async def test() -> None:
        async with whole() as service:
            page = await service.http.get("/docs")
            assert page.headers["content-security-policy"].startswith("default-src 'self'")
            assert '<link rel="stylesheet" href="/docs.css">' in page.text
            for foreign in ("http://", "https://", "<script", "<style", " style=", "javascript:"):
                assert foreign not in page.text, foreign
            style = await service.http.get("/docs.css")
            assert (style.status_code, style.headers["content-type"]) == (
                200,
                "text/css; charset=utf-8",
            )
            assert "url(" not in style.text

    run(test())
