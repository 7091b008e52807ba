"""Settings that can be read and make little sense: by themselves, together, or on this Slurm. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from freetrain.config import Config, ConfigError
from freetrain.config.settings import Setting, setting_of, value_of
from freetrain.config.values import parse_networks
from freetrain.core.amounts import Amount
from freetrain.core.cluster import Snapshot
from freetrain.core.node import Nodes
from freetrain.durations import show_duration
from freetrain.slurm.finding import Finding, error, error_if, warning
from freetrain.slurm.parsing import expand_nodes, fold_nodes, parse_amount

_LEAST_MARGIN_S = 60.0
_MINUTE_S, _HOUR_S, _DAY_S, _YEAR_S = 60.0, 3600.0, 86400.0, 365 * 86400.0


@dataclass(frozen=True, slots=True)
class Usual:
    """Values of a setting that make sense.

    Attributes:
        least: the smallest.
        most: the largest.
        if_less: what a smaller one leads to.
        if_more: what a larger one leads to.
        unsafe_below: whether the site's jobs may be harmed by a smaller one.
        unsafe_above: whether they may be by a larger one.
    """

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
    "notify.every": Usual(_MINUTE_S, 30 * _DAY_S, "one cause sends many messages", "nobody is told in time"),
    "notify.timeout": Usual(1, 10 * _MINUTE_S, "commands are ended before they are done", "commands pile up"),
}  # fmt: skip
"""Durations, and counts that are judged in the same way; values beyond are allowed, with a warning."""


def find_contradictions(config: Config, nodes: Nodes) -> Iterator[Finding]:
    """What is as somebody hardly means it."""
    yield from _of_nodes(config, nodes)
    yield from _unusual_values(config)
    yield from _of_times(config)
    yield from _of_metrics(config)
    for path in ("state.directory", "state.stop_file"):
        section, name = path.split(".")
        value = getattr(getattr(config, section), name)
        if not PurePath(value).is_absolute():
            yield error(
                f"{path} depends on where the daemon is started from (it says {value!r}).", setting_of(path).lines
            )
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
        what = "lend.exclude_nodes names every node of the partition."
        yield warning(what, setting_of("lend.exclude_nodes").lines)
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
        is_less = value < usual.least
        bound = (
            f"less than {_shown(setting, usual.least)}" if is_less else f"more than {_shown(setting, usual.most)}"
        )
        yield error_if(
            usual.unsafe_below if is_less else usual.unsafe_above,
            f"{path} is {_shown(setting, value)}, {bound}: {usual.if_less if is_less else usual.if_more}.",
            setting.lines,
        )


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
    """Settings that do not fit the partition and its nodes."""
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
