"""The settings: one model, from which come the checks, the example file, the reference page and the man page."""

from __future__ import annotations

from freetrain.config.sections.deciding import Decide, Pace
from freetrain.config.sections.harm import Harm
from freetrain.config.sections.lend import Lend
from freetrain.config.sections.links import Links
from freetrain.config.sections.prices import Prices
from freetrain.config.sections.section import Section
from freetrain.config.sections.slurm import Slurm
from freetrain.config.sections.state import State
from freetrain.config.sections.telling import Log, Metrics, Notify


class Config(Section):
    """Everything that can be set."""

    slurm: Slurm = Slurm()
    lend: Lend = Lend()
    decide: Decide = Decide()
    links: Links = Links()
    pace: Pace = Pace()
    harm: Harm = Harm()
    state: State = State()
    metrics: Metrics = Metrics()
    notify: Notify = Notify()
    prices: Prices = Prices()
    log: Log = Log()


NEEDS_RESTART = frozenset({"slurm", "state", "metrics", "lend.launcher", "lend.share", "pace.poll", "log.format"})
"""Sections and settings that a running daemon cannot change."""
