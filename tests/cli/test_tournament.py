"""The page on running a tournament: its commands, run in their order by a shell."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.running import environment, run, serving

PAGE = Path(__file__).parents[2] / "docs" / "running-a-tournament.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.timeout(300)
def test_a_tournament_goes_from_its_definition_to_paid_rewards(tmp_path: Path) -> None:
    shim = tmp_path / "bin" / "rankd"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m rankd "$@"\n')
    shim.chmod(0o755)
    with serving(tmp_path) as service:
        script = "\necho; echo ---\n".join(BLOCK.findall(PAGE.read_text()))
        script = script.replace("http://127.0.0.1:8700", service.url)
        script = script.replace("./rankd-data", str(service.folder))
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=tmp_path,
            env={
                **environment({"RANKD_URL": service.url}),
                "PATH": f"{shim.parent}:{os.environ['PATH']}",
            },
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        *_, paid, proved, _ = done.stdout.split("---\n")
        assert re.findall(r'"changed":(\w+)', paid) == ["true", "false"]
        assert "rwd_14_0 of bob is claimed" in paid and "50.00" not in proved
        assert "as the certificate says" in proved
        told = run("window", "rewards", "cup", "weekly", "--json", "--url", service.url)
    shown = [
        (one["player"], one["amount"] or one["give"], one["state"], one["claimed"])
        for one in json.loads(told.out)["rewards"]
    ]
    gold, frame = {"trophy": "gold"}, {"frame": "cup"}
    assert shown == [
        ("ann", gold, "claimed", True),
        ("ann", "100.00", "given", False),
        ("bob", "30.00", "withdrawn", True),
        ("cid", "30.00", "withdrawn", False),
        ("bob", "20.00", "withdrawn", False),
        ("cid", "20.00", "withdrawn", False),
        ("ann", frame, "given", False),
        ("bob", frame, "withdrawn", False),
        ("cid", frame, "given", False),
        ("cid", "60.00", "given", False),
        ("dan", "40.00", "given", False),
    ]
