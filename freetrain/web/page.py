"""The page as one HTML document: its headline, the map of the nodes and why each is lent or not. Pure.

Names are left out where the site hides jobs. Nodes with like reasons stand together.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import groupby
from math import ceil
from typing import Any, Literal

from markupsafe import Markup

from freetrain import __version__
from freetrain.core.harm import Harm
from freetrain.daemon.reports.standing import Standing
from freetrain.daemon.reports.status import LookStatus, NodeGroup, NodeStanding, TrainerStatus
from freetrain.lending.node_verdicts import what_changes
from freetrain.policies.needs import Need
from freetrain.showing import pages, palette
from freetrain.showing.words import count, natural_order, printable
from freetrain.slurm.parsing import expand_nodes, fold_nodes
from freetrain.web import over_time
from freetrain.web.database import DaemonHistory
from freetrain.web.over_time import NodeLease, PageWindow, draw_node_times, draw_over_time, past_shown_s
from freetrain.web.trainings import CURVE_HEIGHT, CURVE_WIDTH, list_trainings

Tone = Literal["good", "warning", "bad"]
_HIDDEN = "(hidden)"
REFRESH_S = 10
_MAX_HARMS, _MAX_RESIZES = 20, 8
_ROW_HEIGHT, _MIN_HEIGHT, _MAX_HEIGHT, _LABEL_EVERY = 14, 28, 420, 14


@dataclass(frozen=True, slots=True)
class Headline:
    """How the daemon stands: in a word, as the page's heading, how bad that is, and as every listing begins."""

    word: str
    sentence: str
    tone: Tone
    lines: tuple[str, ...]


def headline_of(standing: Standing, is_hidden: bool) -> Headline:
    """The headline; where hidden, the daemon published something that may not be read here."""
    if is_hidden:
        why = f"{standing.why_not}."
        return Headline("unknown", "How the daemon stands is not known here", "bad", (why[:1].upper() + why[1:],))
    word, sentence, tone = _in_a_word(standing)
    return Headline(word, sentence, tone, tuple(printable(line) for line in standing.lines()))


def _in_a_word(standing: Standing) -> tuple[str, str, Tone]:
    status, look = standing.status, standing.look
    if status is None or not standing.is_at_work:
        return "no daemon", "No daemon is at work here", "bad"
    if status.silent_since_s is not None:
        return "cannot look", "The daemon cannot look at Slurm", "bad"
    if look is None:
        return "no look yet", "The daemon has not looked yet", "warning"
    if standing.stopped_by:
        return "stopped", "Nothing is lent: the daemon is stopped", "warning"
    if look.paused_by:
        return "paused", "Nothing more is lent: the daemon is paused", "warning"
    if status.daemon.mode != "act":
        does = {"observe": "observes", "advise": "advises"}.get(status.daemon.mode, status.daemon.mode)
        return does, f"The daemon {does} and lends nothing", "warning"
    return "lends", f"{look.lent_nodes:,} of {count(look.idle_nodes, 'idle node')} are lent", "good"


def nameless_standing(standing: Standing) -> Standing:
    """How the daemon stands, without a name or an id of a training, a user or a job."""
    status = standing.status
    if status is None or status.look is None:
        return standing
    return replace(standing, status=replace(status, look=_nameless_look(status.look)))


def nameless_past(past: DaemonHistory) -> DaemonHistory:
    """What was lent and what delays there were; decisions and commands would name trainings."""
    return DaemonHistory(
        stays=tuple(stay._replace(trainer="") for stay in past.stays),
        harms=tuple(replace(harm, job="", fragments=()) for harm in past.harms),
        why_not=past.why_not,
    )


def _nameless_look(look: LookStatus) -> LookStatus:
    return replace(
        look,
        rejected_examples=(_HIDDEN,) * bool(look.rejected_examples),
        nodes=tuple(replace(group, trainer="", why=without_ids(group.why)) for group in look.nodes),
        trainers=tuple(
            TrainerStatus("", "", trainer.state, lent=trainer.lent, asked=trainer.asked)
            for trainer in look.trainers
        ),
    )


@dataclass(frozen=True, slots=True)
class PageFacts:
    """What the page is made of.

    Attributes:
        is_hidden: whether the daemon published something that may not be read here.
        is_private: whether the site hides jobs from users who do not own them: then nobody is named.
        needs: what the policy needs to know of trainings.
    """

    standing: Standing
    past: DaemonHistory
    is_hidden: bool = False
    is_private: bool = False
    needs: tuple[Need, ...] = ()

    @property
    def shown(self) -> PageFacts:
        """What everybody may see."""
        if not self.is_private:
            return self
        return replace(self, standing=nameless_standing(self.standing), past=nameless_past(self.past))


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
    facts = facts.shown
    standing, past = facts.standing, facts.past
    look = standing.last_look
    window = window_of(facts)
    node_map = draw_map(look.nodes if look else ())
    stays = [stay for stay in past.stays if stay.until_s is None or stay.until_s > window.from_s]
    colours = {} if facts.is_private else over_time.trainer_colours(stay.trainer for stay in stays)
    trainings, more = list_trainings(standing, past.trainers)
    return fill(
        "web.html.j2",
        facts,
        identity=standing.status.daemon if standing.status else None,
        look=look,
        private=facts.is_private,
        past=past,
        map=node_map,
        about_map=", ".join(f"{nodes} {state}" for state, nodes in node_map.counts.items()) or "no nodes",
        over_time=draw_over_time(standing.status.recent, window) if standing.status else None,
        sizes=over_time,
        rows=_node_rows(facts, stays, colours, window),
        colours=colours,
        trainings=trainings,
        more_trainings=more,
        reasons=gather_reasons(look.nodes) if look else (),
        most_resizes=_MAX_RESIZES,
        harm=_harm(past.harms),
    )


def fill(template: str, facts: PageFacts, **values: Any) -> str:
    """A page of one of this package's templates, with what all pages show."""
    return pages.fill(
        __package__,
        template,
        style(),
        script=Markup(script()),
        refresh_s=REFRESH_S,
        version=__version__,
        standing=facts.standing,
        headline=headline_of(facts.standing, facts.is_hidden),
        window=window_of(facts),
        curve_size=(CURVE_WIDTH, CURVE_HEIGHT),
        **values,
    )


def window_of(facts: PageFacts) -> PageWindow:
    """The time that pictures show: in the first hour of a daemon the last hour."""
    standing, status = facts.standing, facts.standing.status
    looked_s = status.look.time_s if status and status.look else standing.now_s
    known_until_s = standing.now_s if standing.answers else looked_s
    began_s = [period.from_s for period in status.recent] if status else []
    began_s += [stay.from_s for stay in facts.past.stays]
    return PageWindow(standing.now_s, known_until_s, past_shown_s(standing.now_s, min(began_s, default=looked_s)))


def _node_rows(
    facts: PageFacts, stays: Sequence[NodeLease], colours: Mapping[str, int], window: PageWindow
) -> dict[str, Any] | None:
    groups = facts.standing.last_look.nodes if facts.standing.last_look else ()
    shown = {name for group in groups for name in expand_nodes(group.nodes)}
    names = natural_order(shown | {stay.node for stay in stays})
    if not names:
        return None
    # What was foreseen at a look that is past is no forecast any more.
    ahead = groups if facts.standing.answers else ()
    image = draw_node_times(names, stays, ahead, colours, window)
    height = min(_MAX_HEIGHT, max(_MIN_HEIGHT, _ROW_HEIGHT * len(names)))
    # Labels stand this many pixels apart at least, so that they do not overlap.
    step = max(1, round(_LABEL_EVERY * len(names) / height))
    labels = [(round((row + 0.5) * height / len(names), 1), names[row]) for row in range(0, len(names), step)]
    return {
        "image": b64encode(image).decode(),
        "height": height,
        "labels": labels,
        "many": len(names) > _MAX_HEIGHT,
        "count": len(names),
    }


def _harm(harms: Sequence[Harm]) -> dict[str, Any]:
    delays = [harm.delay_s for harm in harms]
    return {
        "count": len(delays),
        "total_s": sum(delays),
        "most_s": max(delays, default=0.0),
        "last": sorted(harms, key=lambda harm: -harm.started_s)[:_MAX_HARMS],
    }


STATES: tuple[NodeStanding, ...] = ("lent", "asked for", "due back", "free", "not lent")
_WIDTH = 1000
_SIZES = ((64, 18, 3), (256, 12, 2), (1024, 8, 1), (6000, 4, 0), (16_000, 3, 0))
"""So many nodes at most → width of a cell, and what is left clear between two."""
# Of so many nodes each cell says what it is; of more, one colour is one shape.
_MAX_NAMED = 256
_Cell = tuple[int, int, str, NodeGroup]
MAX_ROWS = 40
_MAX_FOLDED, _LONGEST = 300, 140
_LIKE = ((re.compile(r"\bjob \d\S*"), "a job"), (re.compile(r"\b\d+ s\b"), "some seconds"))
"""What tells reasons apart that are alike."""


@dataclass(frozen=True, slots=True)
class MapShape:
    """A part of the map, as a path of SVG's; its title is empty where it is many nodes."""

    state: NodeStanding
    path: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class NodeMap:
    """A picture of all nodes, in the order of their names, and how many of them are in each state."""

    width: int
    height: int
    shapes: tuple[MapShape, ...]
    counts: Mapping[NodeStanding, int]


def draw_map(groups: Iterable[NodeGroup]) -> NodeMap:
    """The map of the nodes of these groups."""
    group_of = {name: group for group in groups for name in expand_nodes(group.nodes)}
    counts = Counter(group.state for group in group_of.values())
    count = len(group_of)
    cell, gap = next(((cell, gap) for most, cell, gap in _SIZES if count <= most), (2, 0))
    pitch = cell + gap
    rows = ceil(count * pitch / _WIDTH)
    columns = ceil(count / rows) if rows else 0
    cells = [
        (number // columns, number % columns, name, group_of[name])
        for number, name in enumerate(natural_order(group_of))
    ]
    shapes = _named(cells, pitch, cell) if count <= _MAX_NAMED else _merged(cells, pitch, cell)
    ordered = {state: counts[state] for state in STATES}
    return NodeMap(columns * pitch, rows * pitch, tuple(shapes), ordered)


def _named(cells: Iterable[_Cell], pitch: int, cell: int) -> Iterator[MapShape]:
    for row, column, name, group in cells:
        title = f"{name}: {', '.join(filter(None, (group.state_text, group.why)))}"
        yield MapShape(group.state, _box(row, column, 1, pitch, cell), title)


def _merged(cells: Iterable[_Cell], pitch: int, cell: int) -> Iterator[MapShape]:
    paths: defaultdict[NodeStanding, list[str]] = defaultdict(list)
    for (row, state), run in groupby(cells, key=lambda cell_at: (cell_at[0], cell_at[3].state)):
        columns = [column for _, column, _, _ in run]
        paths[state].append(_box(row, columns[0], len(columns), pitch, cell))
    return (MapShape(state, "".join(path)) for state, path in paths.items())


def _box(row: int, column: int, columns: int, pitch: int, cell: int) -> str:
    width = (columns - 1) * pitch + cell
    return f"M{column * pitch} {row * pitch}h{width}v{cell}h-{width}z"


@dataclass(frozen=True, slots=True)
class NodeReason:
    """Nodes with like reasons.

    Attributes:
        why: the reason; empty: there is nothing to explain.
        advice: what would have to change; empty: nothing, or nobody can say.
        nodes: which, as ``c[01-04]``; the first of them where they are many.
        until_s: when the first of them is expected to be wanted, UTC epoch seconds; None: nobody knows.
    """

    state: NodeStanding
    why: str
    advice: str
    count: int
    nodes: str
    until_s: float | None


def gather_reasons(groups: Iterable[NodeGroup]) -> list[NodeReason]:
    """The reasons in the order of the states, those of most nodes first; at most ``MAX_ROWS``."""
    alike: defaultdict[tuple[NodeStanding, str], list[NodeGroup]] = defaultdict(list)
    for group in groups:
        alike[group.state, without_ids(group.why)].append(group)
    rows = [_reason(state, why, members) for (state, why), members in alike.items()]
    rows.sort(key=lambda row: (STATES.index(row.state), -row.count, row.why))
    return rows[:MAX_ROWS]


def without_ids(why: str) -> str:
    """A reason without what tells it apart from reasons that are alike, as the ids of jobs."""
    for pattern, words in _LIKE:
        why = pattern.sub(words, why)
    return why


def _reason(state: NodeStanding, why: str, members: list[NodeGroup]) -> NodeReason:
    names = natural_order(name for group in members for name in expand_nodes(group.nodes))
    folded = fold_nodes(names[:_MAX_FOLDED])
    is_cut = len(names) > _MAX_FOLDED or len(folded) > _LONGEST
    ends = [group.until_s for group in members if group.until_s is not None]
    return NodeReason(
        state=state,
        why=why,
        advice=what_changes(members[0].verdict, "NODE"),
        count=len(names),
        nodes=folded[:_LONGEST].rpartition(",")[0] + ", …" if is_cut and "," in folded else folded,
        until_s=min(ends, default=None),
    )
