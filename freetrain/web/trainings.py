"""The trainings: size, progress, and what was seen of their throughput. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from freetrain.core.known_trainer import KnownTrainer
from freetrain.core.throughput import Curve, mean_rates
from freetrain.daemon.reports.standing import Standing
from freetrain.daemon.reports.status import TrainerStatus
from freetrain.showing.words import number
from freetrain.slurm.parsing import expand_nodes
from freetrain.slurm.tags import Tag, tag_in

# With 500 the first paint takes twice as long.
MAX_ROWS = 200
_MAX_POINTS = 12
CURVE_WIDTH, CURVE_HEIGHT = 88, 26


@dataclass(frozen=True, slots=True)
class CurvePicture:
    """Samples per second on so many nodes: paths of SVG's, and words; only claimed where nothing was seen yet."""

    line: str
    dots: str
    is_claim: bool
    words: str


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """A row of the table; what is unknown is empty, a target or a curve is None then."""

    id: str
    name: str
    owner: str
    nodes: int
    asked: int
    wants: str
    samples: float
    target: float | None
    evictions: int
    state_text: str
    curve: CurvePicture | None


def list_trainings(standing: Standing, known: Mapping[str, KnownTrainer]) -> tuple[list[TrainingRow], int]:
    """The trainings that the last look showed, and how many more there are."""
    look = standing.last_look
    if look is None:
        return [], 0
    ordered = ranked(look.trainers)
    rows = [_training(trainer, known.get(trainer.id), standing) for trainer in ordered[:MAX_ROWS]]
    return rows, look.trainers_left_out + len(ordered) - len(rows)


def ranked(trainers: Iterable[TrainerStatus]) -> list[TrainerStatus]:
    """The largest first, then those that get none for a reason of their own, then those that wait."""

    def rank(trainer: TrainerStatus) -> tuple[int, int, bool, str]:
        is_odd = bool(trainer.note or trainer.fault)
        return -len(expand_nodes(trainer.lent)), -len(expand_nodes(trainer.asked)), not is_odd, trainer.id

    return sorted(trainers, key=rank)


def _training(trainer: TrainerStatus, known: KnownTrainer | None, standing: Standing) -> TrainingRow:
    good = tag_in(known.tag) if known else None
    nodes, asked = len(expand_nodes(trainer.lent)), len(expand_nodes(trainer.asked))
    return TrainingRow(
        id=trainer.id,
        name=good.name if good else "",
        owner=trainer.owner,
        nodes=nodes,
        asked=asked,
        wants=_wants(good) if good else "",
        samples=trainer.samples_done,
        target=good.target_samples if good else None,
        evictions=trainer.ends.get("preempted", 0),
        state_text=state_text(trainer, nodes, standing),
        curve=draw_curve(*curve_points(known, good)),
    )


def _wants(tag: Tag) -> str:
    if tag.max_nodes is None:
        return f"{tag.min_nodes} or more"
    return str(tag.min_nodes) if tag.min_nodes == tag.max_nodes else f"{tag.min_nodes}–{tag.max_nodes}"


def state_text(trainer: TrainerStatus, nodes: int, standing: Standing) -> str:
    """The state of a training in a word or a sentence; of a look that is past, in the past."""
    if trouble := standing.trouble_of(trainer):
        return trouble
    if nodes:
        return "runs" if standing.answers else "ran then"
    return standing.waiting_text(trainer)


def curve_points(known: KnownTrainer | None, tag: Tag | None) -> tuple[Curve, bool]:
    """Nodes and samples per second, a few of many; and whether its owner only claims them."""
    seen = tuple(mean_rates(known.observations).items()) if known else ()
    claimed = tag.curve if tag else ()
    points = [(nodes, rate) for nodes, rate in seen or claimed if nodes > 0 and rate > 0]
    step = max(1, -(-len(points) // _MAX_POINTS))
    return (*islice(points, 0, max(len(points) - 1, 0), step), *points[-1:]), not seen


def draw_curve(points: Curve, is_claim: bool) -> CurvePicture | None:
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
