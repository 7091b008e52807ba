"""Two hosts, as far as addresses, loopback and each other's processes go: two network namespaces with a cable."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_disk.files import read_json
from tests.elastic.forking import Forked
from tests.elastic.harness import PATIENCE_S, SCRIPTS

HOSTS = {f"ftleft{os.getpid()}": "10.231.7.1", f"ftright{os.getpid()}": "10.231.7.2"}
"""Names of this process's own: somebody else may be running the same test on this machine."""


@pytest.fixture
def hosts() -> Iterator[dict[str, str]]:
    left, right = HOSTS
    cable = [
        ["ip", "netns", "add", left],
        ["ip", "netns", "add", right],
        ["ip", "link", "add", "ftl", "netns", left, "type", "veth", "peer", "name", "ftr", "netns", right],
        ["ip", "-n", left, "addr", "add", f"{HOSTS[left]}/24", "dev", "ftl"],
        ["ip", "-n", right, "addr", "add", f"{HOSTS[right]}/24", "dev", "ftr"],
        *(["ip", "-n", host, "link", "set", "lo", "up"] for host in HOSTS),
        ["ip", "-n", left, "link", "set", "ftl", "up"],
        ["ip", "-n", right, "link", "set", "ftr", "up"],
    ]
    try:
        for command in cable:
            try:
                subprocess.run(command, check=True, capture_output=True, text=True)
            except (OSError, subprocess.CalledProcessError) as error:
                pytest.skip(f"no network namespaces on this machine: {getattr(error, 'stderr', '') or error}")
        yield HOSTS
    finally:
        for host in HOSTS:
            subprocess.run(["ip", "netns", "del", host], capture_output=True, check=False)


def test_a_world_over_two_hosts_survives_the_end_of_one(tmp_path: Path, hosts: dict[str, str]) -> None:
    root, out = tmp_path / "trainer", tmp_path / "out"
    out.mkdir()
    (out / "pace").touch()
    workers = {host: worker_on(host, address, root, out) for host, address in hosts.items()}
    try:
        await_world(root, 2)
        first = TrainerDirectory.open(root).view().current[0]
        doomed = next(host for host in hosts if first.startswith(host))
        workers[doomed].kill()
        await_world(root, 1)
        assert "no sign of life" in (TrainerDirectory.open(root).is_gone(first) or "")
        (out / "pace").unlink()
        other = next(host for host in hosts if host != doomed)
        assert workers[other].wait(PATIENCE_S) == 0, workers[other].stderr
    finally:
        for worker in workers.values():
            worker.kill()
            worker.wait()
    assert read_json(root / "finished.json") is not None


def worker_on(host: str, address: str, root: Path, out: Path) -> Forked:
    facts = {"FREETRAIN_TRAINER": str(root), "FREETRAIN_MEMBER": f"{host}-0", "FREETRAIN_ADDRESS": address}
    more = {"OUT": str(out), "EPOCHS": "30", "OMP_NUM_THREADS": "1", "FREETRAIN_LOST_AFTER_S": "3"}
    script = [host, str(SCRIPTS / "counting.py")]
    return Forked(SCRIPTS / "on_host.py", os.environ | facts | more, out / host, script)


def await_world(root: Path, size: int) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while True:
        assert time.monotonic() < until_s, f"no world of {size} within {PATIENCE_S} s"
        generation = TrainerDirectory.open(root).view().generation if root.exists() else None
        lines = (root / "progress.jsonl").read_text() if (root / "progress.jsonl").exists() else ""
        if generation is not None and generation.world == size and f'"generation": {generation.number},' in lines:
            return
        time.sleep(0.05)
