"""What may be shown where the site hides the jobs of others from its users: everything but names. Pure."""

from __future__ import annotations

from dataclasses import replace

from freetrain.daemon.reports.standing import Standing
from freetrain.daemon.reports.status import LookStatus, NodeGroup, TrainerStatus
from freetrain.web.database import Past
from freetrain.web.node_reasons import without_ids

_HIDDEN = "(hidden)"


def nameless_standing(standing: Standing) -> Standing:
    """The same without a name or an id of a training, a user or a job."""
    status = standing.status
    if status is None or status.look is None:
        return standing
    return replace(standing, status=replace(status, look=_nameless_look(status.look)))


def nameless_past(past: Past) -> Past:
    """What was lent and what delays there were; decisions and deeds would name trainings."""
    return Past(
        stays=tuple(stay._replace(trainer="") for stay in past.stays),
        harms=tuple(replace(harm, job="", fragments=()) for harm in past.harms),
        why_not=past.why_not,
    )


def _nameless_look(look: LookStatus) -> LookStatus:
    return replace(
        look,
        rejected_examples=(_HIDDEN,) * bool(look.rejected_examples),
        nodes=tuple(_nameless_group(group) for group in look.nodes),
        trainers=tuple(TrainerStatus("", "", one.state, lent=one.lent, asked=one.asked) for one in look.trainers),
    )


def _nameless_group(group: NodeGroup) -> NodeGroup:
    return replace(group, trainer="", why=without_ids(group.why))
