"""The page as one HTML document: its headline, the map of the nodes and why each is lent or not. Pure.

Names are left out where the site hides jobs. Nodes with like reasons stand together.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import groupby
from math import ceil
from typing import Any

import numpy as np
from markupsafe import Markup

from freetrain import __version__
from freetrain.client.documents import OwnJob
from freetrain.core.fragment import End
from freetrain.core.harm import Harm
from freetrain.core.known_trainer import KnownTrainer
from freetrain.core.place import Lease
from freetrain.daemon.reports.standing import Standing
from freetrain.daemon.reports.status import NodeGroup, NodeStanding
from freetrain.lending.node_verdicts import what_changes
from freetrain.showing import pages, palette
from freetrain.showing.words import brief_duration, count, natural_order, number
from freetrain.slurm.parsing import expand_nodes, fold_nodes
from freetrain.web import over_time
from freetrain.web.api import own_job, own_jobs, ranked
from freetrain.web.facts import PageFacts, headline_of, without_ids
from freetrain.web.over_time import PageWindow

REFRESH_S = 10
_MAX_HARMS, _MAX_RESIZES = 20, 8
_ROW_HEIGHT, _MIN_HEIGHT, _MAX_HEIGHT, _LABEL_EVERY = 14, 28, 420, 14


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
    stays = [stay for stay in past.stays if stay.until_s > window.from_s]
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
        over_time=over_time.draw_over_time(standing.status.recent, window) if standing.status else None,
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
    past_s = over_time.past_shown_s(standing.now_s, min(began_s, default=looked_s))
    return PageWindow(standing.now_s, known_until_s, past_s)


def _node_rows(
    facts: PageFacts, stays: Sequence[Lease], colours: Mapping[str, int], window: PageWindow
) -> dict[str, Any] | None:
    groups = facts.standing.last_look.nodes if facts.standing.last_look else ()
    shown = {name for group in groups for name in expand_nodes(group.nodes)}
    names = natural_order(shown | {stay.place for stay in stays})
    if not names:
        return None
    # What was foreseen at a look that is past is no forecast any more.
    ahead = groups if facts.standing.answers else ()
    image = over_time.draw_node_times(names, stays, ahead, colours, window)
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
"""Sizes of the map: number of nodes at most, width of a cell, and of the gap between two."""
# Of so many nodes each cell says what it is; of more, one colour is one shape.
_MAX_NAMED = 256
_NodeCell = tuple[int, int, str, NodeGroup]
MAX_ROWS = 40
_MAX_FOLDED, _LONGEST = 300, 140


@dataclass(frozen=True, slots=True)
class MapShape:
    """A part of the map, as a path of SVG's; its title is empty where it is many nodes."""

    state: NodeStanding
    path: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class NodeMap:
    """A picture of all nodes, in the order of their names, and the number of them in each state."""

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


def _named(cells: Iterable[_NodeCell], pitch: int, cell: int) -> Iterator[MapShape]:
    for row, column, name, group in cells:
        title = f"{name}: {', '.join(filter(None, (group.state_text, group.why)))}"
        yield MapShape(group.state, _box(row, column, 1, pitch, cell), title)


def _merged(cells: Iterable[_NodeCell], pitch: int, cell: int) -> Iterator[MapShape]:
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
        advice: change that would be needed; empty: none, or it is unknown.
        nodes: their names, as ``c[01-04]``; the first of them where they are many.
        until_s: time at which the first of them is expected to be wanted, UTC epoch seconds; None: unknown.
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
    rows = []
    for (state, why), members in alike.items():
        names = natural_order(name for group in members for name in expand_nodes(group.nodes))
        folded = fold_nodes(names[:_MAX_FOLDED])
        is_cut = len(names) > _MAX_FOLDED or len(folded) > _LONGEST
        reason = NodeReason(
            state=state,
            why=why,
            advice=what_changes(members[0].verdict, "NODE"),
            count=len(names),
            nodes=folded[:_LONGEST].rpartition(",")[0] + ", …" if is_cut and "," in folded else folded,
            until_s=min((group.until_s for group in members if group.until_s is not None), default=None),
        )
        rows.append(reason)
    rows.sort(key=lambda row: (STATES.index(row.state), -row.count, row.why))
    return rows[:MAX_ROWS]


# With 500 the first paint takes twice as long.
MAX_TRAININGS = 200
CURVE_WIDTH, CURVE_HEIGHT = 88, 26


@dataclass(frozen=True, slots=True)
class CurvePicture:
    """Picture of samples per second by nodes: SVG paths, and words; only claimed where nothing was seen yet."""

    line: str
    dots: str
    is_claim: bool
    words: str


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """A row of the table: the API's document of a training, and a picture of its curve, if that is known."""

    own: OwnJob
    curve: CurvePicture | None

    @property
    def wants(self) -> str:
        """Number of nodes that the training asks for, as text; empty: unknown."""
        least, most = self.own.job.min_nodes, self.own.job.max_nodes
        if least is None:
            return ""
        if most is None:
            return f"{least} or more"
        return str(least) if least == most else f"{least}–{most}"


def list_trainings(standing: Standing, known: Mapping[str, KnownTrainer]) -> tuple[list[TrainingRow], int]:
    """The trainings that the last look showed, and the number of those that are left out."""
    look = standing.last_look
    if look is None:
        return [], 0
    shown = ranked(look.trainers)[:MAX_TRAININGS]
    jobs = [own_job(trainer, known.get(trainer.id), standing) for trainer in shown]
    rows = [TrainingRow(own, draw_curve(own.curve, own.curve_is_claim)) for own in jobs]
    return rows, look.trainers_left_out + len(look.trainers) - len(rows)


def draw_curve(points: Sequence[tuple[int, float]], is_claim: bool) -> CurvePicture | None:
    """The picture of a curve; None: nothing is known."""
    if not points:
        return None
    most_nodes, most_rate = points[-1][0], max(rate for _, rate in points)
    places = [
        (2 + (CURVE_WIDTH - 4) * nodes / most_nodes, CURVE_HEIGHT - 2 - (CURVE_HEIGHT - 4) * rate / most_rate)
        for nodes, rate in points
    ]
    words = ", ".join(f"{number(rate)}/s on {nodes}" for nodes, rate in points)
    return CurvePicture(
        line=f"M2 {CURVE_HEIGHT - 2}" + "".join(f"L{x:.1f} {y:.1f}" for x, y in places),
        dots="".join(f"M{x:.1f} {y:.1f}h0" for x, y in places),
        is_claim=is_claim,
        words=f"{'samples, as its owner says' if is_claim else 'samples seen'}: {words} nodes",
    )


_LOST = (End.PREEMPTED, End.RELEASED, End.TIMED_OUT, End.NODE_FAILED, End.FAILED)


@dataclass(frozen=True, slots=True)
class OwnTraining:
    """A training as its owner's page shows it: the API's document, progress from 0 to 1, and SVG paths."""

    own: OwnJob
    size_text: str
    progress: float | None
    left_text: str
    ends_text: str
    nodes_path: str
    top_nodes: int
    curve: CurvePicture | None


def render_own(facts: PageFacts, user: str) -> str:
    """The page of this user."""
    window = window_of(facts)
    return fill(
        "own.html.j2",
        facts,
        user=user,
        trainings=[_training(own, facts.past.stays, window) for own in own_jobs(facts, user).jobs],
        past_text=brief_duration(window.past_s),
        sizes=(over_time.WIDTH, over_time.HEIGHT),
    )


def _training(own: OwnJob, stays: Iterable[Lease], window: PageWindow) -> OwnTraining:
    job = own.job
    path, top = _nodes_over_time([stay for stay in stays if stay.trainer == job.id], window)
    size = f"{len(job.nodes)} of {job.max_nodes} nodes" if job.max_nodes else count(len(job.nodes), "node")
    ends = job.ends or {}
    return OwnTraining(
        own=own,
        size_text=f"{size}, {len(job.asked_nodes)} more starting" if job.asked_nodes else size,
        progress=min((job.samples or 0.0) / own.target_samples, 1.0) if own.target_samples else None,
        left_text=_left_text(own),
        ends_text=", ".join(f"{ends[end]} {end}" for end in map(str, _LOST) if ends.get(end)),
        nodes_path=path,
        top_nodes=top,
        curve=draw_curve(own.curve, own.curve_is_claim),
    )


def _left_text(own: OwnJob) -> str:
    """Time that is left at the speed that was seen on as many nodes as it has, as text; empty: unknown."""
    if not (own.target_samples and own.curve and own.job.nodes) or own.curve_is_claim:
        return ""
    sizes, rates = zip(*own.curve, strict=True)
    rate = float(np.interp(len(own.job.nodes), sizes, rates))
    left_s = max(own.target_samples - (own.job.samples or 0.0), 0.0) / rate
    return f"about {brief_duration(left_s)} more on {count(len(own.job.nodes), 'node')}"


def _nodes_over_time(stays: Sequence[Lease], window: PageWindow) -> tuple[str, int]:
    ends_s = [min(stay.until_s, window.known_until_s) for stay in stays]
    changes = [(max(stay.from_s, window.from_s), 1) for stay in stays]
    changes += [(max(end_s, window.from_s), -1) for end_s in ends_s]
    # At one time, nodes that leave come first: a node that changes hands within is counted once.
    changes.sort()
    sizes = np.cumsum([change for _, change in changes])
    top = int(max(sizes, default=0))
    if not top:
        return "", 0
    steps = (
        f"H{over_time.WIDTH * window.share(time_s):.1f}V{over_time.HEIGHT - over_time.HEIGHT * size / top:.1f}"
        for (time_s, _), size in zip(changes, sizes, strict=True)
    )
    return f"M0 {over_time.HEIGHT}{''.join(steps)}V{over_time.HEIGHT}z", top
