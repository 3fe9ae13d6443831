"""The C of the native parts: no Python in it, and nothing public without a word of explanation."""

import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "rankd"
ROOMS = [SOURCE / room for room in ("rank", "rules", "templates")]
GENERATED = ("_ranklist.c", "_native.c", "_request_head.c", "_player_entries.c")
SOURCES = sorted(
    path for room in ROOMS for path in room.glob("*.[ch]") if path.name not in GENERATED
)
HEADERS = [path for path in SOURCES if path.suffix == ".h"]

# A prototype at the start of a line, up to its semicolon; static and typedef lines are not public.
PROTOTYPE = re.compile(
    r"^(?!typedef|static|return|#)[A-Za-z_][\w \*]*?\**\b(\w+)\([^;{}]*\);", re.MULTILINE
)


def named(path: Path) -> str:
    return path.name


def test_there_is_something_to_look_at() -> None:
    assert HEADERS


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_layout(path: Path) -> None:
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        assert "\t" not in line, f"tab in line {number}"
        assert len(line) <= 100, f"line {number} is too long"
        assert line == line.rstrip(), f"blanks at the end of line {number}"


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_the_algorithm_knows_no_python(path: Path) -> None:
    assert not re.search(r"Python\.h|\bPy[A-Z_]\w+\(", path.read_text())


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_a_file_begins_by_saying_what_it_is_for(path: Path) -> None:
    assert path.read_text().startswith(f"/* {path.name} -- ")


@pytest.mark.parametrize("path", HEADERS, ids=named)
def test_every_public_function_is_explained(path: Path) -> None:
    text = path.read_text()
    for found in PROTOTYPE.finditer(text):
        # A comment right above, or one above several prototypes that stand together.
        above = PROTOTYPE.sub("", text[: found.start()].rpartition("\n\n")[2])
        assert above.rstrip().endswith("*/"), found[1]


@pytest.mark.parametrize("path", HEADERS, ids=named)
def test_headers_are_guarded(path: Path) -> None:
    guard = f"RANKD_{path.stem.upper()}_H"
    assert f"#ifndef {guard}\n#define {guard}\n" in path.read_text()


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_no_unbounded_string_functions(path: Path) -> None:
    assert not re.search(r"\b(strcpy|strcat|sprintf|gets|alloca)\(", path.read_text())
