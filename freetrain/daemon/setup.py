"""Launcher and switches that the configuration asks for."""

from __future__ import annotations

import logging

from freetrain.config import Config
from freetrain.core.topology import FLAT, Topology
from freetrain.slurm import queries
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.launcher import Launcher
from freetrain.slurm.parsing import parse_topology
from freetrain.slurm.steering import Steering
from freetrain.slurm.submitting import Submitting, act_as, pattern_reader

log = logging.getLogger(__name__)


def launcher_of(config: Config, gateway: Gateway) -> Launcher:
    """The launcher that the site wants."""
    if config.lend.launcher == "steer":
        return Steering()
    return Submitting(config.slurm.partition, pattern_reader(gateway), act_as)


def switches_of(config: Config, gateway: Gateway) -> Topology:
    """The switches that Slurm knows now; none where the site does not want nodes to be placed by them.

    Raises:
        SlurmError: Slurm does not say which these are.
    """
    if config.decide.place == "first" and not config.links.are_known:
        return FLAT
    topology, rejected = parse_topology(gateway.perform(queries.ASK_TOPOLOGY))
    for line in rejected:
        log.warning("a line of Slurm's topology was not understood: %s", line)
    return topology
