"""The page: all that it says and shows, as one HTML document. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from freetrain import __version__
from freetrain.core.harm import Harm
from freetrain.daemon.reports.standing import Standing
from freetrain.showing import pages, palette
from freetrain.slurm.parsing import expand_nodes
from freetrain.web import over_time
from freetrain.web.database import Past
from freetrain.web.headline import headline_of
from freetrain.web.node_map import NodeMap, draw_map
from freetrain.web.node_order import in_order
from freetrain.web.node_reasons import gather_reasons
from freetrain.web.node_times import Stay, draw_node_times, trainer_colours
from freetrain.web.over_time import draw_over_time
from freetrain.web.privacy import nameless_past, nameless_standing
from freetrain.web.trainings import CURVE_HEIGHT, CURVE_WIDTH, list_trainings
from freetrain.web.window import Window

REFRESH_S = 10
_MOST_HARMS, _MOST_RESIZES = 20, 8
_ROW_HEIGHT, _LEAST_HEIGHT, _MOST_HEIGHT, _LABEL_EVERY = 14, 28, 420, 14


@dataclass(frozen=True, slots=True)
class PageFacts:
    """What the page is made of.

    Attributes:
        standing: how the daemon stands.
        past: what its database tells.
        is_hidden: whether the daemon published something that may not be read here.
        is_private: whether the site hides the jobs of others from its users: then nobody is named.
    """

    standing: Standing
    past: Past
    is_hidden: bool = False
    is_private: bool = False


@cache
def style() -> str:
    """The page's style sheet."""
    colours = "".join(f".t{rank} {{ background: {colour}; }}\n" for rank, colour in enumerate(palette.TRAINERS))
    return pages.style_of(__package__, "web.css") + colours


@cache
def script() -> str:
    """The page's only script, which replaces what has changed."""
    return files(__package__).joinpath("live.js").read_text(encoding="utf-8")


def render(facts: PageFacts) -> str:
    """The page."""
    if facts.is_private:
        standing, past = nameless_standing(facts.standing), nameless_past(facts.past)
        facts = replace(facts, standing=standing, past=past)
    standing, past = facts.standing, facts.past
    look = standing.status.look if standing.status else None
    looked_s = look.time_s if look else standing.now_s
    window = Window(standing.now_s, standing.now_s if standing.answers else looked_s)
    node_map = draw_map(look.nodes) if look else draw_map(())
    stays = [stay for stay in past.stays if stay.until_s is None or stay.until_s > window.from_s]
    colours = {} if facts.is_private else trainer_colours(stay.trainer for stay in stays)
    trainings, more = list_trainings(standing, past.trainers)
    return pages.fill(
        __package__,
        "web.html.j2",
        style(),
        script=Markup(script()),
        refresh_s=REFRESH_S,
        version=__version__,
        standing=standing,
        identity=standing.status.daemon if standing.status else None,
        look=look,
        private=facts.is_private,
        past=past,
        headline=headline_of(standing, facts.is_hidden),
        map=node_map,
        about_map=_about_map(node_map),
        window=window,
        over_time=draw_over_time(standing.status.recent, window) if standing.status else None,
        sizes=over_time,
        rows=_node_rows(facts, stays, colours, window),
        colours=colours,
        trainings=trainings,
        more_trainings=more,
        curve_size=(CURVE_WIDTH, CURVE_HEIGHT),
        reasons=gather_reasons(look.nodes) if look else (),
        most_resizes=_MOST_RESIZES,
        harm=_harm(past.harms),
    )


def _about_map(node_map: NodeMap) -> str:
    return ", ".join(f"{count} {state}" for state, count in node_map.counts.items()) or "no nodes"


def _node_rows(
    facts: PageFacts, stays: Sequence[Stay], colours: Mapping[str, int], window: Window
) -> dict[str, Any] | None:
    """The picture of node × time; None: there are no nodes to show."""
    look = facts.standing.status.look if facts.standing.status else None
    groups = look.nodes if look else ()
    shown = {name for group in groups for name in expand_nodes(group.nodes)}
    names = in_order(shown | {stay.node for stay in stays})
    if not names:
        return None
    # What was foreseen at a look that is past is no forecast any more.
    ahead = groups if facts.standing.answers else ()
    image = draw_node_times(names, stays, ahead, colours, window)
    height = min(_MOST_HEIGHT, max(_LEAST_HEIGHT, _ROW_HEIGHT * len(names)))
    step = max(1, round(_LABEL_EVERY * len(names) / height))
    labels = [(round((row + 0.5) * height / len(names), 1), names[row]) for row in range(0, len(names), step)]
    return {
        "image": b64encode(image).decode(),
        "height": height,
        "labels": labels,
        "many": len(names) > _MOST_HEIGHT,
        "count": len(names),
    }


def _harm(harms: Sequence[Harm]) -> dict[str, Any]:
    delays = [harm.delay_s for harm in harms]
    return {
        "count": len(delays),
        "total_s": sum(delays),
        "most_s": max(delays, default=0.0),
        "last": sorted(harms, key=lambda harm: -harm.started_s)[:_MOST_HARMS],
    }
