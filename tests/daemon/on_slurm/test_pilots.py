"""The pilots of docs/users/pilots.md on parts of nodes of a real Slurm, a stand-in for HyperQueue and Dask."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPException
from pathlib import Path
from threading import Event, Thread
from urllib.request import urlopen

import pytest

from benchmarks.live.site import Site
from freetrain.lab import LabOptions
from tests.daemon.on_slurm.site import POLL_S, daemon_that_polls_every, site_of, wait_until

pytestmark = pytest.mark.slurm

NODES, PIECES = 2, 32
LIMIT_S = 60
ANSWER = "answer to /x\n"
ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/users/pilots.md").read_text()
SCRIPTS = {name: text for text, name in re.findall(r"```bash\n(#!/bin/bash\n# (\S+)\n.*?)```", PAGE, re.DOTALL)}
WORKER = """#!/bin/bash
# Takes pieces of work while there are some, gives one back on SIGTERM, and ends when there is nothing to do.
cd {out}/work
piece=
trap '[ -z "$piece" ] || mv taken/$piece waiting/; echo left >> {out}/left; exit 0' TERM
while [ -n "$(ls waiting; ls taken)" ]; do
    for each in $(ls waiting); do
        mv waiting/$each taken/ 2> {out}/errors || continue
        piece=$each
        sleep 1 & wait $!
        echo done >> done/$piece
        rm taken/$piece
        piece=
    done
    sleep 0.2 & wait $!
done
"""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    settings = {"SelectTypeParameters": "CR_Core_Memory", "DefMemPerCPU": "20"}
    options = LabOptions(nodes=NODES, cpus=16, gpus=8, gpu_type="a100", exclusive=False, accounting=True)
    with site_of(options, settings) as site:
        yield site


def make_work(out: Path) -> None:
    for name in ("work", "work/waiting", "work/taken", "work/done", "bin", "servers"):
        (out / name).mkdir()
        (out / name).chmod(0o777)
    for number in range(PIECES):
        (out / "work/waiting" / f"{number:02}").touch()
        (out / "work/waiting" / f"{number:02}").chmod(0o666)
    for name in ("hq", "dask"):
        (out / "bin" / name).write_text(WORKER.format(out=out))
        (out / "bin" / name).chmod(0o755)


def submit(site: Site, name: str, tasks: int, *options: str) -> str:
    """A script of the page with this site's programs and directories, submitted as its page says."""
    text = SCRIPTS[name].replace("/scratch/me", str(site.out)).replace("/shared/me", str(site.out))
    text = text.replace("python serve.py", f"{sys.executable} {ROOT}/docs/examples/serve.py")
    text = text.replace("\nsrun", f"\nexport PATH={site.out}/bin:$PATH\nsrun", 1)
    log = ("-o", f"{site.out}/{name}-%a.log")
    return site.submit_trainer("alice", tasks, "kind=tasks,notice=yes", text, *log, "--mem=20", *options)


def addresses(site: Site) -> dict[str, str]:
    found = {}
    for path in (site.out / "servers").iterdir():
        with suppress(FileNotFoundError):  # withdrawn meanwhile
            found[path.name] = path.read_text().strip()
    return {job: address for job, address in found.items() if "." not in job}


def ask_all(site: Site, over: Event, answers: Counter[str]) -> None:
    """Ask every server that is named, again and again."""
    while not over.wait(0.02):
        for address in addresses(site).values():
            port = address.rpartition(":")[2]
            try:
                with urlopen(f"http://127.0.0.1:{port}/x", timeout=30) as answer:
                    answers[answer.read().decode()] += 1
            except (HTTPException, OSError) as error:
                reason = getattr(error, "reason", error)
                # Not accepted: the server has ended, or ended while the connection waited to be accepted.
                ended = isinstance(reason, ConnectionRefusedError | ConnectionResetError)
                answers["not accepted" if ended else repr(error)] += 1


def test_pilots_leave_when_they_are_told_and_no_piece_of_work_is_lost(site: Site) -> None:
    make_work(site.out)
    over, answers = Event(), Counter[str]()
    asking = Thread(target=ask_all, args=(site, over, answers), daemon=True)
    with ExitStack() as asks, daemon_that_polls_every(POLL_S, site, NODES, lend='share = "any"'):
        serving = submit(site, "serve.sh", 2)
        working = [submit(site, "hq-worker.sh", 3, "-c4"), submit(site, "dask-worker.sh", 1)]
        asking.start()
        asks.callback(over.set)
        wait_until(lambda: len(addresses(site)) == 2 and any((site.out / "work/done").iterdir()), LIMIT_S, site)

        job = site.run(
            "bob", "sbatch", "--parsable", "-p", "main", "-t1", "-o", "/dev/null", "-w", "n001", "-c16",
            "--wrap=sleep 4",
        )  # fmt: skip
        for array in working:
            complete = f"trainer {array} of {site.lab.users['alice']} is complete"
            wait_until(lambda complete=complete: complete in site.daemon_says, LIMIT_S, site)
        wait_until(lambda: not site.run("bob", "squeue", "-h", "-j", job, "-t", "PD,R"), LIMIT_S, site)
        wait_until(lambda: len(addresses(site)) == 2 and answers[ANSWER] > 10, LIMIT_S, site)
        site.run("alice", "scancel", serving)
        wait_until(lambda: not addresses(site), LIMIT_S, site)
        over.set()
        asking.join()

    done = {path.name: path.read_text() for path in (site.out / "work/done").iterdir()}
    assert done == {f"{number:02}": "done\n" for number in range(PIECES)}
    assert (site.out / "left").exists(), "no worker was taken back"
    runs = site.accounting("freetrain")
    assert sum(run.id.startswith(f"{serving}_") for run in runs) > 2, "no server was taken back"
    assert answers.keys() <= {ANSWER, "not accepted"}
