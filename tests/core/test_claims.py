from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from freetrain.core.claims import find_claims
from freetrain.core.cluster import Job, JobState, Node, Partition, Snapshot
from freetrain.core.problem import Node as OfferedNode

NAMES = tuple(f"n{number}" for number in range(12))
PARTITIONS = {
    "main": Partition("main", frozenset(NAMES[:9])),
    "debug": Partition("debug", frozenset(NAMES[6:])),
    "down": Partition("down", frozenset(NAMES), is_up=False),
    "freetrain": Partition("freetrain", frozenset(NAMES)),
}

jobs = st.builds(
    Job,
    id=st.just(""),
    array=st.just(""),
    user=st.just("news"),
    partition=st.sampled_from(("main", "debug", "main,debug", "down", "gone,main", "freetrain")),
    state=st.just(JobState.PENDING),
    reason=st.sampled_from(("", "Priority", "JobHeldUser")),
    node_count=st.integers(1, 8),
    priority=st.integers(1, 3),
    features=st.sampled_from(("", "big", "big&fast", "[fast|big]")),
    required_nodes=st.just(frozenset[str]()) | st.frozensets(st.sampled_from(NAMES), min_size=1),
)
offers = st.dictionaries(st.sampled_from(NAMES), st.sampled_from((None, "1", "2", "3")))
features = st.lists(st.frozensets(st.sampled_from(("big", "fast"))), min_size=len(NAMES), max_size=len(NAMES))


@given(st.lists(jobs, max_size=6), offers, features)
def test_jobs_claim_as_if_each_looked_at_every_node(
    wanting: list[Job], holders: dict[str, str | None], features: list[frozenset[str]]
) -> None:
    wanting = [replace(job, id=str(number), array=str(number)) for number, job in enumerate(wanting)]
    nodes = tuple(Node(name, "IDLE", features=each) for name, each in zip(NAMES, features, strict=True))
    offered = {name: OfferedNode(name, None, holder) for name, holder in holders.items()}
    snapshot = Snapshot(0.0, nodes, tuple(wanting), partitions=PARTITIONS)
    claims = find_claims(snapshot, offered, "freetrain", 60.0, {})
    assert (dict(claims.nodes), set(claims.fitting)) == claim_plainly(snapshot, offered)


def claim_plainly(snapshot: Snapshot, offered: dict[str, OfferedNode]) -> tuple[dict[str, str], set[str]]:
    free, claimed, fitting = dict(offered), {}, set()
    ready = [job for job in snapshot.jobs if job.partition != "freetrain" and job.reason != "JobHeldUser"]
    for job in sorted(ready, key=lambda job: (-job.priority, job.id)):
        if sum(may_run(job, name, snapshot) for name in offered) >= job.node_count:
            fitting.add(job.id)
        possible = [node for node in free.values() if may_run(job, node.name, snapshot)]
        if len(possible) < job.node_count:
            continue
        for _ in range(job.node_count):
            sizes = Counter(node.held_by for node in possible if node.held_by is not None)
            idle = [node for node in possible if node.held_by is None]
            largest = max(sizes, key=lambda holder: sizes[holder], default=None)
            node = idle[0] if idle else [node for node in possible if node.held_by == largest][-1]
            possible.remove(node)
            claimed[free.pop(node.name).name] = f"job {job.id} could start here"
    return claimed, fitting


def may_run(job: Job, name: str, snapshot: Snapshot) -> bool:
    listed = [PARTITIONS[each] for each in job.partition.split(",") if each in PARTITIONS]
    any_of = {"fast", "big"} if "|" in job.features else set()
    wanted = set() if any_of else set(filter(None, job.features.split("&")))
    return (
        any(each.is_up and name in each.nodes for each in listed)
        and wanted <= snapshot.node[name].features
        and (not any_of or bool(any_of & snapshot.node[name].features))
        and (not job.required_nodes or name in job.required_nodes)
    )
