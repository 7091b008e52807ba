"""The recorded texts are what Slurm 22.05 and 25.11 print of the same sixteen submissions."""

from __future__ import annotations

from pathlib import Path

import pytest

from freetrain.core.amounts import Amount
from freetrain.core.job import Asked
from freetrain.core.needs import Needs, find_misfit, kinds_of
from freetrain.slurm.asking import parse_asks, parse_requests
from freetrain.slurm.parsing import parse_amount, parse_nodes
from freetrain.slurm.parsing.words import parse_gres
from freetrain.slurm.queries import NEED_FIELDS, SEPARATOR
from tests import facts

RECORDED = Path(__file__).parent / "recorded"
DEFAULT_MB = 100
GPUS = (("gpu", 4),)
EXPECTED = {
    "": {},
    "--gpus-per-node=4": {"gres": GPUS},
    "--gpus-per-node=a100:2": {"gres": (("gpu:a100", 2),)},
    "--gres=gpu:a100:4": {"gres": (("gpu:a100", 4),)},
    "--gpus=4 --exclusive": {"gres": GPUS, "is_whole": True},
    "--gpus-per-task=2 -n2": {"gres": GPUS, "cpus": 2, "in_parts": "it binds GPUs to tasks or sockets"},
    "--mem=500": {"memory_mb": 500},
    "--mem=0": {},
    "--mem-per-cpu=200 -c2": {"memory_mb": 400, "cpus": 2},
    "--mem-per-gpu=100 --gpus=2": {"memory_mb": 200, "gres": (("gpu", 2),)},
    "--cpus-per-gpu=2 --gpus=2": {"gres": (("gpu", 2),), "in_parts": "it binds CPUs to GPUs"},
    "--ntasks-per-node=2 -c2": {"cpus": 4},
    "-B 1:2:1": {"sockets": 1, "cores_per_socket": 2, "threads_per_core": 1, "cpus": 2},
    "--exclude=n001": {"excluded": frozenset({"n001"})},
    "--tmp=5": {"disk_mb": 5},
    "--hint=nomultithread": {"threads_per_core": 1},
}


def needs_of(version: str) -> list[Needs]:
    """In the order of submission."""
    asked, excluded = ((RECORDED / f"{name}_{version}.txt").read_text() for name in ("needs", "excluded"))
    found = parse_requests(asked, excluded, DEFAULT_MB)
    return [found[id_].needs for id_ in sorted(found, key=int)]


@pytest.mark.parametrize("version", ["22.05", "25.11"])
def test_what_tasks_ask_for(version: str) -> None:
    found = dict(zip(EXPECTED, needs_of(version), strict=True))
    expected = {
        options: Needs(**{"cpus": 1, "is_whole": False, **changes})  # type: ignore[arg-type]
        for options, changes in EXPECTED.items()
    }
    assert found == expected


def line(**changes: str) -> str:
    plain = dict.fromkeys(NEED_FIELDS, "N/A") | {"ArrayJobID": "7", "State": "PENDING", "sct": "*:*:*"}
    plain |= {"oversubscribe": "OK", "Exclusive": "", **changes}
    return "".join(f"{plain[name]:<{size}}{SEPARATOR}" for name, size in NEED_FIELDS.items()) + "\n"


def test_a_task_that_waits_tells_more_than_one_that_runs() -> None:
    """What is shown of a running one is all that it was given."""
    runs = line(State="RUNNING", MinMemory="400M", **{"tres-alloc": "cpu=16,mem=64000M"})
    waits = line(MinMemory="400M", **{"tres-alloc": "cpu=16,mem=400M"})
    for text in (runs + waits, waits + runs, runs):
        assert parse_requests(text, "", DEFAULT_MB)["7"].needs.memory_mb == 400


def test_a_pinned_task_asks_for_no_more_than_before() -> None:
    """``pin`` turns memory that was asked for per CPU into memory per node, and the default into all there is."""
    per_cpu = line(MinMemory="200M", NumTasks="1", **{"cpus-per-task": "2", "tres-alloc": "cpu=2,mem=400M"})
    pinned = line(MinMemory="400M", NumTasks="1", **{"cpus-per-task": "2", "tres-alloc": "cpu=16,mem=400M"})
    assert parse_requests(per_cpu, "", DEFAULT_MB) == parse_requests(pinned, "", DEFAULT_MB)
    by_default = line(MinMemory="100M", **{"tres-alloc": "cpu=1,mem=100M"})
    pinned = line(MinMemory="0", **{"tres-alloc": "cpu=16,mem=64000M"})
    assert parse_requests(by_default, "", DEFAULT_MB) == parse_requests(pinned, "", DEFAULT_MB)


def test_a_task_that_had_several_nodes_asks_of_each_for_no_more_than_before() -> None:
    asked = {"cpus-per-task": "2", "tres-per-node": "gres:gpu:2"}
    before = line(MinMemory="400M", NumTasks="4", **asked, **{"tres-alloc": "cpu=8,mem=400M,node=1"})
    after = line(MinMemory="400M", NumTasks="12", **asked, **{"tres-alloc": "cpu=24,mem=1200M,node=3"})
    assert parse_requests(before, "", DEFAULT_MB) == parse_requests(after, "", DEFAULT_MB)
    needs = parse_requests(after, "", DEFAULT_MB)["7"].needs
    assert (needs.cpus, needs.processes, needs.memory_mb, needs.gpus) == (8, 4, 400, 2)


@pytest.mark.parametrize(
    "changes",
    [
        {"tres-per-node": ",".join(f"gres:gpu:type{number}:1" for number in range(60))[:512]},
        {"MinMemory": "lots"},
        {"sct": "*:*"},
        {"NumTasks": "some"},
    ],
)
def test_what_is_cut_short_or_new_is_not_guessed(changes: dict[str, str]) -> None:
    assert parse_requests(line(**changes), "", DEFAULT_MB)["7"].needs.unclear


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        ({"Licenses": "matlab:1"}, "licences"),
        ({"BurstBuffer": "#DW jobdw capaci"}, "a burst buffer"),
        ({"Licenses": "matlab:1", "BurstBuffer": "#DW jobdw capaci"}, "licences and a burst buffer"),
    ],
)
def test_what_slurm_preempts_nobody_for_is_refused(asked: dict[str, str], what: str) -> None:
    needs = parse_requests(line(**asked), "", DEFAULT_MB)["7"].needs
    assert needs.held_back == what
    nodes = [facts.node("n1", cpus=4, memory_mb=1000, threads_per_core=1)]
    assert not needs.fits(nodes[0])
    said = f"it asks for {what}: freetrain gives back nodes alone, so the site's jobs would wait for it"
    assert find_misfit(needs, kinds_of(nodes)) == said


def test_gpus_of_a_node() -> None:
    (node,), rejected = parse_nodes((RECORDED / "gpu_node_22.05.txt").read_text())
    assert rejected == []
    assert (node.gres, node.cpus, node.memory_mb) == ((("gpu:a100", 4),), 4, 1000)
    assert (node.sockets, node.cores_per_socket, node.threads_per_core) == (1, 2, 2)
    (later,) = [node for node in parse_nodes((RECORDED / "nodes_25.11.txt").read_text())[0] if node.gres]
    assert (later.name, later.gres) == ("n008", (("gpu:a100", 4),))


def test_how_much_jobs_have_of_a_node() -> None:
    nodes, rejected = parse_nodes((RECORDED / "nodes_in_parts_22.05.txt").read_text(), in_parts=True)
    assert rejected == []
    assert [node.used for node in nodes] == [Amount(14, 200, (("gpu:a100", 6),)), Amount(0, 0)]
    assert [node.total for node in nodes] == [Amount(16, 1000, (("gpu:a100", 8),))] * 2
    (later,) = parse_nodes(
        "NodeName=g1 CPUAlloc=8 CPUEfctv=128 CPUTot=128 State=MIXED RealMemory=512000 AllocMem=4096 "
        "Gres=gpu:1g.5gb:7(S:0),gpu:a100:3(S:0-1),shard:a100:12(S:0-1) GresDrain=N/A "
        "GresUsed=gpu:1g.5gb:2(IDX:0,3),gpu:a100:1(IDX:2),shard:a100:6(4/4,2/4,0/4) Partitions=main\n",
        in_parts=True,
    )[0]
    assert later.used == Amount(8, 4096, (("gpu:1g.5gb", 2), ("gpu:a100", 1), ("shard:a100", 6)))


def test_a_node_without_generic_resources_shows_none_as_used() -> None:
    nodes, rejected = parse_nodes((RECORDED / "nodes_without_gres_22.05.txt").read_text(), in_parts=True)
    assert ([node.used for node in nodes], rejected) == ([Amount(0, 0)] * 3, [])
    (unclear,) = parse_nodes("NodeName=g1 CPUAlloc=0 AllocMem=0 Gres=gpu:1 State=IDLE\n", in_parts=True)[0]
    assert unclear.used is None, "how many GPUs are used is not known"


def test_nobody_asked_how_much_jobs_have_of_a_node() -> None:
    (node,), _ = parse_nodes((RECORDED / "gpu_node_22.05.txt").read_text())
    assert node.used is None


def test_a_task_that_is_lent_a_part_takes_what_slurm_gives_it() -> None:
    """The default memory too, and the CPUs that are bound to its GPUs; never less than whole cores."""
    found = dict(zip(EXPECTED, needs_of("22.05"), strict=True))
    node = facts.node("n1", cpus=8, memory_mb=8000, threads_per_core=2)
    taken = {options: needs.lent_in_part().amount_on(node) for options, needs in found.items()}
    assert taken[""] == Amount(2, 100)
    assert taken["--gpus-per-node=a100:2"] == Amount(2, 100, (("gpu:a100", 2),))
    assert taken["--cpus-per-gpu=2 --gpus=2"].cpus == 4
    assert taken["--mem-per-cpu=200 -c2"] == Amount(2, 400)
    assert taken["--ntasks-per-node=2 -c2"].cpus == 4
    assert found[""].amount_on(node) == node.total


def test_what_waiting_jobs_ask_of_each_of_their_nodes() -> None:
    """``-N2 -n4 --gres=gpu:7 --mem-per-cpu=30``; four GPUs with three CPUs each; ``--exclusive``."""
    asks = parse_asks((RECORDED / "waiting_needs_22.05.txt").read_text())
    assert asks["14"] == Asked(Amount(2, 60, (("gpu", 7),)), total=Amount(4, 120))
    assert asks["15"].part == Amount(12, 1000, (("gpu", 4),))
    assert asks["16"] == Asked(None, least=Amount(1), total=Amount(1, 1000)), "all of its node"


@pytest.mark.parametrize(
    ("options", "least"),
    [
        ({"tres-per-node": "gres:gpu:8"}, Amount(1, 0, (("gpu", 8),))),
        ({"tres-per-job": "gres/gpu:a100:8", "tres-alloc": "cpu=2,node=2"}, Amount(1, 0, (("gpu:a100", 4),))),
        ({"tres-per-task": "gres:gpu:2", "NumTasks": "8"}, Amount(1, 0, (("gpu", 2),))),
        ({"MinMemory": "500M", "cpus-per-task": "4", "NumTasks": "3"}, Amount(4, 500)),
        ({"MinMemory": "0", "tres-alloc": "cpu=1,mem=1000M,node=1"}, Amount(1)),
    ],
)
def test_a_job_that_wants_all_of_its_nodes_wants_so_much_of_each_at_least(
    options: dict[str, str], least: Amount
) -> None:
    assert parse_asks(line(oversubscribe="NO", **options))["7"].least == least


def test_what_counts_in_limits_is_what_all_nodes_have_together() -> None:
    given = "cpu=9,mem=500M,node=2,billing=9,gres/gpu=4,gres/gpu:a100=4,gres/nvme=2"
    for whole in ("NO", "OK"):
        asked = parse_asks(line(oversubscribe=whole, **{"tres-alloc": given}))["7"]
        assert asked.total == Amount(9, 500, (("gpu", 4), ("nvme", 2)))


def test_what_a_job_asks_for_in_all_is_spread_over_its_nodes() -> None:
    spread = {"tres-alloc": "cpu=9,mem=500M,node=2", "tres-per-job": "gres/gpu:a100:5", "NumTasks": "9"}
    assert parse_asks(line(**spread))["7"].part == Amount(5, 250, (("gpu:a100", 3),))


@pytest.mark.parametrize("changes", [{"MinMemory": "?" * 24}, {"tres-alloc": "cpu=x"}, {"sct": "?"}])
def test_of_what_is_not_clear_all_of_a_node_is_kept(changes: dict[str, str]) -> None:
    assert parse_asks(line(**changes))["7"].part in (None, Amount(1, 0))


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("cpu=4,mem=16G", Amount(4, 16 * 1024)),
        ("mem=500", Amount(0, 500)),
        ("cpu=1,mem=0.5T,gres/gpu=1,gres/gpu:a100=2", Amount(1, 512 * 1024, (("gpu", 1), ("gpu:a100", 2)))),
        ("", Amount()),
    ],
)
def test_amounts_as_slurm_writes_them(text: str, amount: Amount) -> None:
    assert parse_amount(text) == amount


@pytest.mark.parametrize("text", ["4", "cpu=many", "mem=4X", "gpu=1", "cpu=-1"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no amount"):
        parse_amount(text)


@pytest.mark.parametrize(
    ("text", "gres"),
    [
        ("gpu:4", (("gpu", 4),)),
        ("gpu:a100:2(S:0-1),gpu:v100:1(S:0)", (("gpu:a100", 2), ("gpu:v100", 1))),
        ("gpu", (("gpu", 1),)),
        ("bandwidth:lustre:no_consume:4G", (("bandwidth:lustre", 4 * 1024**3),)),
        ("", ()),
    ],
)
def test_generic_resources(text: str, gres: tuple[tuple[str, int], ...]) -> None:
    assert parse_gres(text) == gres


def test_where_slurm_shares_out_no_memory_nobody_takes_any() -> None:
    """Each job is shown with all of a node's there."""
    asked = line(**{"tres-alloc": "cpu=2,mem=1000M,node=1", "tres-per-node": "gres:gpu:1"})
    assert parse_asks(asked, shares_out_memory=False)["7"].part == Amount(2, 0, (("gpu", 1),))
    needs = parse_requests(asked, "", DEFAULT_MB)["7"].needs
    node = facts.node("n1", cpus=8, memory_mb=1000, gres=(("gpu", 8),), threads_per_core=1)
    assert needs.lent_in_part().amount_on(node).memory_mb == 1000
    part = needs.lent_in_part(takes_memory=False)
    assert part.amount_on(node) == Amount(2, 0, (("gpu", 1),))
    large = parse_requests(line(MinMemory="2000M", **{"tres-alloc": "cpu=2,mem=2000M,node=1"}), "", DEFAULT_MB)[
        "7"
    ].needs
    assert not large.lent_in_part(takes_memory=False).fits(node), "it needs a node that has so much"
