"""Replays side by side as a picture: a column for each figure, a block of bars for each trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any

from freetrain.showing import palette

_NAMES, _COLUMN, _BAR, _ROW, _HEAD, _GAP = 150, 190, 120, 18, 26, 12


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing that is measured.

    Attributes:
        name: for people.
        of: it, of a replay's outcome; None: it is not known.
        form: how it is shown.
    """

    name: str
    of: Callable[[Mapping[str, Any]], float | None]
    form: str

    def show(self, outcome: Mapping[str, Any]) -> str:
        """It in words."""
        value = self.of(outcome)
        return "–" if value is None else self.form.format(value)


@dataclass(frozen=True, slots=True)
class Measured:
    """One replay.

    Attributes:
        log: the trace.
        method: who decided.
        outcome: the figures by name, as the store has them.
    """

    log: str
    method: str
    outcome: Mapping[str, Any]


def draw(figures: Sequence[Figure], measured: Sequence[Measured]) -> str:
    """An SVG; the bars of one figure and one trace share a scale, which begins at 0."""
    width, body, top = _NAMES + _COLUMN * len(figures), list[str](), float(_HEAD)
    for log, of_log in groupby(measured, key=lambda one: one.log):
        rows = list(of_log)
        body.append(_text(0, top + 12, log, weight="bold"))
        body += (_text(_NAMES + _COLUMN * column, top + 12, one.name) for column, one in enumerate(figures))
        for column, figure in enumerate(figures):
            body += _bars(figure, rows, _NAMES + _COLUMN * column, top + _HEAD)
        body += (_text(0, top + _HEAD + _ROW * row + 12, one.method) for row, one in enumerate(rows))
        top += _HEAD + _ROW * len(rows) + _GAP
    style = (
        f"text {{ font-size: 12px; font-family: system-ui, sans-serif; fill: {palette.INK}; }} "
        f"@media (prefers-color-scheme: dark) {{ text {{ fill: {palette.DARK['ink']}; }} }}"
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top:.0f}" role="img">'
    title = "<title>The systems side by side on replayed traces</title>"
    return "\n".join((head, title, f"<style>{style}</style>", *body, "</svg>", ""))


def _bars(figure: Figure, rows: Sequence[Measured], left: float, top: float) -> Iterator[str]:
    values = [figure.of(one.outcome) or 0.0 for one in rows]
    most = max(values) or 1.0
    for row, (one, value) in enumerate(zip(rows, values, strict=True)):
        y, length = top + _ROW * row, max(_BAR * value / most, 0.0)
        yield f'<rect x="{left}" y="{y + 2:.0f}" width="{length:.1f}" height="12" fill="{palette.LENT}"/>'
        yield _text(left + length + 4, y + 12, figure.show(one.outcome))


def _text(x: float, y: float, text: str, weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y:.0f}" font-weight="{weight}">{escape(text)}</text>'
