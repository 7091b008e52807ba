"""Names in the settings that lie in Slurm: those that it does not have."""

from __future__ import annotations

import difflib
import pwd
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from freetrain.config import Config, setting_of
from freetrain.core.cluster import Snapshot
from freetrain.core.node import Nodes
from freetrain.slurm import queries
from freetrain.slurm.errors import SlurmRefusedError
from freetrain.slurm.finding import Finding, error_if, warning
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.parsing import expand_nodes, fold_nodes
from freetrain.slurm.site.facts import Site, parse_names


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
    return error_if(
        bool(meant),
        f"lend.exclude_nodes names {fold_nodes(unknown)}, which Slurm does not have"
        + (f"; it has {fold_nodes(meant)}." if meant else "."),
        setting_of("lend.exclude_nodes").set_to(fold_nodes(left) if left else ""),
    )


def _as_range(name: str) -> Nodes:
    """The nodes of ``c1-4`` if it is read as ``c[1-4]``."""
    span = re.fullmatch(r"(.*?\D)(\d+)-(\d+)", name)
    try:
        return expand_nodes(f"{span[1]}[{span[2]}-{span[3]}]") if span else Nodes()
    except ValueError:
        return Nodes()


def unknown_people(config: Config, site: Site, gateway: Gateway) -> Iterator[Finding]:
    """Users or accounts of ``lend.shares`` that nobody knows.

    Raises:
        SlurmError: accounting does not answer.
    """
    shares = config.lend.shares
    if not shares or config.lend.fair_share == "off":
        return
    kind = config.lend.fair_share
    known = _people(kind, shares, site, gateway)
    for name in sorted(shares.keys() - known) if known is not None else ():
        near = difflib.get_close_matches(name, known or (), 1)
        mended = {name: near[0]} if near else {}
        left = {mended.get(each, each): weight for each, weight in shares.items() if each != name or near}
        what = f"lend.shares names {kind} {name}, which Slurm does not know."
        yield warning(what, setting_of("lend.shares").set_to(left))


def _people(kind: str, wanted: Iterable[str], site: Site, gateway: Gateway) -> frozenset[str] | None:
    """Those there are; None: nobody can say."""
    if not site.settings.has_accounting:
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
