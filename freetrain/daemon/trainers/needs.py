"""Facts that the chosen policy has to know and the tags of trainings in Slurm's queue do not give. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from freetrain.config import Config
from freetrain.core.trainer import Servers, Trainer
from freetrain.policies.needs import GRADIENTS, Need, say_missing
from freetrain.policies.registry import Stage, find_entry
from freetrain.slurm.submissions import Submission
from freetrain.slurm.tags import Tag


def needs_of(config: Config, policy: str = "") -> tuple[Need, ...]:
    """Facts that a policy, that of the settings unless another is named, has to know of trainings."""
    entry = find_entry(Stage.POLICY, policy or config.decide.policy_with_options)
    reserves = config.links.node_gbit or config.links.uplink_gbit
    return tuple(need for need in (entry.needs if entry else ()) if reserves or need is not GRADIENTS)


def say_missing_in_queue(needs: Iterable[Need], submissions: Iterable[Submission]) -> Iterator[str]:
    """Sentences on how many of the trainings that are not over lack what, and what is assumed of them."""
    tags = ((submission.id, submission.good_tag) for submission in submissions if not submission.is_over)
    return say_missing(tuple(needs), [_as_described(id_, tag) for id_, tag in tags if tag is not None])


def lacks(needs: Iterable[Need], tag: Tag) -> str:
    """Clause on the facts that a training with this tag does not give; empty: it lacks none."""
    described = _as_described("", tag)
    lacking = [need.lack for need in needs if need.is_lacked_by is not None and need.is_lacked_by(described)]
    return f"names {' and '.join(lacking)}" if lacking else ""


def _as_described(id_: str, tag: Tag) -> Trainer:
    """A trainer with no more than what the tag says of what policies need."""
    return Trainer(
        id_ or "training",
        ((1, 1.0),),
        target_samples=tag.target_samples,
        independent=tag.is_filler,
        servers=Servers(tag.servers, tag.step_s_by_size) if tag.servers else None,
        bytes_per_sample=tag.bytes_per_sample,
    )
