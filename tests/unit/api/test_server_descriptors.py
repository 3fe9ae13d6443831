"""File descriptors, in processes whose limit is low."""

import subprocess
import sys
from textwrap import dedent

from rankd.api.server import FILES_RESERVED, fit_connections
from rankd.settings import Settings


def in_process(code: str) -> str:
    """Run code in a process of its own: a limit holds for the whole of it."""
    done = subprocess.run(
        [sys.executable, "-c", dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout + done.stderr


def test_connections_that_fit_stay_as_they_are() -> None:
    settings = Settings(connections_max=10)
    assert fit_connections(settings) is settings


def test_soft_limit_is_raised_before_connections_are_fewer() -> None:
    said = in_process(
        """
        import resource
        from rankd.api.server import fit_connections
        from rankd.settings import Settings
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 1_300))
        print(fit_connections(Settings(connections_max=1_000)).connections_max)
        print(resource.getrlimit(resource.RLIMIT_NOFILE))
        """
    )
    assert said.splitlines() == ["1000", f"({1_000 + FILES_RESERVED}, 1300)"]


def test_connections_fit_below_a_hard_limit_and_the_log_tells() -> None:
    said = in_process(
        """
        import resource
        from rankd.api.server import fit_connections
        from rankd.settings import Settings
        for limit in (1_000, 100):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
            print(fit_connections(Settings()).connections_max, flush=True)
        """
    )
    assert said.splitlines()[:2] == [str(1_000 - FILES_RESERVED), "50"]
    assert "only 100 files may be open: 50 connections are taken at once" in said


def test_log_tells_when_no_descriptor_is_left_and_when_there_is_one_again() -> None:
    said = in_process(
        """
        import asyncio, logging, os, resource
        from rankd.api import server
        from rankd.core.supervisor import Supervisor

        logging.basicConfig()
        server.DESCRIPTORS_SECONDS = 0.001

        async def main():
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
            async with server.watching_descriptors(Supervisor()):
                opened = []
                try:
                    while True:
                        opened.append(os.open(os.devnull, os.O_RDONLY))
                except OSError:
                    await asyncio.sleep(0.05)
                for one in opened:
                    os.close(one)
                await asyncio.sleep(0.05)

        asyncio.run(main())
        """
    )
    assert [line.split(":", 2)[2] for line in said.splitlines()] == [
        "no file descriptor is left: connections are lost (Too many open files)",
        "there are file descriptors again",
    ]
