"""Names in the settings that lie in Slurm: those that it does not have."""

from __future__ import annotations

import difflib
import pwd
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from freetrain.config import Config, find_setting
from freetrain.core.cluster import Snapshot
from freetrain.core.node import Nodes, Partition
from freetrain.durations import show_duration
from freetrain.slurm import queries
from freetrain.slurm.errors import SlurmRefusedError
from freetrain.slurm.finding import Finding
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.layout_facts import PartitionRules, SlurmLayout
from freetrain.slurm.parsing import expand_nodes, fold_nodes
from freetrain.slurm.terms_facts import parse_names

_A_DAY_S = 86400.0


def missing_partition(config: Config, layout: SlurmLayout) -> Finding | None:
    """``slurm.partition``, if Slurm has no such one: another one's name, or the line that makes it."""
    name = config.slurm.queue.missing(layout.partitions)
    if not name:
        return None
    near = _near(name, layout) or (_usual(layout) if config.slurm.qos else None)
    return Finding(
        f"Slurm has no partition {name}; it has {', '.join(sorted(layout.partitions)) or 'none'}.",
        f'[slurm]\npartition = "{near}"' if near else _line_of(_proposed_partition(name, layout)),
    )


def with_proposed_partition(config: Config, layout: SlurmLayout) -> SlurmLayout:
    """The layout with the partition that the line would make; as it is where only the name is wrong."""
    name = config.slurm.queue.missing(layout.partitions)
    if not name or _near(name, layout) or config.slurm.qos:
        return layout
    proposed = PartitionRules(_proposed_partition(name, layout))
    return replace(layout, partitions={**layout.partitions, name: proposed})


def _near(name: str, layout: SlurmLayout) -> str | None:
    return next(iter(difflib.get_close_matches(name, layout.partitions, 1)), None)


def _usual(layout: SlurmLayout) -> str | None:
    """The default partition: where fragments have a QOS of their own they run where the site's jobs do."""
    return next((name for name, one in layout.partitions.items() if one.is_default), None)


def _proposed_partition(name: str, layout: SlurmLayout) -> Partition:
    """One for fragments, of the default partition's nodes, below all."""
    rules = list(layout.partitions.values())
    lowest = min((one.partition.priority_tier for one in rules), default=1)
    of_default = [one.partition.nodes for one in rules if one.is_default] or [one.partition.nodes for one in rules]
    nodes = frozenset[str]().union(*of_default)
    return Partition(name, nodes, True, max(0, lowest - 1), "REQUEUE", max_time_s=_A_DAY_S)


def _line_of(proposed: Partition) -> str:
    return (
        f"PartitionName={proposed.name} Nodes={fold_nodes(proposed.nodes) or '<all>'} "
        f"PriorityTier={proposed.priority_tier} PreemptMode={proposed.preempt_mode} GraceTime=0 "
        f"MaxTime={show_duration(proposed.max_time_s)} State=UP"
    )


def unknown_nodes(config: Config, snapshot: Snapshot) -> Finding | None:
    """Nodes of ``lend.exclude_nodes`` that Slurm does not have.

    This is not an error, as a node that has been taken out of Slurm must not keep the daemon from starting; but a
    range without its brackets, as ``c1-4``, is one: the nodes that it means would be lent.
    """
    named = expand_nodes(config.lend.exclude_nodes)
    unknown = named - snapshot.node.keys()
    if not unknown:
        return None
    meant = Nodes().union(*map(_as_range, unknown)) & snapshot.node.keys()
    left = (named - unknown) | meant
    return Finding(
        f"lend.exclude_nodes names {fold_nodes(unknown)}, which Slurm does not have"
        + (f"; it has {fold_nodes(meant)}." if meant else "."),
        f'[lend]\nexclude_nodes = "{fold_nodes(left) if left else ""}"',
        bool(meant),
    )


def _as_range(name: str) -> Nodes:
    """The nodes of ``c1-4`` if it is read as ``c[1-4]``."""
    span = re.fullmatch(r"(.*?\D)(\d+)-(\d+)", name)
    try:
        return expand_nodes(f"{span[1]}[{span[2]}-{span[3]}]") if span else Nodes()
    except ValueError:
        return Nodes()


def unknown_people(config: Config, layout: SlurmLayout, gateway: Gateway) -> Iterator[Finding]:
    """Users or accounts of ``lend.shares`` that nobody knows.

    Raises:
        SlurmError: accounting does not answer.
    """
    shares = config.lend.shares
    if not shares or config.lend.fair_share == "off":
        return
    kind = config.lend.fair_share
    known = _people(kind, shares, layout, gateway)
    for name in sorted(shares.keys() - known) if known is not None else ():
        near = difflib.get_close_matches(name, known or (), 1)
        mended = {name: near[0]} if near else {}
        left = {mended.get(each, each): weight for each, weight in shares.items() if each != name or near}
        setting = find_setting("lend.shares")
        assert setting is not None
        what = f"lend.shares names {kind} {name}, whom Slurm does not know."
        yield Finding(what, f"[lend]\nshares = {setting.show(left)}", False)


def _people(kind: str, wanted: Iterable[str], layout: SlurmLayout, gateway: Gateway) -> frozenset[str] | None:
    """Those there are; None: nobody can say."""
    if not layout.settings.has_accounting:
        return frozenset(filter(_has_login, wanted)) if kind == "user" else None
    question = queries.ask_users() if kind == "user" else queries.ask_accounts()
    with suppress(SlurmRefusedError):  # PrivateData hides them from some
        return parse_names(gateway.perform(question))
    return None


def _has_login(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
