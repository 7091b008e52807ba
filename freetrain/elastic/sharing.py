"""How the members of a new world come to have the same state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from freetrain.elastic.state import TrainingState, broadcast_state, part_random_streams
from freetrain.elastic.world import World


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one worker stands when a world begins.

    Attributes:
        has_state: whether it has been in a world that shared its state.
        stopped: whether it knows that the training was asked to end.
    """

    has_state: bool = False
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class Shared:
    """How it stands when all have the same state.

    Attributes:
        stopped: whether anybody knew that the training was asked to end.
        anew: whether nobody had any state: the training starts, or resumes from its last checkpoint.
    """

    stopped: bool
    anew: bool


def share_state(state: TrainingState, standing: Standing, world: World, resume: Callable[[], object]) -> Shared:
    """All go on from the one that is furthest, or from the last checkpoint if nobody remembers anything.

    Args:
        state: of this rank; that of the furthest afterwards.
        standing: of this rank.
        world: all of whose ranks call this.
        resume: loads the last checkpoint, if there is one.

    Raises:
        LostRankError: a rank was lost meanwhile.
    """
    rows = world.gather([int(standing.has_state), state.step, int(standing.stopped)])
    places = [row[:2] for row in rows]
    furthest = max(places)
    source = places.index(furthest)
    anew = furthest[0] == 0
    if anew and world.rank == 0:
        resume()
    if anew or any(place != furthest for place in places):
        broadcast_state(state, source, world)
        if world.rank != source:
            part_random_streams(world.rank)
    return Shared(any(row[2] for row in rows), anew)
