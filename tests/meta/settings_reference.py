"""docs/reference/settings.md, made from the table of settings.

``python -m tests.meta.settings_reference`` writes it; test_settings_reference.py compares.
"""

from pathlib import Path

from rankd.cli.serve import _default
from rankd.settings import OTHER_VARIABLES, TABLE, Setting

PAGE = Path(__file__).parents[2] / "docs/reference/settings.md"

HEAD = """# Settings

Every setting of the service. The page is made from `src/rankd/settings.py` by
`python -m tests.meta.settings_reference`. Each can be set in three places; the command line wins
over the environment, which wins over the file `rankd.toml` in the working folder, or the one that
`--config` names.

| place | the port, for example |
| --- | --- |
| an option of `rankd serve` | `--port 8700` |
| a variable | `RANKD_PORT=8700` |
| a line of `rankd.toml` | `port = 8700` |

All three are checked at the start, also where a stronger one overrules them; a name that is no
setting is refused. A list is one text with commas on the command line and in the environment, and a
list of texts in the file. A switch is `--NAME` for on and `--no-NAME` for off.

| setting and line of `rankd.toml` | option, variable | default | takes | meaning |
| --- | --- | --- | --- | --- |
"""

OTHERS = {
    "RANKD_URL": "the service that commands speak to",
    "RANKD_KEY": "the key that commands speak with",
    "RANKD_PURE": "`1` runs without the native parts",
    "RANKD_DEBUG": "`1` builds the native parts with assertions",
    "RANKD_SANITIZE": "`1` builds the native parts with sanitizers, as `make sanitize` does",
    "RANKD_HYPOTHESIS": "`long` makes property tests search further",
    "RANKD_CHROMIUM": "the browser that tests use",
    "RANKD_TEST_CLOCK": "the clock that a service under test goes by",
    "RANKD_WORKER": "given by a service to its worker processes",
}
assert OTHERS.keys() == OTHER_VARIABLES

TAIL = """
## Other variables

These begin with `RANKD_`, too, and are no settings.

| variable | meaning |
| --- | --- |
"""


def render() -> str:
    """Return the whole page."""
    others = [f"| `{name}` | {meaning} |\n" for name, meaning in OTHERS.items()]
    return "".join([HEAD, *map(_row, TABLE), TAIL, *others])


def _row(setting: Setting) -> str:
    option = "--" + setting.name.replace("_", "-")
    cells = (
        f"`{setting.name}`",
        f"`{option}`, `{setting.environment}`",
        f"`{_default(setting)}`" if setting.default not in ((), "") else "none",
        _taken(setting),
        setting.help,
    )
    return f"| {' | '.join(cells)} |\n"


def _taken(setting: Setting) -> str:
    if setting.choices:
        return ", ".join(f"`{choice}`" for choice in setting.choices)
    if setting.kind in (int, float):
        return f"{'whole numbers' if setting.kind is int else 'numbers'} {setting.range()}"
    if setting.kind is bool:
        return "yes or no"
    return "a list of texts" if setting.kind is tuple else "a text"


if __name__ == "__main__":
    PAGE.write_text(render())
