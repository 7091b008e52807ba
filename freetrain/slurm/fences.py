"""Whether a limit of Slurm's own fences what fragments have, and what waits to be one. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from freetrain.slurm.finding import Finding, update
from freetrain.slurm.parsing import fold_nodes
from freetrain.slurm.terms_facts import QosTerms, Terms

_FEWEST_SUBMITTED, _SUBMITTED_A_NODE = 1000, 2
"""How many jobs a user may have waiting, as is proposed: a training has as many tasks as it can use nodes."""


def judge_fences(terms: Terms) -> Iterator[Finding]:
    """What is not fenced, and limits that fence somebody else.

    1. Slurm enforces limits.
    2. A QOS, that of fragments or of their partition, limits what runs at once.
    3. And how much waits: the held tasks of trainings count in MaxJobCount, as all jobs do.
    """
    settings = terms.layout.settings
    if not settings.has_accounting:
        return
    if not settings.enforces & {"limits", "safe"}:
        enforced = ",".join(sorted(settings.enforces - {"", "none"} | {"associations", "limits", "qos"}))
        yield Finding(
            "Slurm enforces no limits: nothing but freetrain's own hold what runs in its partition.",
            f"AccountingStorageEnforce={enforced}",
            False,
        )
        return
    if terms.queue.qos:
        yield from _of_limits_of_each(terms)
    yield from _of_what_runs(terms)
    yield from _of_what_waits(terms)


def _of_what_runs(terms: Terms) -> Iterator[Finding]:
    ours, own = terms.ours, terms.queue.qos
    fencing = _fencing(terms)
    if all(one.fences for one in fencing):
        return
    nodes = terms.most_nodes or len(ours.partition.nodes)
    if own or ours.qos:
        what = "with it" if own else "there"
        which = f"QOS {own}" if own else f"QOS {ours.qos} of partition {ours.name}"
        yield Finding(
            f"{which} has no limit: nothing but freetrain's own hold what runs {what}.",
            f"{_modify(own or ours.qos)} GrpTRES=node={nodes}",
            False,
        )
        return
    lines = [
        *([] if ours.name in terms.qos else [f"sacctmgr -i add qos {ours.name}"]),
        f"{_modify(ours.name)} GrpTRES=node={nodes}",
        f"{_modify(ours.name)} {_submit_limit(terms)}",
        update(ours.name, f"QOS={ours.name}"),
    ]
    yield Finding(
        f"Partition {ours.name} has no QOS with limits: nothing but freetrain's own hold what runs there.",
        "\n".join(lines),
        False,
    )


def _of_what_waits(terms: Terms) -> Iterator[Finding]:
    """A partition that is to get a QOS gets one with this limit, too: nothing more is said of it."""
    fencing = _fencing(terms)
    if not (terms.queue.qos or terms.ours.qos) and not all(one.fences for one in fencing):
        return
    for one in fencing:
        if not one.submit_fences:
            yield Finding(
                f"QOS {one.name} lets a user hand in any number of tasks for partition {terms.ours.name}: all of "
                "them count in slurmctld's MaxJobCount, held ones too.",
                f"{_modify(one.name)} {_submit_limit(terms)}",
                False,
            )


def _fencing(terms: Terms) -> list[QosTerms]:
    """The QOS whose limits count: that of fragments, else the partition's, else all that its jobs may have."""
    name = terms.queue.qos or terms.ours.qos
    return [terms.qos.get(name, QosTerms(name))] if name else terms.fragment_qos


def _modify(qos: str) -> str:
    return f"sacctmgr -i modify qos {qos} set"


def _submit_limit(terms: Terms) -> str:
    nodes = terms.most_nodes or len(terms.ours.partition.nodes)
    most = max(_FEWEST_SUBMITTED, _SUBMITTED_A_NODE * nodes)
    return f"MaxSubmitJobsPU={most}"


def _of_limits_of_each(terms: Terms) -> Iterator[Finding]:
    """What fragments have in the site's partition counts in its QOS's limits of each user, and of each account."""
    ours, name = terms.ours, terms.queue.qos
    limits = [one for one in terms.qos.get(ours.qos, QosTerms(ours.qos)).fences if one.startswith("Max")]
    if limits and ours.admitted_qos != frozenset({name}):
        yield Finding(
            f"QOS {ours.qos} limits what each user or account has in partition {ours.name} ({', '.join(limits)}), "
            "fragments among it: jobs of owners of trainings may wait for their own fragments. In a partition of "
            "their own these do not count.",
            f"PartitionName=freetrain Nodes={fold_nodes(ours.partition.nodes)} AllowQos={name} State=UP\n"
            f'[slurm]\npartition = "freetrain"\nqos = "{name}"',
            False,
        )
