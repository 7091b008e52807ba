"""Whether people may hand in trainings with the QOS of fragments, and nothing else with it unawares. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from freetrain.slurm.finding import Finding
from freetrain.slurm.terms_facts import Association


def judge_people(qos: str, associations: Sequence[Association], is_enforced: bool) -> Iterator[Finding]:
    """What is not as it should be.

    1. Nobody's jobs have it without asking for it: they would be taken for fragments, and be preempted.
    2. Somebody may ask for it.

    Args:
        qos: that of fragments, by which they are told from the site's jobs.
        associations: accounts and users.
        is_enforced: whether Slurm keeps jobs from QOS that they may not have.
    """
    unaware = {one.account for one in associations if not one.user and one.default_qos == qos}
    users = [one for one in associations if one.user and one.default_qos == qos and one.account not in unaware]
    for account in sorted(unaware):
        what = (
            f"Jobs of account {account} that name no QOS have that of fragments, {qos}: they would be preempted."
        )
        yield Finding(what, f"sacctmgr -i modify account {account} set DefaultQOS=-1")
    for one in users:
        yield Finding(
            f"Jobs of {one.user} (account {one.account}) that name no QOS have that of fragments ({qos}), and are "
            "preempted.",
            f"sacctmgr -i modify user {one.user} where account={one.account} set DefaultQOS=-1",
        )
    accounts = sorted({one.account for one in associations} - {"root"})
    if is_enforced and accounts and not any(qos in one.qos for one in associations):
        yield Finding(
            f"No account may use QOS {qos}: nobody can hand a training in.",
            f"sacctmgr -i modify account {','.join(accounts)} set QOS+={qos}",
            False,
        )
