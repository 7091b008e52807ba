"""The trainings: size, progress, and what was seen of their throughput. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from freetrain.client.documents import OwnJob, job_entry
from freetrain.client.trainings import ListedTraining, state_word
from freetrain.core.known_trainer import KnownTrainer
from freetrain.core.throughput import Curve, mean_rates
from freetrain.daemon.reports.standing import Standing
from freetrain.daemon.reports.status import TrainerStatus
from freetrain.daemon.trainers.needs import lacks
from freetrain.lending.training_verdicts import what_helps
from freetrain.policies.needs import Need
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
    """A row of the table: what the API says of a training, and a picture of its curve, if that is known."""

    own: OwnJob
    curve: CurvePicture | None

    @property
    def wants(self) -> str:
        """How many nodes it asks for; empty: unknown."""
        least, most = self.own.job.min_nodes, self.own.job.max_nodes
        if least is None:
            return ""
        if most is None:
            return f"{least} or more"
        return str(least) if least == most else f"{least}–{most}"


def list_trainings(standing: Standing, known: Mapping[str, KnownTrainer]) -> tuple[list[TrainingRow], int]:
    """The trainings that the last look showed, and how many more there are."""
    look = standing.last_look
    if look is None:
        return [], 0
    shown = ranked(look.trainers)[:MAX_ROWS]
    jobs = [own_job(trainer, known.get(trainer.id), standing) for trainer in shown]
    rows = [TrainingRow(own, draw_curve(own.curve, own.curve_is_claim)) for own in jobs]
    return rows, look.trainers_left_out + len(look.trainers) - len(rows)


def ranked(trainers: Iterable[TrainerStatus]) -> list[TrainerStatus]:
    """The largest first, then those that get none for a reason of their own, then those that wait."""

    def rank(trainer: TrainerStatus) -> tuple[int, int, bool, str]:
        is_odd = bool(trainer.note or trainer.fault)
        return -len(expand_nodes(trainer.lent)), -len(expand_nodes(trainer.asked)), not is_odd, trainer.id

    return sorted(trainers, key=rank)


def own_job(
    trainer: TrainerStatus, known: KnownTrainer | None, standing: Standing, needs: Sequence[Need] = ()
) -> OwnJob:
    """A training with what would give it more nodes."""
    tag = tag_in(known.tag) if known else None
    points, is_claim = curve_points(known, tag)
    return OwnJob(
        job=job_entry(listed(trainer, tag, standing, needs)),
        why=trainer.why,
        what_helps=what_helps(trainer.verdict, trainer.id),
        target_samples=tag.target_samples if tag else None,
        curve=points,
        curve_is_claim=is_claim,
    )


def listed(trainer: TrainerStatus, tag: Tag | None, standing: Standing, needs: Sequence[Need]) -> ListedTraining:
    """A training as ``freetrain jobs`` lists it, from what is published; without Slurm its tasks are not known."""
    nodes, asked = expand_nodes(trainer.lent), expand_nodes(trainer.asked)
    return ListedTraining(
        id=trainer.id,
        name=tag.name if tag else "",
        user=trainer.owner,
        account=trainer.account,
        word=state_word(trainer.state, nodes, asked),
        nodes=sorted(nodes),
        asked_nodes=sorted(asked),
        min_nodes=tag.min_nodes if tag else None,
        max_nodes=tag.max_nodes if tag else None,
        task_nodes=tag.task_nodes if tag else None,
        samples=trainer.samples_done,
        ends=dict(trainer.ends),
        costs=dict(trainer.costs),
        speeds=dict(trainer.speeds),
        fault=trainer.fault,
        lacks=lacks(needs, tag) if tag else "",
        state=_state_text(trainer, len(nodes), standing),
    )


def _state_text(trainer: TrainerStatus, nodes: int, standing: Standing) -> str:
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
