"""A short stretch of the campaign of edits, and proof that it would find what it looks for."""

from random import Random

import pytest
from tests.simulation.edits import campaign

from rankd.adapters.sqlite import verification

pytestmark = pytest.mark.anyio
EDITS = 250
SEED = Random().randrange(2**32)


async def test_every_edit_of_live_content_is_found() -> None:
    findings = await campaign(edits=EDITS, seed=SEED)
    assert not findings.missed, f"python -m tests.simulation.edits --edits {EDITS} --seed {SEED}"
    assert findings.found > EDITS // 4


async def test_a_verify_that_does_not_look_at_links_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verification, "follows", lambda *_: True)
    findings = await campaign(edits=150, seed=3)
    assert findings.missed
