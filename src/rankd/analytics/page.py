"""A report as a page: one file of HTML with its pictures in it, to be opened offline."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from html import escape
from typing import Any

import pyarrow as pa

from rankd.analytics.reports import REPORTS, Plot, shown_rows

ROWS_MAX = 500
"""Rows of a report that a page shows; all are in the other formats."""

PLOTS_MAX = 12
"""Boards with a picture of their own."""

WIDTH, HEIGHT, MARGIN, LEGEND_WIDTH = 720, 220, 56, 130

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2733; --soft: #6b7785; --line: #dfe4ea; --back: #fff;
  --a: #2f6fed; --b: #d9822b; --c: #2a9d6f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf0; --soft: #93a0ae; --line: #2c3743;
  --back: #12181f; --a: #6f9dff; --b: #f0a95b; --c: #5ecb9c; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back);
  margin: 2rem auto; max-width: 64rem; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin: 2rem 0 .5rem; font-size: 1.1rem; }
p { color: var(--soft); margin: .25rem 0 1.5rem; }
.rows { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: left;
  white-space: nowrap; } td.number, th.number { text-align: right;
  font-variant-numeric: tabular-nums; }
svg { max-width: 100%; height: auto; } text { fill: var(--soft); font-size: 11px; }
"""

_COLOURS = ("var(--a)", "var(--b)", "var(--c)")


def html_page(name: str, rows: pa.Table, about: str) -> str:
    """Return a report as a page; ``about`` says which part of which archive it is of."""
    found = REPORTS[name]
    pictures = "" if found.plot is None else _pictures(found.plot, rows)
    left = rows.num_rows - ROWS_MAX
    more = f"<p>and {left:,} more rows</p>" if left > 0 else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(found.title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(found.title)}</h1><p>{escape(found.question)} {escape(about)}</p>"
        f"{pictures}{_table(name, rows.slice(0, ROWS_MAX))}{more}</body></html>\n"
    )


def _table(name: str, rows: pa.Table) -> str:
    columns, listed = shown_rows(name, rows)
    number = [
        any(isinstance(row[at], int | Decimal) for row in listed) for at in range(len(columns))
    ]
    head = "".join(
        f"<th{_class(flag)}>{escape(column.replace('_', ' '))}</th>"
        for column, flag in zip(columns, number, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{_class(flag)}>{_cell(value)}</td>"
            for value, flag in zip(row, number, strict=True)
        )
        + "</tr>"
        for row in listed
    )
    head, body = f"<thead><tr>{head}</tr></thead>", f"<tbody>{body}</tbody>"
    return f'<div class="rows"><table>{head}{body}</table></div>'


def _class(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int | Decimal) else escape(str(value))


def _pictures(plot: Plot, rows: pa.Table) -> str:
    boards: dict[str, list[dict[str, Any]]] = {}
    for row in rows.to_pylist():
        boards.setdefault(row["board"], []).append(row)
    return "".join(
        f"<h2>{escape(board)}</h2>{_picture(plot, some)}"
        for board, some in list(boards.items())[:PLOTS_MAX]
    )


def _picture(plot: Plot, rows: list[dict[str, Any]]) -> str:
    """Return the picture of one board's rows: a line, or bars, for each column."""
    most = max([1, *(row[name] for row in rows for name in plot.values)])
    draw = _bars if plot.bars else _line
    shapes = "".join(
        draw([row[name] for row in rows], most, colour)
        for name, colour in zip(plot.values, _COLOURS, strict=False)
    )
    ends = _tick(rows[0][plot.across], "start", MARGIN) + _tick(rows[-1][plot.across], "end", WIDTH)
    said = escape(", ".join(plot.values))
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{said}">'
        f"{_axis(most)}{shapes}{_legend(plot.values)}{ends}</svg>"
    )


def _axis(most: int) -> str:
    floor = HEIGHT - 20
    line = f'<line x1="{MARGIN}" x2="{WIDTH}" y1="{floor}" y2="{floor}" stroke="var(--line)"/>'
    return f'{line}<text x="0" y="34">{most:,}</text><text x="0" y="{floor}">0</text>'


def _legend(names: Sequence[str]) -> str:
    return "".join(
        f'<text x="{MARGIN + LEGEND_WIDTH * number}" y="14" style="fill:{colour}">'
        f"{escape(name.replace('_', ' '))}</text>"
        for number, (name, colour) in enumerate(zip(names, _COLOURS, strict=False))
    )


def _tick(value: object, anchor: str, x: int) -> str:
    shown = value.isoformat() if isinstance(value, date) else str(value)
    return f'<text x="{x}" y="{HEIGHT - 4}" text-anchor="{anchor}">{escape(shown)}</text>'


def _points(values: list[int], most: int) -> list[tuple[float, float]]:
    room, floor = WIDTH - MARGIN, HEIGHT - 20
    step = room / max(1, len(values) - 1)
    return [
        (round(MARGIN + step * number, 1), round(floor - (floor - 30) * value / most, 1))
        for number, value in enumerate(values)
    ]


def _line(values: list[int], most: int, colour: str) -> str:
    points = " ".join(f"{x},{y}" for x, y in _points(values, most))
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _bars(values: list[int], most: int, colour: str) -> str:
    width = max(1.0, (WIDTH - MARGIN) / max(1, len(values)) * 0.8)
    floor = HEIGHT - 20
    return "".join(
        f'<rect x="{round(MARGIN + number * width / 0.8, 1)}" y="{y}" width="{round(width, 1)}" '
        f'height="{round(floor - y, 1)}" fill="{colour}"/>'
        for number, (_, y) in enumerate(_points(values, most))
    )
