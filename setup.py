"""The five extensions, and their switches; everything else is in pyproject.toml.

RANKD_PURE=1      do not build them: what they do is done in Python instead, slowly
RANKD_DEBUG=1     assertions on and optimisation off
RANKD_SANITIZE=1  AddressSanitizer and UndefinedBehaviorSanitizer (see `make sanitize`)
"""

import os
from pathlib import Path

from setuptools import Extension, setup

ROOMS = {
    "rankd.rank._ranklist": Path("src/rankd/rank"),
    "rankd.rules._native": Path("src/rankd/rules"),
    "rankd.templates._native": Path("src/rankd/templates"),
    "rankd.api._request_head": Path("src/rankd/api"),
    "rankd.adapters.sqlite._player_entries": Path("src/rankd/adapters/sqlite"),
}

BORROWED = {"rankd.rules._native": Path("src/rankd/rank")}
"""Rooms whose C a part includes."""


def switch(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


def extensions() -> list[Extension]:
    if switch("RANKD_PURE"):
        return []
    from Cython.Build import cythonize

    # Assertions stay on: they guard against our own mistakes, and cost less than a cache miss.
    compile_args = ["-std=gnu11", "-O3", "-UNDEBUG", "-Wall", "-Wextra", "-Wno-unused-function"]
    link_args: list[str] = []
    if switch("RANKD_DEBUG"):
        compile_args += ["-O0", "-g3"]
    if switch("RANKD_SANITIZE"):
        flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
        compile_args += [*flags, "-O1", "-g", "-fno-omit-frame-pointer"]
        link_args += flags
    built = [
        Extension(
            name,
            sources=[str(room / f"{name.rpartition('.')[2]}.pyx"), *_sources(room, "c")],
            depends=[*_sources(room, "h"), *_borrowed(name)],
            extra_compile_args=compile_args,
            extra_link_args=link_args,
            optional=True,  # No compiler is not a reason to refuse: Python is slow but right.
        )
        for name, room in ROOMS.items()
    ]
    return cythonize(built, build_dir="build", language_level=3)


def _borrowed(name: str) -> list[str]:
    room = BORROWED.get(name)
    return [] if room is None else [*_sources(room, "c"), *_sources(room, "h")]


def _sources(room: Path, kind: str) -> list[str]:
    return sorted(map(str, room.glob(f"*.{kind}")))


# Most of an installation's time is theirs: they are compiled side by side.
setup(ext_modules=extensions(), options={"build_ext": {"parallel": os.cpu_count() or 1}})
