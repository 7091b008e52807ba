"""What Slurm does to a fragment that it preempts: whether it ends, how soon, and from when on. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from freetrain.durations import show_duration
from freetrain.slurm.finding import Finding, update
from freetrain.slurm.layout_facts import Qos
from freetrain.slurm.layout_question import BY_QOS, Question

_STOPS = frozenset({"CANCEL", "REQUEUE"})
"""What Slurm may do to a fragment that it preempts; anything else leaves it on its node."""

_FLAGS = frozenset({"WITHIN", "PRIORITY"})
"""Words of a PreemptMode that say who may preempt, and not what is done."""


def words_of(mode: str) -> frozenset[str]:
    """The words of a PreemptMode."""
    return frozenset(filter(None, mode.upper().split(",")))


def mode_findings(mode: str, where: str, mend: str) -> Iterator[Finding]:
    """Fragments that are preempted must end."""
    what = words_of(mode) - _FLAGS
    if "OFF" in what or not what:
        yield Finding(f"Fragments of {where} are never preempted (PreemptMode={mode}).", mend)
    elif what - _STOPS:
        yield Finding(
            f"Fragments of {where} are suspended, not ended (PreemptMode={mode}): they keep memory and GPUs.", mend
        )


def what_preemption_means(question: Question, runs_tasks: bool) -> str:
    """What becomes of a fragment that Slurm takes a node back from, in a sentence; empty: Slurm preempts none.

    Args:
        question: where fragments run, and in which layout.
        runs_tasks: whether fragments are their owners' own tasks; else freetrain submits them.
    """
    mode = _mode_of_fragments(question)
    what = words_of(mode) & _STOPS
    if not what:
        return ""
    if not runs_tasks:
        return (
            f"What Slurm preempts has ended for good (PreemptMode={mode}; what freetrain submits is never "
            "requeued): for the next node freetrain submits another fragment."
        )
    if "REQUEUE" in what:
        return (
            f"Slurm requeues what it preempts (PreemptMode={mode}): an evicted task waits for its next node under "
            "the same job id, and its script begins anew there; sacct --duplicates shows each run."
        )
    return (
        f"Slurm cancels what it preempts (PreemptMode={mode}): an evicted task has ended, as PREEMPTED, until "
        "freetrain requeues it, held, at its next look. What ends while no daemon runs is gone after MinJobAge."
    )


def _mode_of_fragments(question: Question) -> str:
    settings = question.layout.settings
    if settings.preempt_type != BY_QOS:
        return question.ours.partition.preempt_mode
    known = question.layout.qos or {}
    modes = {known[name].preempt_mode for name in question.fragment_qos if name in known}
    return (modes.pop() if len(modes) == 1 else "") or settings.preempt_mode


def grace_findings(question: Question, grace_s: float, where: str, mend: str) -> Iterator[Finding]:
    """And soon."""
    if grace_s > 0:
        yield Finding(
            f"The site's jobs wait up to {grace_s:.0f} s for each fragment of {where} that does not leave at once "
            f"(GraceTime={grace_s:.0f}).",
            mend,
            grace_s > question.tolerable_s,
        )
        yield from _signal_findings(question)


def _signal_findings(question: Question) -> Iterator[Finding]:
    given = question.layout.settings.preempt_parameters.split(",")
    kept = [word for word in given if word.lower() != "send_user_signal"]
    if kept != given:
        yield Finding(
            "A fragment whose script asks for --signal is sent that in place of SIGTERM when its grace time "
            "begins (send_user_signal), and may stay until it is over.",
            f"PreemptParameters={','.join(kept)}",
            False,
        )


def exempt_findings(question: Question) -> Iterator[Finding]:
    """From their start on."""
    for exempt_s, qos in question.exempt_times():
        if exempt_s > 0:
            where = f"QOS {qos.name}" if qos else "PreemptExemptTime"
            yield Finding(
                f"The site's jobs wait up to {exempt_s:.0f} s for each fragment that has just begun "
                f"({where}: {show_duration(exempt_s)}), unless freetrain gives its node back before.",
                _mend_exempt(question, qos),
                exempt_s > question.tolerable_s,
            )


def _mend_exempt(question: Question, qos: Qos | None) -> str:
    """A QOS that fragments need not have is better left as it is."""
    if qos is None:
        return "PreemptExemptTime=00:00:00"
    if question.layout.settings.preempt_type != BY_QOS and qos.name not in (question.ours.qos, question.queue.qos):
        return update(
            question.ours.name, question.ours.without_qos(frozenset({qos.name}), question.layout.qos or ())
        )
    return f"sacctmgr -i modify qos {qos.name} set PreemptExemptTime=00:00:00"
