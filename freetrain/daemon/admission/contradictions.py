"""Settings that can be read and make little sense: by themselves, together, or on this Slurm. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from freetrain.config import Config, ConfigError
from freetrain.config.settings import Setting, find_setting, value_of
from freetrain.config.values import parse_networks
from freetrain.core.amounts import Amount
from freetrain.core.cluster import Snapshot
from freetrain.core.node import Nodes
from freetrain.durations import show_duration
from freetrain.slurm.finding import Finding
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
    "notify.every": Usual(_MINUTE_S, 30 * _DAY_S, "one cause sends many messages", "nobody is told in time"),
    "notify.timeout": Usual(1, 10 * _MINUTE_S, "commands are ended before they are done", "commands pile up"),
}  # fmt: skip
"""Durations, and counts that are judged in the same way; values beyond are allowed, with a warning."""


def find_contradictions(config: Config, nodes: Nodes) -> Iterator[Finding]:
    """What is as somebody hardly means it.

    Args:
        config: the settings.
        nodes: of freetrain's partition.
    """
    yield from _of_nodes(config, nodes)
    yield from _unusual_values(config)
    yield from _of_times(config)
    yield from _of_metrics(config)
    for path in ("state.directory", "state.stop_file"):
        section, name = path.split(".")
        value = getattr(getattr(config, section), name)
        if not PurePath(value).is_absolute():
            yield Finding(
                f"{path} depends on where the daemon is started from (it says {value!r}).", _default(path)
            )
    if config.lend.in_parts and config.slurm.backend == "pyslurm":
        yield Finding(
            "pyslurm does not tell how many GPUs of a node are used, which lend.share needs: Slurm's commands are "
            "used instead.",
            _default("slurm.backend"),
            False,
        )
    if config.lend.keep and not config.lend.in_parts:
        yield Finding('lend.keep is not heeded with share = "whole".', _default("lend.keep"), False)
    if config.lend.shares and config.lend.fair_share == "off":
        yield Finding('lend.shares is not heeded with fair_share = "off".', _default("lend.fair_share"), False)


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
        yield Finding(what, _default("lend.exclude_nodes"), False)
    elif nodes and lend.reserve_nodes >= len(left):
        yield Finding(
            f"lend.reserve_nodes leaves nothing to lend: {len(left)} nodes may be lent, of which "
            f"{lend.reserve_nodes} are left alone.",
            _line("lend.reserve_nodes", len(left) // 4),
            False,
        )


def _of_times(config: Config) -> Iterator[Finding]:
    lend, pace, harm = config.lend, config.pace, config.harm
    if lend.longest_fragment < lend.shortest_hole:
        yield Finding(
            "lend.longest_fragment is shorter than lend.shortest_hole: fragments end long before their holes.",
            _default("lend.longest_fragment"),
            False,
        )
    if lend.margin >= lend.shortest_hole:
        yield Finding(
            "lend.margin is no shorter than lend.shortest_hole: nothing is left of the shortest holes.",
            _line("lend.shortest_hole", lend.margin + _LEAST_MARGIN_S),
            False,
        )
    if pace.poll > max(harm.limit, 30.0):
        yield Finding(
            f"The site's jobs may wait {pace.poll:.0f} s for the daemon to look (pace.poll), over harm.limit.",
            _default("pace.poll"),
            False,
        )


def _unusual_values(config: Config) -> Iterator[Finding]:
    for path, usual in USUAL.items():
        setting = find_setting(path)
        assert setting is not None
        value = value_of(config, setting)
        assert isinstance(value, float | int)
        if usual.least <= value <= usual.most:
            continue
        is_less = value < usual.least
        bound = (
            f"less than {_shown(setting, usual.least)}" if is_less else f"more than {_shown(setting, usual.most)}"
        )
        yield Finding(
            f"{path} is {_shown(setting, value)}, {bound}: {usual.if_less if is_less else usual.if_more}.",
            _default(path),
            usual.unsafe_below if is_less else usual.unsafe_above,
        )


def _of_metrics(config: Config) -> Iterator[Finding]:
    listen, allow = config.metrics.listen, parse_networks(config.metrics.allow).each
    if not listen:
        return
    host, _, port = listen.rpartition(":")
    if not allow:
        yield Finding("metrics.allow is empty: nobody is answered.", _default("metrics.allow"), False)
    elif not _is_loopback(host) and all(network.is_loopback for network in allow):
        yield Finding(
            f"metrics.listen is open to other machines ({host}), and metrics.allow answers this one alone: name "
            "there who may ask, or listen on this machine alone.",
            _line("metrics.listen", f"127.0.0.1:{port}"),
            False,
        )
    elif _is_loopback(host) and not any(network.is_loopback for network in allow):
        yield Finding(
            f"metrics.allow answers other machines alone, which do not reach metrics.listen ({host}).",
            _default("metrics.allow"),
            False,
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
    longest = find_setting("lend.longest_fragment")
    assert longest is not None
    if partition.max_time_s < lend.longest_fragment != longest.default:
        yield Finding(
            f"lend.longest_fragment is longer than jobs in {queue.partition} may run (MaxTime="
            f"{_shown(longest, partition.max_time_s)}), which counts.",
            _line(longest.path, partition.max_time_s),
            False,
        )
    keep = parse_amount(lend.keep)
    full = [
        name
        for name in sorted(partition.nodes & snapshot.node.keys())
        if lend.in_parts and _leaves_nothing(snapshot.node[name].total, keep, lend.share == "gpus")
    ]
    if full:
        yield Finding(
            f"lend.keep is as much as there is, or more: nothing is left to lend of {fold_nodes(full)}.",
            _default("lend.keep"),
            False,
        )


def _leaves_nothing(total: Amount, keep: Amount, gpus_only: bool) -> bool:
    left = total.without(keep)
    pairs = [(total.cpus, left.cpus), (total.memory_mb, left.memory_mb)] + [(total.gpus, left.gpus)] * gpus_only
    return any(there and not rest for there, rest in pairs)


def _shown(setting: Setting, value: float) -> str:
    return show_duration(value) if setting.is_duration else f"{value:g}"


def _default(path: str) -> str:
    setting = find_setting(path)
    assert setting is not None
    return f"[{setting.section}]\n{setting.line}"


def _line(path: str, value: object) -> str:
    setting = find_setting(path)
    assert setting is not None
    return f"[{setting.section}]\n{setting.name} = {setting.show(value)}"
