"""Pictures over time: a window with its axis, node × time, and idle and lent nodes over the last day. Pure."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log10

import numpy as np
from numpy.typing import ArrayLike, NDArray

from freetrain.core.place import Lease
from freetrain.daemon.reports.status import KEPT_S, PERIOD_S, NodeGroup, RecentNodes
from freetrain.showing import palette
from freetrain.showing.ticks import time_axis
from freetrain.slurm.parsing import expand_nodes

PAST_S = KEPT_S
_SPANS_S = (3600.0, 6 * 3600.0, PAST_S)
_AHEAD = 0.25
"""Time ahead that is shown, as a share of the past that is shown."""
_MARKS = 10
COLUMNS = 600
_CLEAR, _FREE_AHEAD, _LENT_AHEAD, _WANTED, _FIRST = range(5)
_STAYS_AHEAD = ("free", "lent", "asked for")
WIDTH, HEIGHT = 1000, 100
"""Size of the shapes; they are stretched to the width of the page."""


@dataclass(frozen=True, slots=True)
class AxisMark:
    """A time on the axis, in percent from its left end; narrow screens leave extra ones out."""

    percent: float
    label: str
    is_extra: bool


@dataclass(frozen=True, slots=True)
class PageWindow:
    """The time behind a moment, and a quarter as much ahead of it.

    Attributes:
        known_until_s: time after which nobody looked until now; ``now_s``: the past is known until now.
        past_s: seconds of the past that are shown: a day, or less of a daemon that has not run so long.
    """

    now_s: float
    known_until_s: float
    past_s: float = PAST_S

    @property
    def from_s(self) -> float:
        """Left end of the window, UTC epoch seconds."""
        return self.now_s - self.past_s

    @property
    def until_s(self) -> float:
        """Right end of the window, UTC epoch seconds."""
        return self.now_s + _AHEAD * self.past_s

    def share(self, time_s: float) -> float:
        """Place of a time, from 0 at the left end to 1 at the right one; not beyond them."""
        return min(1.0, max(0.0, (time_s - self.from_s) / (self.until_s - self.from_s)))

    def percent(self, time_s: float) -> float:
        """Place of a time, in percent of the width."""
        return round(100 * self.share(time_s), 2)

    @property
    def marks(self) -> tuple[AxisMark, ...]:
        """Marks of the axis at round times."""
        axis = time_axis(self.from_s, self.until_s, _MARKS)
        marks = (
            AxisMark(self.percent(at_s), label, number % 2 == 1)
            for number, (at_s, label) in enumerate(zip(axis.at_s, axis.labels, strict=True))
        )
        # What stands at the very ends would be cut off.
        return tuple(mark for mark in marks if 2 < mark.percent < 98)


def past_shown_s(now_s: float, first_s: float) -> float:
    """Seconds of the past that are shown where nothing is known from before ``first_s``: an hour at least."""
    return next((span_s for span_s in _SPANS_S if span_s >= now_s - first_s), PAST_S)


def trainer_colours(trainers: Iterable[str]) -> Mapping[str, int]:
    """Trainer → place of its colour in the palette; none where there are too many to distinguish."""
    distinct = sorted(set(trainers))
    return {name: rank for rank, name in enumerate(distinct)} if len(distinct) <= len(palette.TRAINERS) else {}


def draw_node_times(
    names: Sequence[str],
    stays: Iterable[Lease],
    groups: Iterable[NodeGroup],
    colours: Mapping[str, int],
    window: PageWindow,
) -> bytes:
    """The picture as PNG, a row a node, ``COLUMNS`` of time: lent time, and expected idle time; else clear."""
    row = {name: number for number, name in enumerate(names)}
    cells = np.zeros((len(names), COLUMNS), np.uint8)
    _draw_stays(cells, [stay for stay in stays if stay.place in row], row, colours, window)
    for group in groups:
        if group.state not in _STAYS_AHEAD:
            continue
        # The time that nodes are expected to stay idle, and a mark where somebody is expected to want them
        rows = [row[name] for name in expand_nodes(group.nodes) if name in row]
        ends_s = window.until_s if group.until_s is None else group.until_s
        now, until = _columns(window, [window.now_s, ends_s])
        wanted = max(now, until)
        cells[rows, now:wanted] = _FREE_AHEAD if group.state == "free" else _LENT_AHEAD
        if wanted < COLUMNS:
            cells[rows, wanted : wanted + 3] = _WANTED
    # Each with how opaque it is, 0 to 255: clear ones let the page's ground through.
    fixed = ((palette.PAGE, 0), (palette.IDLE, 90), (palette.LENT, 80), (palette.LOST, 255))
    return _png(cells, [*fixed, *((colour, 255) for colour in (*palette.TRAINERS, palette.LENT))])


def _draw_stays(
    cells: NDArray[np.uint8],
    stays: Sequence[Lease],
    row: Mapping[str, int],
    colours: Mapping[str, int],
    window: PageWindow,
) -> None:
    """Draw the stays of trainers, a column wide at least; of those that overlap the later one is seen."""
    ends = [min(stay.until_s, window.known_until_s) for stay in stays]
    left = _columns(window, [stay.from_s for stay in stays])
    # A stay of seconds would have no column at all otherwise.
    right = np.maximum(_columns(window, np.minimum(ends, window.now_s)), left + 1)
    shown = np.array(ends) > window.from_s
    others = len(palette.TRAINERS)
    for number in np.flatnonzero(shown).tolist():
        stay = stays[number]
        cells[row[stay.place], left[number] : right[number]] = _FIRST + colours.get(stay.trainer, others)


def _columns(window: PageWindow, times_s: ArrayLike) -> NDArray[np.intp]:
    share = (np.asarray(times_s, np.float64) - window.from_s) / (window.until_s - window.from_s)
    return np.rint(COLUMNS * np.clip(share, 0.0, 1.0)).astype(np.intp)


def _png(cells: NDArray[np.uint8], colours: Sequence[tuple[str, int]]) -> bytes:
    """An image with a palette, as the PNG specification has it: a signature, and chunks with checksums."""
    rows, columns = cells.shape
    # Each begins with its filter: none
    lines = np.zeros((rows, columns + 1), np.uint8)
    lines[:, 1:] = cells
    head = struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)
    chunks = (
        (b"IHDR", head),
        (b"PLTE", b"".join(bytes.fromhex(colour.removeprefix("#")) for colour, _ in colours)),
        (b"tRNS", bytes(opaque for _, opaque in colours)),
        (b"IDAT", zlib.compress(lines.tobytes(), 6)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


@dataclass(frozen=True, slots=True)
class OverTime:
    """Nodes over time, as SVG paths: idle ones, and the lent ones of them; and the number at the upper edge."""

    idle: str
    lent: str
    top_nodes: int


def draw_over_time(recent: Iterable[RecentNodes], window: PageWindow) -> OverTime:
    """Picture of the periods that lie in the window."""
    shown = [
        period for period in recent if window.from_s < period.from_s + PERIOD_S and period.from_s < window.now_s
    ]
    top = _round_up(max((period.idle_nodes for period in shown), default=1.0))

    def area(nodes: Callable[[RecentNodes], float]) -> str:
        path = ""
        for period in shown:
            left = WIDTH * window.share(period.from_s)
            right = WIDTH * window.share(min(period.from_s + PERIOD_S, window.now_s))
            height = HEIGHT * nodes(period) / top
            if height > 0:
                path += f"M{left:.2f} {HEIGHT}V{HEIGHT - height:.2f}H{right:.2f}V{HEIGHT}z"
        return path

    return OverTime(area(lambda period: period.idle_nodes), area(lambda period: period.lent_nodes), top)


def _round_up(nodes: float) -> int:
    if nodes <= 10:
        return max(1, ceil(nodes))
    unit = 10 ** int(log10(nodes))
    return next(int(unit * step) for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if unit * step >= nodes)
