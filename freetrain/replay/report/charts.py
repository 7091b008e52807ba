"""The report's pictures: series in, SVG out, one function each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from freetrain.replay.report import palette, words
from freetrain.replay.report.figures import HoleLengths, NodesOverTime, SamplesOverTime
from freetrain.replay.report.node_grid import NodeGrid
from freetrain.replay.report.svg import Format, draw
from freetrain.replay.report.ticks import time_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BOTTOM = 46
_ROWS = 17


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
    """Samples trained so far, in the replay and on the dedicated machine."""
    height = 250 if size.is_narrow else 320
    ends = (
        (series.replayed, palette.LENT, "idle nodes", "solid"),
        (series.dedicated, palette.DEDICATED, "dedicated", (0, (4, 2))),
    )

    def paint(figure: Figure) -> None:
        top = max(series.replayed.max(), series.dedicated.max())
        right = size.font * (7.5 if size.is_narrow else 9)
        axes = _axes(figure, size, height, left=_number_width(99.9, size), right=right)
        for samples, colour, _, style in ends:
            axes.plot(series.at_s, samples, color=colour, linewidth=2.2, linestyle=style)
        axes.set_ylim(min(0.0, series.replayed.min()), top * 1.05)
        heights = _apart(series.replayed[-1], series.dedicated[-1], top * 2.9 * size.font / (height - _BOTTOM))
        for (samples, colour, name, _), at in zip(ends, heights, strict=True):
            _note_at_right(axes, at, f"{name}\n{words.large(samples[-1])}", colour)
        _time(axes, size, series.at_s[0], series.at_s[-1])
        _amounts(axes, "samples", size)

    return draw("samples", "Samples trained, on idle nodes and on a dedicated machine", size, height, paint)


def nodes_by_trainer(grid: NodeGrid, size: Format) -> str:
    """Who had which of the pictured nodes when."""
    row = 6 if size.is_narrow else 8
    height = max(row * len(grid.nodes), 60) + _ROWS + _BOTTOM

    def paint(figure: Figure) -> None:
        from matplotlib.colors import ListedColormap

        left = min(max(map(len, grid.nodes)), 14) * size.font * 0.62 + 14
        axes = _axes(figure, size, height, left=left, right=10)
        extent = (grid.from_s, grid.until_s, len(grid.nodes) - 0.5, -0.5)
        colours = ListedColormap([palette.BUSY, palette.IDLE, *palette.TRAINERS])
        axes.imshow(
            grid.states,
            cmap=colours,
            vmin=0,
            vmax=colours.N - 1,
            aspect="auto",
            interpolation="none",
            extent=extent,
        )
        axes.hlines(
            np.arange(len(grid.nodes) - 1) + 0.5, grid.from_s, grid.until_s, color="white", linewidth=row / 8
        )
        step = max(1, round(2.2 * size.font / row)) if len(grid.nodes) > 4 else 1
        marked = range(0, len(grid.nodes), step)
        axes.set_yticks(list(marked), [_shortened(grid.nodes[number]) for number in marked])
        axes.set_title("node", loc="left", x=0, fontsize=size.font, color=palette.QUIET, pad=6)
        _time(axes, size, grid.from_s, grid.until_s)

    return draw("grid", "A sample of nodes over time with their trainers", size, height, paint)


def lengths_of_holes(lengths: HoleLengths, size: Format) -> str:
    """How many holes there are of each length, and how many node-hours lie in them."""
    bar = 24
    height = bar * len(lengths.labels) + 40
    rows = np.arange(len(lengths.labels))
    panels = (("holes", lengths.holes, palette.DEDICATED), ("idle node-hours", lengths.node_hours, palette.IDLE))

    def paint(figure: Figure) -> None:
        labels_at = size.font * 7.5
        panel = (size.width - labels_at) / 2
        for number, (title, amounts, colour) in enumerate(panels):
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
                shown = part if size.is_narrow else f"{words.number(amount)}  ({part})"
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
    marks = time_axis(from_s, until_s, size.time_marks)
    axes.set_xlim(from_s, until_s)
    axes.set_xticks(marks.at_s, marks.labels)
    axes.set_xlabel(marks.caption, loc="right", fontsize=size.font * 0.92)


def _amounts(axes: Axes, noun: str, size: Format) -> None:
    """A vertical axis with round numbers, its unit above it, and light lines."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    unit, word = _unit(axes.get_ylim()[1])
    whole = unit == 1
    axes.yaxis.set_major_locator(MaxNLocator(4 if size.is_narrow else 5, steps=[1, 2, 5, 10], integer=whole))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: words.number(value / unit)))
    axes.set_title(f"{word}{noun}", loc="left", x=0, fontsize=size.font, color=palette.QUIET, pad=8)
    axes.grid(axis="y")


def _unit(top: float) -> tuple[float, str]:
    for unit, word in ((1e12, "trillion "), (1e9, "billion "), (1e6, "million ")):
        if top >= unit:
            return unit, word
    return 1.0, ""


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


def _apart(first: float, second: float, distance: float) -> tuple[float, float]:
    """Two heights moved apart, evenly, until their labels do not touch."""
    push = max(0.0, distance - abs(first - second)) / 2
    return (first + push, second - push) if first > second else (first - push, second + push)


def _number_width(value: float, size: Format) -> float:
    return (len(words.number(value)) + 1) * size.font * 0.6 + 8


def _shortened(name: str) -> str:
    return name if len(name) <= 14 else f"{name[:6]}…{name[-7:]}"
