"""Settings that can be read and make little sense: alone, together, or on this Slurm; names that nobody has."""

from __future__ import annotations

import difflib
import ipaddress
import pwd
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath

from freetrain.config import Config, ConfigError
from freetrain.config.settings import Setting, setting_of, settings, value_of
from freetrain.config.values import parse_networks
from freetrain.core.aim import no_watts, read_aim
from freetrain.core.amounts import Amount
from freetrain.core.cluster import Snapshot
from freetrain.core.node import Nodes
from freetrain.core.objectives import worth_per_s
from freetrain.core.trainer import Trainer
from freetrain.durations import show_duration
from freetrain.errors import InputError
from freetrain.policies import find_finisher, find_placer, find_policy
from freetrain.policies.aiming import unheeded
from freetrain.policies.gadget.links import CanReserve
from freetrain.policies.registry import renamed
from freetrain.slurm import queries
from freetrain.slurm.errors import SlurmRefusedError
from freetrain.slurm.finding import Finding, error, error_if, warning
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.parsing import expand_nodes, fold_nodes, parse_amount
from freetrain.slurm.site.facts import Site, parse_names

_LEAST_MARGIN_S = 60.0
_MINUTE_S, _HOUR_S, _DAY_S, _YEAR_S = 60.0, 3600.0, 86400.0, 365 * 86400.0


@dataclass(frozen=True, slots=True)
class Usual:
    """Values of a setting that make sense, what others lead to, and whether these may harm the site's jobs."""

    least: float
    most: float
    if_less: str
    if_more: str
    unsafe_below: bool = False
    unsafe_above: bool = False


_SELDOM = "what is expected so far ahead seldom comes true"
_NEVER_LENT = "nodes are hardly ever lent"
USUAL = {
    "slurm.timeout": Usual(1, 5 * _MINUTE_S, "no question is answered so fast", "systemd ends the daemon before"),
    "lend.next_in_line": Usual(0, _DAY_S, "", f"{_SELDOM}, and nodes stay idle for it"),
    "lend.idle_for": Usual(0, 7 * _DAY_S, "", _NEVER_LENT),
    "lend.shortest_hole": Usual(1, _DAY_S, "fragments end before they have begun", _NEVER_LENT),
    "lend.longest_fragment": Usual(_MINUTE_S, 30 * _YEAR_S, "fragments end before they have trained", ""),
    "lend.margin": Usual(0, _HOUR_S, "", "so much of each hole stays idle"),
    "lend.half_life": Usual(_HOUR_S, 2 * _YEAR_S, "", "past use tilts the shares for years"),
    "decide.horizon": Usual(0, 30 * _DAY_S, "", _SELDOM),
    "decide.gadget.patience": Usual(0, 30 * _DAY_S, "", "trainings wait so long for their turn"),
    "decide.smd.patience": Usual(0, 30 * _DAY_S, "", "trainings wait so long for their turn"),
    "pace.poll": Usual(1, 10 * _MINUTE_S, "Slurm is asked all the time", "holes are seen too late"),
    "pace.cool_down": Usual(0, _DAY_S, "", _NEVER_LENT),
    "pace.back_off": Usual(1, _DAY_S, "a training that fails starts again at once", "a single failure costs days"),
    "pace.failures_to_pause": Usual(1, 100, "", "a training that cannot run takes nodes again and again"),
    "harm.limit": Usual(
        1, _HOUR_S, "any delay stops lending",
        "the site's jobs may wait so long for fragments before lending stops", unsafe_above=True,
    ),
    "harm.within": Usual(
        5 * _MINUTE_S, 30 * _DAY_S, "too few delays fall into so short a time for lending ever to stop",
        "delays of long ago stop lending", unsafe_below=True,
    ),
    "harm.allowed": Usual(0, 1000, "", "whatever lending costs the site's jobs, it goes on", unsafe_above=True),
    "harm.pause": Usual(_MINUTE_S, 30 * _YEAR_S, "whatever lending costs the site's jobs, it goes on", ""),
    "state.keep": Usual(
        _DAY_S, 30 * _YEAR_S, "decisions, orders and delays are forgotten before anybody can look at them", ""
    ),
    "freeze.within": Usual(1, _HOUR_S, "no program is saved so fast", "Slurm has ended the task before"),
    "notify.every": Usual(_MINUTE_S, 30 * _DAY_S, "one cause sends many messages", "nobody hears of it in time"),
    "notify.timeout": Usual(1, 10 * _MINUTE_S, "commands are ended before they are done", "commands pile up"),
}  # fmt: skip
"""Durations, and counts that are judged in the same way; values beyond are allowed, with a warning."""


def find_contradictions(config: Config, nodes: Nodes) -> Iterator[Finding]:
    """Findings on settings that contradict each other, are unusual, or have no effect."""
    yield from _of_nodes(config, nodes)
    yield from _unusual_values(config)
    yield from _of_times(config)
    yield from _of_metrics(config)
    for setting in settings():
        value = str(value_of(config, setting))
        if setting.is_path and value != setting.default and not PurePath(value).is_absolute():
            what = f"{setting.path} depends on where the daemon is started from (it says {value!r})."
            yield error(what, setting.lines)
    if config.lend.in_parts and config.slurm.backend == "pyslurm":
        yield warning(
            "pyslurm does not tell how many GPUs of a node are used, which lend.share needs: Slurm's commands are "
            "used instead.",
            setting_of("slurm.backend").lines,
        )
    if config.lend.keep and not config.lend.in_parts:
        yield warning('lend.keep is not heeded with share = "whole".', setting_of("lend.keep").lines)
    if config.lend.shares and config.lend.fair_share == "off":
        yield warning('lend.shares is not heeded with fair_share = "off".', setting_of("lend.fair_share").lines)


def check_contradictions(config: Config) -> None:
    """Refuse to lend with values that let the site's jobs wait; all else that is unusual is for ``config check``.

    Raises:
        ConfigError: they are.
    """
    if config.lend.mode != "act":
        return
    for finding in _unusual_values(config):
        if finding.is_unsafe:
            raise ConfigError(finding.what, f"Write: {' '.join(finding.mend.splitlines())}", finding.mend)


def _of_nodes(config: Config, nodes: Nodes) -> Iterator[Finding]:
    lend = config.lend
    left = nodes - expand_nodes(lend.exclude_nodes)
    if nodes and not left:
        lines = setting_of("lend.exclude_nodes").lines
        yield warning("lend.exclude_nodes names every node of the partition.", lines)
    elif nodes and lend.reserve_nodes >= len(left):
        yield warning(
            f"lend.reserve_nodes leaves nothing to lend: {len(left)} nodes may be lent, of which "
            f"{lend.reserve_nodes} are left alone.",
            setting_of("lend.reserve_nodes").set_to(len(left) // 4),
        )


def _of_times(config: Config) -> Iterator[Finding]:
    lend, pace, harm = config.lend, config.pace, config.harm
    if lend.longest_fragment < lend.shortest_hole:
        yield warning(
            "lend.longest_fragment is shorter than lend.shortest_hole: fragments end long before their holes.",
            setting_of("lend.longest_fragment").lines,
        )
    if lend.margin >= lend.shortest_hole:
        yield warning(
            "lend.margin is no shorter than lend.shortest_hole: nothing is left of the shortest holes.",
            setting_of("lend.shortest_hole").set_to(lend.margin + _LEAST_MARGIN_S),
        )
    if pace.poll > max(harm.limit, 30.0):
        yield warning(
            f"The site's jobs may wait {pace.poll:.0f} s for the daemon to look (pace.poll), over harm.limit.",
            setting_of("pace.poll").lines,
        )


def _unusual_values(config: Config) -> Iterator[Finding]:
    for path, usual in USUAL.items():
        setting = setting_of(path)
        value = value_of(config, setting)
        assert isinstance(value, float | int)
        if usual.least <= value <= usual.most:
            continue
        if value < usual.least:
            is_unsafe, bound, why = usual.unsafe_below, f"less than {_shown(setting, usual.least)}", usual.if_less
        else:
            is_unsafe, bound, why = usual.unsafe_above, f"more than {_shown(setting, usual.most)}", usual.if_more
        yield error_if(is_unsafe, f"{path} is {_shown(setting, value)}, {bound}: {why}.", setting.lines)


def _of_metrics(config: Config) -> Iterator[Finding]:
    listen, allow = config.metrics.listen, parse_networks(config.metrics.allow).each
    if not listen:
        return
    host, _, port = listen.rpartition(":")
    if not allow:
        yield warning("metrics.allow is empty: nobody is answered.", setting_of("metrics.allow").lines)
    elif not _is_loopback(host) and all(network.is_loopback for network in allow):
        yield warning(
            f"metrics.listen is open to other machines ({host}), and metrics.allow answers this one alone: name "
            "there who may ask, or listen on this machine alone.",
            setting_of("metrics.listen").set_to(f"127.0.0.1:{port}"),
        )
    elif _is_loopback(host) and not any(network.is_loopback for network in allow):
        yield warning(
            f"metrics.allow answers other machines alone, which do not reach metrics.listen ({host}).",
            setting_of("metrics.allow").lines,
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def find_misfits(config: Config, snapshot: Snapshot) -> Iterator[Finding]:
    """Findings on settings that do not fit the partition and its nodes."""
    lend, queue = config.lend, config.slurm.queue
    if queue.missing(snapshot.partitions):
        return
    partition = queue.among(snapshot.partitions)
    longest = setting_of("lend.longest_fragment")
    if partition.max_time_s < lend.longest_fragment != longest.default:
        yield warning(
            f"lend.longest_fragment is longer than jobs in {queue.partition} may run (MaxTime="
            f"{_shown(longest, partition.max_time_s)}), which counts.",
            longest.set_to(partition.max_time_s),
        )
    keep = parse_amount(lend.keep)
    full = [
        name
        for name in sorted(partition.nodes & snapshot.node.keys())
        if lend.in_parts and _leaves_nothing(snapshot.node[name].total, keep, lend.share == "gpus")
    ]
    if full:
        yield warning(
            f"lend.keep is as much as there is, or more: nothing is left to lend of {fold_nodes(full)}.",
            setting_of("lend.keep").lines,
        )


def _leaves_nothing(total: Amount, keep: Amount, gpus_only: bool) -> bool:
    left = total.without(keep)
    pairs = [(total.cpus, left.cpus), (total.memory_mb, left.memory_mb)] + [(total.gpus, left.gpus)] * gpus_only
    return any(there and not rest for there, rest in pairs)


def _shown(setting: Setting, value: float) -> str:
    return show_duration(value) if setting.is_duration else f"{value:g}"


_SMALL = Trainer("trial", ((1, 1.0), (2, 1.9), (4, 3.5)), max_nodes=4)


def check_choices(config: Config) -> None:
    """Check that all that the settings name is there; a site's own objective gives values for a small trainer.

    Raises:
        ConfigError: something is not; the sentence says which setting.
    """
    for mistake in wrong_choices(config).values():
        raise mistake


def wrong_choices(config: Config) -> Mapping[str, ConfigError]:
    """Setting → what is wrong with it."""
    # A site's own objective may have been changed since it was imported.
    worth_per_s.cache_clear()
    wrong = {
        "decide.policy": _why_not(lambda: find_policy(config.decide.policy_with_options)),
        "decide.place": _why_not(lambda: find_placer(config.decide.place)),
        "decide.finish": _why_not(lambda: find_finisher(config.decide.finish)),
        "decide.objective": _why_not(lambda: _check_objective(config)),
    }
    return {
        setting: ConfigError(f"{setting}: {error.what}", error.hint) for setting, error in wrong.items() if error
    }


def without_effect(config: Config) -> Mapping[str, str]:
    """Setting → a sentence on what of it has no effect; settings that have one, or name nothing, are left out."""
    decide, links = config.decide, config.links
    not_heeded = not_reserved = not_divided = ""
    with suppress(InputError):
        policy = find_policy(decide.policy_with_options)
        if not isinstance(policy, CanReserve):
            not_reserved = f"links: the policy {decide.policy} reserves no bandwidth; gadget does."
        not_heeded = unheeded(policy, decide.policy_with_options, decide.objective)
    if decide.finish != "as-asked" and config.lend.share == "whole":
        whole = 'as lend.share = "whole" lends whole nodes'
        not_divided = f"decide.finish: {decide.finish} has nothing to divide, {whole}."
    sentences = {
        "decide.policy": renamed(decide.policy) or not_heeded,
        "decide.finish": not_divided,
        "links.node_gbit": not_reserved if links.node_gbit else "",
        "links.uplink_gbit": not_reserved if links.uplink_gbit else "",
    }
    return {setting: sentence for setting, sentence in sentences.items() if sentence}


def _check_objective(config: Config) -> None:
    name = config.decide.objective
    worth_per_s(_SMALL, name)
    aim = read_aim(name)
    if aim.deadlines and config.lend.fair_share == "off":
        raise InputError(
            f'The objective {name!r} counts deadlines, and with lend.fair_share = "off" all users compete in one '
            "decision: a user who names a deadline would take the others' nodes.",
            'Set lend.fair_share = "user" or "account", or leave the deadlines out.',
        )
    if aim.energy and not config.prices.draw.is_known:
        raise no_watts(name)


def _why_not(find: Callable[[], object]) -> InputError | None:
    try:
        find()
    except InputError as error:
        return error
    return None


def unknown_nodes(config: Config, snapshot: Snapshot) -> Finding | None:
    """Finding on nodes of ``lend.exclude_nodes`` that Slurm does not have; None: it has all."""
    # A node that has been taken out of Slurm must not keep the daemon from starting. A range without its brackets,
    # as ``c1-4``, must: the nodes that it means would be lent.
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
    """Findings on users or accounts of ``lend.shares`` that do not exist, as far as is known."""
    shares = config.lend.shares
    if not shares or config.lend.fair_share == "off":
        return
    kind = config.lend.fair_share
    known = _people(kind, shares, site, gateway)
    for name in sorted(shares.keys() - known) if known is not None else ():
        near = difflib.get_close_matches(name, known or (), 1)
        mended = {name: near[0]} if near else {}
        left = {mended.get(user, user): weight for user, weight in shares.items() if user != name or near}
        what = f"lend.shares names {kind} {name}, which Slurm does not know."
        yield warning(what, setting_of("lend.shares").set_to(left))


def _people(kind: str, wanted: Iterable[str], site: Site, gateway: Gateway) -> frozenset[str] | None:
    """Names of the users or accounts that exist; None: unknown."""
    if not site.settings.has_accounting:
        return frozenset(filter(_has_login, wanted)) if kind == "user" else None
    question = queries.ASK_USERS if kind == "user" else queries.ASK_ACCOUNTS
    # PrivateData hides users and accounts from some, who can say nothing about them.
    with suppress(SlurmRefusedError):
        return parse_names(gateway.perform(question))
    return None


def _has_login(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
