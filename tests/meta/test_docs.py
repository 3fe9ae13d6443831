"""The documentation tells the truth: its commands, examples, links and words are checked."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.meta.test_readability import PACKAGE, VAGUE

from rankd.model.board import Board

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.md")])
INDEX = ROOT / "docs" / "index.md"
GLOSSARY = ROOT / "docs" / "glossary.md"
DECISIONS = ROOT / "docs" / "decisions"

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INLINE_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
LINK = re.compile(r"\]\(([^)\s]*)\)")
MODULE = re.compile(r"`((?:src/rankd/)?[a-z_]+(?:/[a-z_]+)+)(?:\.(\w+))?`")
VAGUE_SENTENCES_MAX = 0.03
"""Share of sentences without a named subject; decisions included."""
VERB = re.compile(r"(?:^|[=\w] |\$ )make ([a-z]+)\b", re.MULTILINE)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def fences(page: Path, language: str) -> list[str]:
    return [body for found, body in FENCE.findall(page.read_text()) if found == language]


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made on the site and on code hosts."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


EXAMPLES = [
    pytest.param(
        body,
        id=f"{named(page)}-{number}",
        marks=[pytest.mark.servers] if "rankd.testing" in body else [],
    )
    for page in PAGES
    for number, body in enumerate(fences(page, "python"), start=1)
]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_verb_a_page_names_is_in_the_makefile(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    code = [*INLINE_CODE.findall(prose(page)), *fences(page, "sh")]
    verbs = {verb for text in code for verb in VERB.findall(text)}
    assert verbs <= targets


def test_every_verb_of_the_makefile_is_explained_to_contributors() -> None:
    targets = re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert [verb for verb in targets if f"`make {verb}`" not in page] == ["help"]


def test_every_long_step_of_the_makefile_says_what_it_does_and_for_how_long() -> None:
    """Two minutes of silence look like something that hangs."""
    rules = re.split(r"\n(?=\S)", (ROOT / "Makefile").read_text())
    long = [rule for rule in rules if re.search(r"^\t.*(PIP\) install|mypy|pytest)", rule, re.M)]
    assert len(long) >= 7
    for rule in long:
        told = re.findall(r'echo "(.+?)"', rule)
        assert any(re.search(r", (about|some) .*(minute|second)s?$", text) for text in told), rule


def test_every_module_a_page_names_is_there() -> None:
    """Rooms of the package, and modules in them, with or without a name of theirs."""
    rooms = {path.stem for path in PACKAGE.iterdir()}
    found = 0
    for page in PAGES:
        for path, suffix in MODULE.findall(prose(page)):
            if path.removeprefix("src/rankd/").partition("/")[0] in rooms:
                found += 1
                assert is_module(path.removeprefix("src/rankd/"), suffix), f"{named(page)}: {path}"
    assert found > 30


def is_module(path: str, suffix: str) -> bool:
    files = [*PACKAGE.glob(f"{path}.*"), *PACKAGE.glob(f"{path}/__init__.py")]
    if not suffix or (PACKAGE / f"{path}.{suffix}").exists():
        return (PACKAGE / path).is_dir() or bool(files)
    return any(re.search(rf"\b(class|def) {suffix}\b", file.read_text()) for file in files)


def test_sentences_of_pages_name_their_subjects() -> None:
    """Where they begin with what, who or nobody, a reader has to guess it."""
    found = [one for page in PAGES for one in sentences_of(page)]
    vague = [one for one in found if VAGUE.search(one)]
    assert len(found) > 2_000
    assert len(vague) <= VAGUE_SENTENCES_MAX * len(found), vague


def sentences_of(page: Path) -> Iterator[str]:
    """Yield sentences of five words or more; cells of tables and items of lists on their own."""
    text = re.sub(r"\]\([^)]*\)", "]", prose(page))
    for block in re.split(r"\n\s*\n|\||\n(?=[-*#]|\d+\.)", text):
        for one in re.split(r"(?<=[.:;!?])\s+", " ".join(block.split())):
            if len(one.split()) > 4:
                yield one


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        assert file.is_relative_to(ROOT), target
        if anchor:
            assert anchor in anchors(file), target


def test_every_page_is_reached_from_the_first_one() -> None:
    """But for decisions, which have a list of their own."""
    pages = {page for page in PAGES if page.is_relative_to(ROOT / "docs")} - {*DECISIONS.iterdir()}
    linked = {target.partition("#")[0] for target in LINK.findall(prose(INDEX))}
    found = {(INDEX.parent / target).resolve() for target in linked if "://" not in target}
    assert pages - found == {INDEX}


@pytest.mark.parametrize("field", sorted(Board.define("b", {}).definition()))
def test_every_field_of_a_definition_is_explained(field: str) -> None:
    page = (ROOT / "docs" / "embedded.md").read_text()
    refused = page.partition("Fields to come (")[2].partition(")")[0]
    assert f"\n| `{field}` | " in page or f"`{field}`" in refused


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_python_example_runs(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "example", "exec"), {"__name__": "__main__"})


def test_every_word_of_the_glossary_is_explained_once() -> None:
    words = re.findall(r"^\| \*\*(.+?)\*\* \|", GLOSSARY.read_text(), re.MULTILINE)
    assert len(words) > 30
    assert [word for word, times in Counter(words).items() if times > 1] == []


def test_a_word_of_the_glossary_is_never_also_one_we_avoid() -> None:
    """But for the pairs that are told apart there: a rank is no position, a fact no event."""
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| .* \| (.+) \|$", GLOSSARY.read_text(), re.MULTILINE)
    words = {word for word, _ in rows}
    avoided = {word.strip() for _, words_avoided in rows for word in words_avoided.split(",")}
    assert avoided & words <= {"position", "index", "fact", "event"}


def test_every_decision_is_listed_and_says_its_state() -> None:
    listed = set(LINK.findall((DECISIONS / "README.md").read_text()))
    for page in DECISIONS.glob("[0-9]*.md"):
        text = page.read_text()
        assert page.name in listed
        assert text.startswith(f"# {page.name[:4]} "), page.name
        assert re.search(r"^\*\*State:\*\* (proposed|accepted|superseded by)", text, re.MULTILINE)


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [int(page.name[:4]) for page in sorted(DECISIONS.glob("[0-9]*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))
