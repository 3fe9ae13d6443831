"""Starting and stopping: one line when it answers, one line when it cannot, and an exit code."""

import re
import resource
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from tests.cli.running import PATIENCE_SECONDS, Served, environment, process, run, serving

from rankd.client import Client

PASSWORD = "correct-horse-battery"


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


@pytest.mark.parametrize(
    "options",
    [
        ("--ledger", f"postgresql://rankd:{PASSWORD}@127.0.0.1:1/x"),
        ("--ledger", f"mysql://rankd:{PASSWORD}@127.0.0.1/x"),
        ("--index", f"redis://rankd:{PASSWORD}@127.0.0.1:1/0"),
        ("--index", f"memcached://rankd:{PASSWORD}@127.0.0.1/0"),
        ("--bus", f"kafka://rankd:{PASSWORD}@127.0.0.1:1"),
        ("--jwt-algorithm", "EdDSA", "--jwt-jwks", f"http://rankd:{PASSWORD}@127.0.0.1:1/x"),
    ],
    ids=lambda options: options[-1].partition(":")[0],
)
def test_a_password_in_an_address_that_is_refused_is_not_repeated(options: tuple[str, ...]) -> None:
    done = run("serve", "--data", "d", "--port", 0, *options)
    assert done.code in (1, 2) and done.err
    assert PASSWORD not in done.err + done.out


def test_every_process_of_a_service_logs_what_it_refuses(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "2", "--access-log") as served:
        names = set()
        for _ in range(8):  # Each on a connection of its own: the system deals them out.
            refused = httpx.get(f"{served.url}/v1/boards/none", trust_env=False)
            names.add(refused.json()["request_id"])
            written = {"player": "p", "score": 1}
            path = f"{served.url}/v1/boards/none/scores"
            names.add(httpx.post(path, json=written, trust_env=False).json()["request_id"])
        served.stop()
    lines = served.log.read_text().splitlines()
    assert len(names) == 16
    for name in names:
        assert any(f"request {name} refused: 404 unknown_board" in line for line in lines)
    assert sum("rankd.access" in line for line in lines) == 16


def test_a_port_that_is_taken_is_named(service: Served) -> None:
    port = service.url.rpartition(":")[2]
    done = run("serve", "--data", "d", "--port", port)
    assert (done.code, done.out) == (1, "")
    said = f"rankd: 127.0.0.1:{port}: Address already in use; choose another with --port\n"
    assert done.err == said


def told(served: Served) -> list[str]:
    """What the log says of the service as a whole."""
    lines = served.log.read_text().splitlines()
    return [line.partition("rankd.app: ")[2] for line in lines if " rankd.app: " in line]


def test_the_log_says_what_was_opened_for_whom_and_how_it_ended(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        with Client(served.url) as client:
            client.define("b")
            client.submit("b", "ann", 7)
        served.stop(signal.SIGTERM)
    opened, listening, stopped = told(served)
    folded = r"0 facts, all folded into a new index, in \d+\.\d s"
    assert re.fullmatch(rf"opened {re.escape(str(served.folder))}: {folded}", opened)
    assert listening.startswith(f"listening on {served.url}; open to every process on this machine")
    assert (
        stopped == "stopped: all 2 facts are in the ledger; the next start folds the last 2 again"
    )

    assert run("rebuild", "--data", served.folder).code == 0
    made = run("keys", "create", "--scope", "admin", "--data", served.folder)
    served.log.unlink()
    with serving(tmp_path) as again:
        with Client(again.url, made.out.strip()) as client:
            client.submit("b", "bob", 8)
        again.stop(signal.SIGKILL)
    opened, listening = told(again)
    assert "3 facts, the index as it was saved at 2 and 1 folded, in " in opened
    assert listening == f"listening on {again.url}; keys are needed, 1 in force"

    again.log.unlink()
    with serving(tmp_path) as third:
        third.stop(signal.SIGINT)
    assert "4 facts, the index as it was saved at 2 and 2 folded, in " in told(third)[0]
    assert "Traceback" not in third.log.read_text()


def test_a_service_that_does_not_come_to_listen_says_only_why(service: Served) -> None:
    port = service.url.rpartition(":")[2]
    done = process("serve", "--data", "d", "--port", port, cwd=Path())
    assert done.code == 1
    assert done.err.count("\n") == 1


@pytest.mark.skipif(
    not hasattr(resource, "prlimit"),
    reason="NOT TESTED, few descriptors: no prlimit here",
)
def test_log_tells_of_a_service_without_a_free_file_descriptor(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        pid, address = served.process.pid, httpx.URL(served.url)
        limit = len(list(Path(f"/proc/{pid}/fd").iterdir())) + 3
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limit))
        with ExitStack() as stack:
            for _ in range(10):
                stack.enter_context(socket.create_connection((address.host, address.port)))
            end = time.monotonic() + PATIENCE_SECONDS
            while "no file descriptor is left" not in served.log.read_text():
                assert time.monotonic() < end, served.log.read_text()
                time.sleep(0.02)
        while "there are file descriptors again" not in served.log.read_text():
            assert time.monotonic() < end, served.log.read_text()
            time.sleep(0.02)
        assert served.stop() == 0
