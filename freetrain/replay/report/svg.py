"""From matplotlib to SVG that can stand in an HTML page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from freetrain.errors import FreetrainError
from freetrain.replay.report.figures import MOST_BINS
from freetrain.showing import palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_POINTS_PER_INCH = 72
_VARIABLES = {colour: f"var(--{name})" for name, colour in palette.LIGHT.items()}
_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


@dataclass(frozen=True, slots=True)
class Format:
    """A size in which pictures are drawn; one unit is one CSS pixel where the picture is as wide as meant.

    Attributes:
        name: tells the renderings of a picture apart.
        width: how wide it is.
        font: size of its text.
        time_marks: how many marks a time axis bears.
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


WIDE = Format("wide", 1000, 13, 8, MOST_BINS)
NARROW = Format("narrow", 360, 12, 4, 240)


def draw(name: str, title: str, size: Format, height: float, paint: Callable[[Figure], None]) -> str:
    """One picture as an ``<svg>`` element without fixed size, equal for equal input.

    Args:
        name: prefix of all its ids, unique in a page together with the format's.
        title: what it shows, for those who cannot see it.
        size: the format it is drawn in.
        height: its height, in units of the format.
        paint: draws into the empty figure.
    """
    with _matplotlib(size):
        from matplotlib.figure import Figure

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


@contextmanager
def _matplotlib(size: Format) -> Iterator[None]:
    """The drawing library with its own defaults, whatever the user's matplotlibrc says, and the report's style."""
    require_matplotlib()
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_style(size))
        yield


def _style(size: Format) -> dict[Any, Any]:
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": "freetrain",
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
    svg = re.sub(r"<style [^>]*>.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' width="[^"]*pt"| height="[^"]*pt"', "", svg, count=2)
    svg = re.sub(r"(font-family: |font: (?:[\w.]+ )*[\d.]+px )[^;\"]*", lambda font: font[1] + _FONTS, svg)
    svg = re.sub(r' (?:d|x|y)="[^"]*"', lambda place: re.sub(r"(\.\d\d)\d+", r"\1", place[0]), svg)
    svg = re.sub(r"(?<=: )#[0-9a-f]{6}\b", lambda colour: _VARIABLES.get(colour[0], colour[0]), svg)
    svg = _own_ids(svg, prefix)
    head = f'<svg class="{prefix}" role="img" aria-labelledby="{prefix}-title"'
    return svg.replace("<svg", head, 1).replace(">", f'><title id="{prefix}-title">{escape(title)}</title>', 1)


def _own_ids(svg: str, prefix: str) -> str:
    """Drop the ids that nothing refers to and prefix the others."""
    used = set(re.findall(r'(?:url\(|href=")#([^")]+)', svg))
    svg = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", svg)
    return re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{prefix}-", svg)
