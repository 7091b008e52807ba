"""The report's pictures, one function each: series in, an ``<svg>`` element that can stand in an HTML page out."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from freetrain.core.throughput import Floats
from freetrain.errors import FreetrainError
from freetrain.replay.report.series import (
    MAX_BINS,
    WEEKDAYS,
    HoleLengths,
    NodeGrid,
    NodesOverTime,
    Rhythm,
    SamplesOverTime,
)
from freetrain.showing import palette, words
from freetrain.showing.ticks import time_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_POINTS_PER_INCH = 72
_VARIABLES = {colour: f"var(--{name})" for name, colour in palette.LIGHT.items()}
_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_Line = tuple[Floats, str, str, Any]
_BOTTOM = 46
_ROWS = 17
_DATE_WIDTH = 7.0
"""Width of a date with some space beside it, in sizes of the font."""


@dataclass(frozen=True, slots=True)
class Format:
    """A size in which pictures are drawn; one unit is one CSS pixel where the picture is as wide as meant.

    Attributes:
        name: tells the renderings of a picture apart.
        bins: into how many parts time is cut.
    """

    name: str
    width: int
    font: float
    time_marks: int
    bins: int

    @property
    def is_narrow(self) -> bool:
        """Whether it is meant for telephones."""
        return self.width < 600


WIDE = Format("wide", 1000, 13, 8, MAX_BINS)
NARROW = Format("narrow", 360, 12, 4, 240)


def draw(name: str, title: str, size: Format, height: float, paint: Callable[[Figure], None]) -> str:
    """One picture as an ``<svg>`` element without fixed size, equal for equal input.

    ``name`` is a prefix of all its ids, unique in a page together with the format's; ``title`` is read out to
    those who cannot see it.
    """
    require_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        # With its own defaults, whatever the user's matplotlibrc says, and the report's style.
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_style(size))
        figure = Figure(figsize=(size.width / _POINTS_PER_INCH, height / _POINTS_PER_INCH))
        paint(figure)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return _inline(stream.getvalue(), f"{name}-{size.name}", title)


def require_matplotlib() -> None:
    """Make sure that pictures can be drawn, best before a long replay.

    Raises:
        FreetrainError: matplotlib is not installed.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise FreetrainError(
            "The report needs matplotlib to draw its pictures, and it is not installed.",
            "Install it: pip install 'freetrain[report]'.",
        ) from error


def _style(size: Format) -> dict[Any, Any]:
    return {
        "svg.fonttype": "none",
        # Ids are hashes with a random salt otherwise, and equal replays would give different files.
        "svg.hashsalt": "freetrain",
        # Names of nodes and trainers may hold dollar signs.
        "text.parse_math": False,
        "font.size": size.font,
        "text.color": palette.INK,
        "axes.edgecolor": palette.QUIET,
        "axes.labelcolor": palette.QUIET,
        "axes.linewidth": 0.8,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.spines.left": False,
        "grid.color": palette.RULE,
        "grid.linewidth": 0.8,
        "xtick.color": palette.QUIET,
        "ytick.color": palette.QUIET,
        "ytick.major.size": 0,
        "figure.facecolor": "none",
        "axes.facecolor": "none",
    }


def _inline(svg: str, prefix: str, title: str) -> str:
    """The bare ``<svg>`` element: sized by the page, named for screen readers, its ids all its own."""
    svg = svg[svg.index("<svg") :].rstrip()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # matplotlib's style sheet would hold for the whole page.
    svg = re.sub(r"<style [^>]*>.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' width="[^"]*pt"| height="[^"]*pt"', "", svg, count=2)
    svg = re.sub(r"(font-family: |font: (?:[\w.]+ )*[\d.]+px )[^;\"]*", lambda font: font[1] + _FONTS, svg)
    # Hundredths of a pixel are enough, and make the page smaller.
    svg = re.sub(r' (?:d|x|y)="[^"]*"', lambda place: re.sub(r"(\.\d\d)\d+", r"\1", place[0]), svg)
    svg = re.sub(r"(?<=: )#[0-9a-f]{6}\b", lambda colour: _VARIABLES.get(colour[0], colour[0]), svg)
    # Ids that nothing refers to are dropped, and the others prefixed.
    used = set(re.findall(r'(?:url\(|href=")#([^")]+)', svg))
    svg = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", svg)
    svg = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{prefix}-", svg)
    head = f'<svg class="{prefix}" role="img" aria-labelledby="{prefix}-title"'
    return svg.replace("<svg", head, 1).replace(">", f'><title id="{prefix}-title">{escape(title)}</title>', 1)


def idle_and_lent(series: NodesOverTime, size: Format) -> str:
    """Idle nodes over time, and how many of them were lent."""
    height = 250 if size.is_narrow else 320

    def paint(figure: Figure) -> None:
        axes = _axes(figure, size, height, left=_number_width(series.idle_nodes.max(), size), right=size.font * 6)
        lent, idle = series.lent_nodes, series.idle_nodes
        axes.stairs(lent, series.edges_s, fill=True, color=palette.LENT)
        axes.stairs(idle, series.edges_s, baseline=lent, fill=True, color=palette.IDLE)
        axes.set_ylim(0, series.idle_nodes.max() * 1.04)
        axes.axhline(series.mean_idle_nodes, color=palette.INK, linewidth=1, dashes=(4, 3))
        _note_at_right(axes, series.mean_idle_nodes, f"{words.number(series.mean_idle_nodes)} idle\non average")
        _time(axes, size, series.edges_s[0], series.edges_s[-1])
        _amounts(axes, "nodes", size)

    return draw("nodes", "Idle and lent nodes over time", size, height, paint)


def samples_trained(series: SamplesOverTime, size: Format) -> str:
    """Samples trained so far, in the replays and on the dedicated machine."""
    height = 250 if size.is_narrow else 320
    ends: list[_Line] = [
        (series.allowed, palette.ALLOWED, "holes allow", "solid"),
        (series.dedicated, palette.DEDICATED, "dedicated", (0, (4, 2))),
    ]
    if series.daemon is not None:
        ends.insert(0, (series.daemon, palette.LENT, "daemon", "solid"))

    def paint(figure: Figure) -> None:
        top = max(samples.max() for samples, *_ in ends)
        right = size.font * (7.5 if size.is_narrow else 9)
        axes = _axes(figure, size, height, left=_number_width(99.9, size), right=right)
        for samples, colour, _, style in ends:
            axes.plot(series.at_s, samples, color=colour, linewidth=2.2, linestyle=style)
        axes.set_ylim(min(0.0, *(samples.min() for samples, *_ in ends)), top * 1.05)
        distance = top * 2.9 * size.font / (height - _BOTTOM)
        heights = _apart([float(samples[-1]) for samples, *_ in ends], distance)
        for (samples, colour, name, _), at in zip(ends, heights, strict=True):
            _note_at_right(axes, at, f"{name}\n{words.large(samples[-1])}", colour)
        _time(axes, size, series.at_s[0], series.at_s[-1])
        _amounts(axes, "samples", size)

    return draw("samples", "Samples trained, on idle nodes and on a dedicated machine", size, height, paint)


def nodes_by_trainer(grid: NodeGrid, colours: Sequence[str], size: Format) -> str:
    """The pictured nodes over time, by holder; ``colours`` are those of the grid's trainers."""
    row = 6 if size.is_narrow else 8
    height = max(row * len(grid.nodes), 60) + _ROWS + _BOTTOM

    def paint(figure: Figure) -> None:
        from matplotlib.colors import ListedColormap

        left = min(max(map(len, grid.nodes)), 14) * size.font * 0.62 + 14
        # The last date stands below the end of the axis, and half of it beyond.
        axes = _axes(figure, size, height, left=left, right=size.font * _DATE_WIDTH / 2)
        extent = (grid.from_s, grid.until_s, len(grid.nodes) - 0.5, -0.5)
        # What is busy is left clear: the ground behind it has another colour on dark screens, a picture has not.
        shades = ListedColormap(["#00000000", palette.IDLE, *colours])
        axes.set_facecolor(palette.BUSY)
        axes.imshow(
            grid.states, cmap=shades, vmin=0, vmax=shades.N - 1, aspect="auto", interpolation="none", extent=extent
        )
        axes.hlines(
            np.arange(len(grid.nodes) - 1) + 0.5, grid.from_s, grid.until_s, color=palette.PAGE, linewidth=row / 8
        )
        step = max(1, round(2.2 * size.font / row)) if len(grid.nodes) > 4 else 1
        marked = range(0, len(grid.nodes), step)
        names = (grid.nodes[number] for number in marked)
        shortened = [name if len(name) <= 14 else f"{name[:6]}…{name[-7:]}" for name in names]
        axes.set_yticks(list(marked), shortened)
        axes.set_title("node", loc="left", x=0, fontsize=size.font, color=palette.QUIET, pad=6)
        _time(axes, size, grid.from_s, grid.until_s)

    return draw("grid", "Nodes over time: busy, idle, or lent to trainers", size, height, paint)


def nodes_by_time_of_week(rhythm: Rhythm, size: Format) -> str:
    """Idle and lent nodes on average, by hour of the day and by day of the week."""
    height = 380 if size.is_narrow else 230
    hours = [f"{hour:02d}" if hour % 3 == 0 else "" for hour in range(24)]
    panels = (
        ("nodes, by hour of the day", rhythm.idle_by_hour, rhythm.lent_by_hour, hours),
        ("nodes, by weekday", rhythm.idle_by_day, rhythm.lent_by_day, list(WEEKDAYS)),
    )
    top = max(rhythm.idle_by_hour.max(), rhythm.idle_by_day.max()) * 1.04 or 1.0

    def paint(figure: Figure) -> None:
        left = _number_width(top, size)
        for number, (title, idle, lent, labels) in enumerate(panels):
            if size.is_narrow:
                above = 30 + number * height / 2
                box = _box(size, height, left, 4, top=above, bottom=height / 2 * (1 - number) + 24)
            else:
                split = size.width * 0.66
                begin, end = (left, size.width - split + 30) if number == 0 else (split + left, 4)
                box = _box(size, height, begin, end, top=30, bottom=24)
            axes = figure.add_axes(box)
            at = np.arange(len(idle))
            axes.bar(at, lent, width=0.78, color=palette.LENT)
            axes.bar(at, np.maximum(idle - lent, 0), width=0.78, bottom=lent, color=palette.IDLE)
            axes.set_xlim(-0.6, len(idle) - 0.4)
            axes.set_ylim(0, top)
            axes.tick_params(axis="x", length=0)
            axes.set_xticks(at.tolist(), labels)
            _amounts(axes, "", size)
            axes.set_title(title, loc="left", x=0, fontsize=size.font, color=palette.QUIET, pad=8)

    return draw("rhythm", "Idle and lent nodes by hour of the day and by weekday", size, height, paint)


def lengths_of_holes(lengths: HoleLengths, size: Format) -> str:
    """Numbers of holes of each length, and the node-hours in them, as bars."""
    bar = 24
    height = bar * len(lengths.labels) + 40
    rows = np.arange(len(lengths.labels))
    of_hours = partial(words.amount, of=float(lengths.node_hours.max(initial=0)))
    panels: tuple[tuple[str, NDArray[Any], Callable[[float], str], str], ...] = (
        ("holes", lengths.holes, words.number, palette.DEDICATED),
        ("idle node-hours", lengths.node_hours, of_hours, palette.IDLE),
    )

    def paint(figure: Figure) -> None:
        labels_at = size.font * 7.5
        panel = (size.width - labels_at) / 2
        for number, (title, amounts, in_words, colour) in enumerate(panels):
            left = labels_at + number * panel
            note = size.font * (4 if size.is_narrow else 10)
            axes = figure.add_axes(_box(size, height, left, size.width - left - panel + note, top=30, bottom=10))
            axes.barh(rows, amounts, height=0.72, color=colour)
            axes.set_title(title, loc="left", fontsize=size.font, color=palette.INK, weight="bold", pad=8)
            axes.set_xlim(0, max(amounts) or 1)
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.set_yticks(list(rows), lengths.labels if number == 0 else [""] * len(rows))
            axes.set_xticks([])
            axes.spines[:].set_visible(False)
            for at, amount in enumerate(amounts):
                part = words.share(amount / (sum(amounts) or 1))
                shown = part if size.is_narrow else f"{in_words(amount)}  ({part})"
                axes.annotate(shown, (amount, at), (5, 0), textcoords="offset points", va="center")

    return draw("lengths", "Lengths of the holes, by count and by node-hours", size, height, paint)


def _axes(figure: Figure, size: Format, height: float, left: float, right: float) -> Axes:
    return figure.add_axes(_box(size, height, left, right, top=_ROWS + 8, bottom=_BOTTOM))


def _box(
    size: Format, height: float, left: float, right: float, top: float, bottom: float
) -> tuple[float, float, float, float]:
    width = size.width
    return left / width, bottom / height, (width - left - right) / width, (height - top - bottom) / height


def _time(axes: Axes, size: Format, from_s: float, until_s: float) -> None:
    room = axes.get_position().width * size.width / (_DATE_WIDTH * size.font)
    # So many marks are never closer together than a date is wide.
    marks = time_axis(from_s, until_s, min(size.time_marks, int(room) - 1))
    axes.set_xlim(from_s, until_s)
    axes.set_xticks(marks.at_s, marks.labels)
    axes.set_xlabel(marks.caption, loc="right", fontsize=size.font * 0.92)


def _amounts(axes: Axes, noun: str, size: Format) -> None:
    """A vertical axis with round numbers, its unit above it, and light lines."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    top = axes.get_ylim()[1]
    unit, word = next(((unit, f"{word} ") for unit, word in words.LARGE if top >= unit), (1.0, ""))
    whole = unit == 1
    axes.yaxis.set_major_locator(MaxNLocator(4 if size.is_narrow else 5, steps=[1, 2, 5, 10], integer=whole))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: words.number(value / unit)))
    axes.set_title(f"{word}{noun}", loc="left", x=0, fontsize=size.font, color=palette.QUIET, pad=8)
    axes.grid(axis="y")


def _note_at_right(axes: Axes, value: float, text: str, colour: str = palette.INK) -> None:
    axes.annotate(
        text,
        (1, value),
        (7, 0),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        va="center",
        color=colour,
        annotation_clip=False,
    )


def _apart(heights: Sequence[float], distance: float) -> list[float]:
    """The heights moved apart, in their order, until their labels do not touch."""
    placed = list(heights)
    order = sorted(range(len(heights)), key=lambda number: heights[number])
    for low, high in pairwise(order):
        placed[high] = max(placed[high], placed[low] + distance)
    shift = sum(placed[number] - heights[number] for number in order) / len(order)
    return [height - shift for height in placed]


def _number_width(value: float, size: Format) -> float:
    return (len(words.number(value)) + 1) * size.font * 0.6 + 8
