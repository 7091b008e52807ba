"""On a real Slurm with switches, fragments are on the nodes that were decided, and ranks follow the switches."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.live.site import Site, configuration
from freetrain.core.decision import Decision
from freetrain.core.topology import nodes_by_leaf
from freetrain.daemon.admission.sole_lender import MARK_NAME
from freetrain.lab import LabOptions
from freetrain.slurm.parsing import parse_topology
from freetrain.store.store import Store
from tests.daemon.on_slurm.site import daemon_that_polls_every, idle_nodes, nodes_of, site_of, wait_until

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

NODES, PER_LEAF, POLL_S = 5, 2, 1
SETTINGS_READ = "settings read: "
# Ranks are dealt alike where workers are started again; such a one need not import torch.
SCRIPT = """#!/bin/bash
srun --quiet {python} -m freetrain.cli.main run --restart --trainer {trainer} --nproc 1 --min {nodes} -- sleep 3600
"""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """With a daemon, which each test tells how to decide."""
    options = LabOptions(nodes=NODES, accounting=True, nodes_per_leaf=PER_LEAF)
    with site_of(options) as site, daemon_that_polls_every(POLL_S, site, NODES):
        yield site


def decide_by(site: Site, policy: str, place: str, links: str = "node_gbit = 100") -> None:
    """From now on; [links] count for those alone that reserve them."""
    more = f'[decide]\npolicy = "{policy}"\nplace = "{place}"\n[links]\n{links}'
    text = configuration(POLL_S, 5, 10, site.directory / "state", more=more)
    (site.directory / "freetrain.toml").write_text(text)
    before = site.daemon_says.count(SETTINGS_READ)
    site.signal_daemon(signal.SIGHUP)
    wait_until(lambda: site.daemon_says.count(SETTINGS_READ) > before, 2 * POLL_S, site)


def last_decision(site: Site) -> Decision:
    store = Store.open_existing(site.directory / "state" / "freetrain.db")
    run = store.runs()[0]
    return store.decision(run.id, run.decision_count)[1]


def decision_about(site: Site, *trainers: str) -> Decision:
    """The last one, once it is about these: a decision is kept after it has been carried out."""
    wait_until(lambda: last_decision(site).placement.keys() >= set(trainers), 20, site)
    return last_decision(site)


@contextmanager
def nothing_lent_meanwhile(site: Site) -> Iterator[None]:
    """All that is submitted meanwhile is decided about at once, with all nodes: none still ends what it had."""
    stop = site.directory / "state" / "STOP"
    stop.touch()
    try:
        yield
        wait_until(lambda: len(idle_nodes(site)) == NODES, 20, site)
    finally:
        stop.unlink()


@pytest.fixture(autouse=True)
def nobodys_trainings(site: Site) -> Iterator[None]:
    """Each test ends what it has submitted, also where it fails: the daemon is that of all."""
    yield
    wait_until(lambda: cancel_trainings(site), 20, site)


def cancel_trainings(site: Site) -> bool:
    """Whether there is none any more; the daemon's mark stays."""
    listed = [line.split() for line in site.run("bob", "squeue", "-h", "-a", "-o", "%A %j").splitlines()]
    if jobs := {job for job, name in listed if name != MARK_NAME}:
        site.run("alice", "scancel", *jobs)
    return not jobs


@pytest.mark.parametrize(
    ("policy", "place"),
    [
        ("freetrain", "ring"),
        ("equal-share", "dltap"),
        pytest.param("greedy", "ring", marks=pytest.mark.soak),
        ("gadget", "ring"),
        pytest.param("gadget,utility=log", "dltap", marks=pytest.mark.soak),
        pytest.param("gadget,utility=fair", "first", marks=pytest.mark.soak),
        ("smd", "dltap"),
        pytest.param("smd,sizes=menu", "ring", marks=pytest.mark.soak),
    ],
)
def test_fragments_are_on_the_nodes_that_were_decided_and_on_few_leaves(
    site: Site, policy: str, place: str
) -> None:
    """Of leaves of 2, 2 and 1 nodes three nodes take two and two nodes one; the first five would take two each."""
    with nothing_lent_meanwhile(site):
        decide_by(site, policy, place)
        large, small = (site.submit_trainer("alice", nodes, f"min={nodes}") for nodes in (3, 2))
    wait_until(lambda: (len(nodes_of(site, large)), len(nodes_of(site, small))) == (3, 2), 20, site)
    decision = decision_about(site, large, small)
    assert policy == "freetrain" or decision.solver == policy
    assert {trainer: sorted(names) for trainer, names in decision.placement.items()} == {
        trainer: nodes_of(site, trainer) for trainer in (large, small)
    }
    topology, _ = parse_topology(site.run("bob", "scontrol", "-o", "show", "topology"))
    assert len(nodes_by_leaf(decision.placement[large], topology)) == 2
    assert len(nodes_by_leaf(decision.placement[small], topology)) == 1


def test_a_ring_that_needs_more_than_an_uplink_has_stays_on_a_leaf(site: Site) -> None:
    """Of three nodes that it could use; on two it needs 7.4 Gbit/s, on three 9.6."""
    with nothing_lent_meanwhile(site):
        decide_by(site, "gadget", "first", "node_gbit = 100\nuplink_gbit = 5")
        job = site.submit_trainer("alice", 3, "curve=1:100/3:270,gradients=10/1")
    wait_until(lambda: len(nodes_of(site, job)) == 2, 20, site)
    decision = decision_about(site, job)
    assert sorted(decision.placement[job]) == nodes_of(site, job)
    topology, _ = parse_topology(site.run("bob", "scontrol", "-o", "show", "topology"))
    assert len(nodes_by_leaf(decision.placement[job], topology)) == 1
    assert any("does not have left" in note for note in decision.notes)


def test_ranks_of_a_training_are_the_ring_that_was_decided(site: Site) -> None:
    decide_by(site, "gadget", "ring")
    nodes, trainer = 4, site.out / "trainer"
    script = SCRIPT.format(python=sys.executable, trainer=trainer, nodes=nodes)
    job = site.submit_trainer("alice", nodes, f"min={nodes},dir={trainer}", script)
    wait_until(lambda: len(nodes_in_order_of_rank(trainer)) == nodes, 60, site)
    decided = decision_about(site, job).placement[job]
    ranks = nodes_in_order_of_rank(trainer)
    begin = decided.index(ranks[0])
    assert ranks == [*decided[begin:], *decided[:begin]]


def nodes_in_order_of_rank(trainer: Path) -> list[str]:
    generations = sorted((trainer / "generations").glob("*.json"))
    if not generations:
        return []
    ids = json.loads(generations[-1].read_text())["members"]
    members = [json.loads((trainer / "members" / f"{id_}.json").read_text()) for id_ in ids]
    return [member["switches"].rpartition(".")[2] for member in members]
