"""The rights of the daemon's account, proved with a job of its own that never runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from freetrain.config import Config
from freetrain.core.cluster import Snapshot
from freetrain.daemon.admission.sole_lender import NO_SCRIPT
from freetrain.slurm import commands
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmBusyError, SlurmError, SlurmRefusedError
from freetrain.slurm.finding import Finding
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.patience import USERS_PAUSES_S, perform_patiently

_NAME = "freetrain-check"
_REFUSED = (SlurmRefusedError, SlurmBusyError)


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of it.

    Attributes:
        done: what was done, in a sentence; empty: nothing was.
        findings: what Slurm refused.
    """

    done: str = ""
    findings: tuple[Finding, ...] = ()


def prove_rights(config: Config, gateway: Gateway, snapshot: Snapshot, account: str, as_operator: bool) -> Proof:
    """Submit a held job, change it as fragments are changed, and cancel it; it is gone afterwards.

    A job of one's own may be changed by anybody, but for its priority, which only an operator may raise: that
    shows whether the jobs of others may be steered, too.

    Args:
        config: the settings.
        gateway: the way to Slurm.
        snapshot: what there is.
        account: that of the daemon, as which this runs.
        as_operator: whether it should be able to steer everybody's jobs.

    Raises:
        SlurmUnreachableError: Slurm does not answer.
    """
    queue = config.slurm.queue
    try:
        printed = perform_patiently(gateway, commands.submit_held(queue, _NAME, _NAME), NO_SCRIPT)
    except _REFUSED as error:
        what = f"Slurm lets {account} submit nothing to {queue} ({error.what}): no daemon leaves a mark there."
        return Proof(findings=(Finding(what, f"sacctmgr show assoc user={account}", False),))
    job = printed.strip().partition(";")[0]
    found = []
    try:
        for what, mend, command in _steps(config, snapshot, account, job, as_operator):
            try:
                perform_patiently(gateway, command, pauses_s=USERS_PAUSES_S)
            except _REFUSED as error:
                found.append(Finding(f"Slurm does not let {account} {what}: {error.what}", mend))
    finally:
        found += _cancel(gateway, job)
    done = f"As {account}, job {job} was submitted to {queue}, held, changed as fragments are, and cancelled."
    return Proof(done, tuple(found))


def _steps(
    config: Config, snapshot: Snapshot, account: str, job: str, as_operator: bool
) -> Iterator[tuple[str, str, Command]]:
    """What is tried, what mends it where it is refused, and the command."""
    operator = f"sacctmgr -i modify user {account} set AdminLevel=Operator"
    queue = config.slurm.queue
    nodes = () if queue.missing(snapshot.partitions) else queue.among(snapshot.partitions).nodes
    if node := min(nodes, default=""):
        yield "pin a job to a node", operator, commands.pin(job, (node,), 120.0)
    yield "change a job's time limit", operator, commands.set_limit(180.0, job)
    yield "change a job's comment", operator, commands.set_comment(job, _NAME)
    if as_operator:
        yield "do what only an operator may (raise a job's priority)", operator, commands.raise_priority(job)


def _cancel(gateway: Gateway, job: str) -> Iterator[Finding]:
    with suppress(SlurmError):
        gateway.perform(commands.cancel(job))
        return
    yield Finding(f"Job {job}, which was submitted to prove the rights, could not be cancelled.", f"scancel {job}")
