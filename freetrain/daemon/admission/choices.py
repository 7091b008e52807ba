"""What settings name, looked for when they are read: a policy, an objective, nodes."""

from __future__ import annotations

import logging
from collections.abc import Callable

from freetrain.config import Config, ConfigError
from freetrain.core.cluster import Snapshot
from freetrain.core.objectives import worth_per_s
from freetrain.core.trainer import Trainer
from freetrain.errors import InputError
from freetrain.policies import find_policy
from freetrain.slurm.parsing import expand_nodes, fold_nodes

log = logging.getLogger(__name__)

_SMALL = Trainer("trial", ((1, 1.0), (2, 1.9), (4, 3.5)), max_nodes=4)


def check_choices(config: Config) -> None:
    """All that the settings name is there; a site's own objective gives values for a small trainer.

    Raises:
        ConfigError: something is not; the sentence says which setting.
    """
    _resolve("decide.policy", lambda: find_policy(config.decide.policy))
    worth_per_s.cache_clear()  # the objective may have been changed since
    _resolve("decide.objective", lambda: worth_per_s(_SMALL, config.decide.objective))


def warn_of_unknown_nodes(config: Config, snapshot: Snapshot) -> None:
    """Name the nodes of ``lend.exclude_nodes`` that Slurm does not have.

    This is not an error: a node that has been taken out of Slurm must not keep the daemon from starting.
    """
    unknown = expand_nodes(config.lend.exclude_nodes) - snapshot.node.keys()
    if unknown:
        log.warning("lend.exclude_nodes names %s, which Slurm does not have", fold_nodes(unknown))


def _resolve(setting: str, find: Callable[[], object]) -> None:
    try:
        find()
    except InputError as error:
        raise ConfigError(f"{setting}: {error.what}", error.hint) from error
