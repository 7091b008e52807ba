"""Settings that are each allowed, and together make little sense. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from freetrain.config import Config
from freetrain.config.settings import find_setting
from freetrain.core.node import Nodes
from freetrain.slurm.finding import Finding
from freetrain.slurm.parsing import expand_nodes

_LEAST_MARGIN_S = 60.0


def find_contradictions(config: Config, nodes: Nodes) -> Iterator[Finding]:
    """What is as somebody hardly means it.

    Args:
        config: the settings.
        nodes: of freetrain's partition.
    """
    yield from _of_nodes(config, nodes)
    yield from _of_times(config)
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
    if harm.pause == 0:
        yield Finding(
            "harm.pause is 0: whatever lending costs the site's jobs, it goes on.", _default("harm.pause"), False
        )


def _default(path: str) -> str:
    setting = find_setting(path)
    assert setting is not None
    return f"[{setting.section}]\n{setting.line}"


def _line(path: str, value: object) -> str:
    setting = find_setting(path)
    assert setting is not None
    return f"[{setting.section}]\n{setting.name} = {setting.show(value)}"
