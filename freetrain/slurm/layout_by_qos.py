"""Whether each QOS of the site's may preempt that of fragments, and what mends it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from freetrain.slurm.finding import Finding, update
from freetrain.slurm.layout_facts import PartitionRules, Qos
from freetrain.slurm.layout_question import Question
from freetrain.slurm.parsing import fold_nodes
from freetrain.slurm.preempted_findings import grace_findings, mode_findings, words_of

_OWN = "freetrain"
"""The name of a partition that is proposed."""


def judge_by_qos(question: Question) -> Iterator[Finding]:
    """All that is not as it should be where Slurm preempts by QOS."""
    known = question.layout.qos
    if known is None:
        what = f"Nobody can say which QOS preempt which: {question.layout.problem or 'not asked yet'}."
        yield Finding(what, "sacctmgr show qos")
        return
    yield from _admission(question)
    for name in sorted(question.fragment_qos):
        if name not in known:
            yield Finding(f"There is no QOS {name}, which fragments could have.", f"sacctmgr -i add qos {name}")
        yield from _of_fragments(question, known.get(name, Qos(name)))
    for partition in question.sites:
        yield from _of_sites(question, partition, known)
    if question.is_shared:
        yield from _limits(question, known)


def _admission(question: Question) -> Iterator[Finding]:
    """Fragments have no other QOS than theirs."""
    ours, name = question.ours, question.queue.qos
    if not name and ours.allow_qos is None:
        yield Finding(
            f"Partition {ours.name} admits every QOS, and fragments may have one that the site's do not preempt.",
            update(ours.name, f"AllowQos={','.join(sorted(question.fragment_qos))}"),
        )
    if name and not ours.admits_qos(name):
        allowed = f"AllowQos={','.join(sorted((ours.allow_qos or frozenset()) | {name}))}"
        denied = f"DenyQos={','.join(sorted(ours.deny_qos - {name}))}"
        yield Finding(
            f"Partition {ours.name} does not admit QOS {name}: no fragment can start.",
            update(ours.name, denied if ours.allow_qos is None else allowed),
        )


def _of_fragments(question: Question, qos: Qos) -> Iterator[Finding]:
    mend = f"sacctmgr -i modify qos {qos.name} set"
    mode = qos.preempt_mode or question.layout.settings.preempt_mode
    yield from mode_findings(mode, f"QOS {qos.name}", f"{mend} PreemptMode=requeue")
    yield from grace_findings(question, qos.grace_s, f"QOS {qos.name}", f"{mend} GraceTime=0")
    theirs = sorted(qos.preempts - question.fragment_qos)
    if theirs:
        yield Finding(
            f"Fragments have QOS {qos.name}, which preempts jobs with QOS {','.join(theirs)}: the site's.",
            f"{mend} Preempt-={','.join(theirs)}",
        )


def _of_sites(question: Question, partition: PartitionRules, known: Mapping[str, Qos]) -> Iterator[Finding]:
    """Every QOS that jobs in a partition of the site's may have must preempt those of fragments."""
    fragments = question.fragment_qos
    for name in sorted(known):
        if not partition.admits_qos(name):
            continue
        if name not in fragments:
            yield from _of_site(known[name], fragments)
        elif partition.name not in question.queue.partitions:
            yield Finding(
                f"Jobs in partition {partition.name} that ask for QOS {name} do not preempt fragments.",
                update(partition.name, partition.without_qos(fragments, known)),
                False,
            )


def _of_site(qos: Qos, fragments: frozenset[str]) -> Iterator[Finding]:
    missing = sorted(fragments - qos.preempts)
    if missing:
        yield Finding(
            f"Jobs with QOS {qos.name} do not preempt those with QOS {','.join(missing)}: they wait until the "
            "time limit of fragments.",
            f"sacctmgr -i modify qos {qos.name} set Preempt+={','.join(missing)}",
        )
    if "PRIORITY" in words_of(qos.preempt_mode):
        yield Finding(
            f"Jobs with QOS {qos.name} preempt only what has less priority (PreemptMode=PRIORITY).",
            f"sacctmgr -i modify qos {qos.name} set PreemptMode=cluster",
        )


def _limits(question: Question, known: Mapping[str, Qos]) -> Iterator[Finding]:
    """Slurm preempts for nodes, and not for limits: what fragments have of a limit the site's jobs wait for."""
    ours, name = question.ours, question.queue.qos
    limits = known[ours.qos].group_limits if ours.qos in known else ()
    if limits:
        yield Finding(
            f"QOS {ours.qos} limits what all jobs in partition {ours.name} have together ({', '.join(limits)}), "
            "fragments among them: the site's jobs would wait for what these have of it. Fragments need a "
            "partition of their own.",
            f"PartitionName={_OWN} Nodes={fold_nodes(ours.partition.nodes)} AllowQos={name} State=UP\n"
            f'[slurm]\npartition = "{_OWN}"\nqos = "{name}"',
        )
