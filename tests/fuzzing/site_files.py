"""What admins write – settings, pauses, drains, lists of nodes – and what freetrain reads back of its own."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path

from freetrain.config.sections import State
from freetrain.config.settings import find_mistakes, load_config
from freetrain.core.problem import problem_from_json, problem_to_dict
from freetrain.daemon.controls.site_orders import OrdersReader
from freetrain.daemon.reports.status import STATUS_NAME, DaemonStatus, Identity, StatusUnknownError, read_status
from freetrain.slurm.node_groups import read_node_list
from freetrain.store.packing import VERSION, PackedDecision, Packer, unpack, unpack_serving
from tests.fuzzing.damage import damaged, damaged_text
from tests.fuzzing.running import Parser
from tests.store.samples import BERT, NAMES, PLACEMENT, PROBLEM, RESNET

PROJECT = Path(__file__).parents[2]
PAUSE = b'{"by":"root","reason":"maintenance","since_s":1790000000.0,"until_s":1790003600.0}'
DRAINS = (
    b'{"format":"freetrain-drains/1","drains":[{"nodes":["c01","c02"],"until_s":1790003600.0},'
    b'{"nodes":["c03"],"until_s":null}]}'
)
SETTINGS = b"""[lend]
mode = "observe"
poll = "30s"
exclude_nodes = "c[01-04]"
share = "any"
[slurm]
partition = "freetrain"
timeout = "20s"
[state]
keep = "90d"
[metrics]
listen = "127.0.0.1:9812"
allow = ["127.0.0.0/8"]
[prices]
gpu_hour = 0.5
"""


def settings(random: random.Random, folder: Path) -> None:
    """A file of settings."""
    path = folder / "freetrain.toml"
    path.write_bytes(damaged(random, random.choice((SETTINGS, SETTINGS, _example()))))
    mistakes = find_mistakes(path)
    load_config(path)
    assert not mistakes


@cache
def _example() -> bytes:
    """The example file with every setting in force."""
    lines = (PROJECT / "etc/freetrain.toml").read_text().splitlines()
    return "\n".join(line.removeprefix("# ") if " = " in line else line for line in lines).encode()


def pause(random: random.Random, folder: Path) -> None:
    """The site's pause."""
    (folder / "pause.json").write_bytes(damaged(random, PAUSE))
    OrdersReader().read(State(directory=str(folder)), 1.79e9)


def drains(random: random.Random, folder: Path) -> None:
    """Nodes that are emptied."""
    (folder / "drains.json").write_bytes(damaged(random, DRAINS))
    OrdersReader().read(State(directory=str(folder)), 1.79e9)


def status(random: random.Random, folder: Path) -> None:
    """What the daemon published, as users' listings read it."""
    daemon = Identity(4711, "login1", "1.0", 1.79e9, "act", "steer", "freetrain", 30.0)
    text = json.dumps(asdict(DaemonStatus(daemon, "running", 1.79e9, None))).encode()
    (folder / STATUS_NAME).write_bytes(damaged(random, text))
    read_status(folder)


def decision(random: random.Random, folder: Path) -> None:
    """A recorded decision."""
    kept = _packed()
    problem, placement = (_damaged_record(random, record) for record in (kept.problem, kept.placement))
    trainers = {3: RESNET, 5: BERT}
    record = PackedDecision(problem, placement)
    unpack_serving(record)
    unpack(record, PROBLEM.now_s, NAMES, lambda numbers: [trainers.get(number, RESNET) for number in numbers])


@cache
def _packed() -> PackedDecision:
    return Packer(NAMES).pack(PROBLEM, PLACEMENT, [3, 5])


def _damaged_record(random: random.Random, record: bytes) -> bytes:
    """The record, damaged as a disk does, or as its text would be."""
    if random.random() < 0.2:
        return damaged(random, record)
    return VERSION + zlib.compress(damaged(random, zlib.decompress(record[1:])), 1)


def problem_file(random: random.Random, folder: Path) -> None:
    """A file of a decision problem."""
    problem_from_json(damaged(random, json.dumps(problem_to_dict(PROBLEM)).encode()))


def nodes_of_people(random: random.Random, folder: Path) -> None:
    """A list of nodes as people write them."""
    read_node_list(damaged_text(random, random.choice(("c[01-04,17]", "c01,c02", "rack[1-3]n[1-40]"))))


PARSERS: Mapping[str, Parser] = {
    "site settings": Parser(settings),
    "site pauses": Parser(pause),
    "site drains": Parser(drains),
    "site status": Parser(status, (StatusUnknownError,)),
    "site decisions": Parser(decision),
    "site problem files": Parser(problem_file),
    "site nodes of people": Parser(nodes_of_people, (ValueError,)),
}
