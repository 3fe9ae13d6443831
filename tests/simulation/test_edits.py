"""A short stretch of the campaign of edits, and proof that it would find what it looks for."""

import pytest
from tests.simulation.edits import at_random, campaign, in_metadata

from rankd.adapters.sqlite import verification

pytestmark = pytest.mark.anyio
EDITS = 250
SEED = 1
"""The same each time, so that one run says what all say; the long campaign draws its own."""


async def test_every_edit_of_live_content_is_found() -> None:
    findings = await campaign(at_random(edits=EDITS, seed=SEED))
    assert not findings.missed, f"python -m tests.simulation.edits --edits {EDITS} --seed {SEED}"
    assert findings.found > EDITS // 8  # About half of the file is in use.


async def test_an_edit_that_only_the_links_tell_of_is_found() -> None:
    findings = await campaign(in_metadata)
    assert findings.found >= 40
    assert not findings.missed  # A few are harmless: pages keep the bytes of what has moved on.


async def test_a_verify_that_does_not_look_at_links_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verification, "follows", lambda *_: True)
    findings = await campaign(in_metadata)
    assert len(findings.missed) >= 40
