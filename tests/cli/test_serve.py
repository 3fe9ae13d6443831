"""Starting and stopping: one line when it answers, one line when it cannot, and an exit code."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
from tests.cli.running import PATIENCE_SECONDS, Served, environment, run, serving

from rankd.client import Client


def test_it_says_once_that_it_is_ready_and_stops_when_told(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        assert served.url.startswith("http://127.0.0.1:")
        with Client(served.url) as client:
            client.define("b")
            client.submit("b", "ann", 7)
        assert served.stop(signal.SIGTERM) == 0
        assert served.process.stdout is not None
        assert served.process.stdout.read() == ""
    with serving(tmp_path) as again:
        with Client(again.url) as client:
            assert client.standing("b", "ann").score == 7
        assert again.stop(signal.SIGINT) == 0


def test_a_folder_is_served_once(service: Served) -> None:
    done = run("serve", "--data", service.folder, "--port", 0)
    assert (done.code, done.out) == (1, "")
    assert "open already" in done.err
    assert done.err.count("\n") == 1


def test_an_address_that_others_reach_needs_a_key_first() -> None:
    done = run("serve", "--host", "0.0.0.0", "--port", 0)
    assert (done.code, done.out) == (1, "")
    assert "rankd keys create --scope admin --data rankd-data" in done.err


def test_a_port_that_is_taken_is_told(service: Served, tmp_path: Path) -> None:
    port = httpx.URL(service.url).port
    done = run("serve", "--data", tmp_path / "other", "--port", port)
    assert (done.code, done.out) == (1, "")
    assert "in use" in done.err
    assert "Traceback" not in done.err


def test_a_signal_while_it_still_starts_ends_it_in_order(tmp_path: Path) -> None:
    """Whenever it comes once the folder is being opened."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rankd", "serve", "--port", "0"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        while process.poll() is None and not (tmp_path / "rankd-data").exists():
            time.sleep(0.001)  # The folder is made while it opens.
        process.terminate()
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, err
