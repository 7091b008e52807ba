"""The launcher that submits fragments itself: a tagged, held job is the pattern, and is never started.

The daemon submits under its own account, for trainings that this account submitted; as root it submits as the
owner of the pattern.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from freetrain.core.amounts import Amount
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.job import Job
from freetrain.core.node import Node
from freetrain.slurm import commands, queries
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmRefusedError
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.launcher import Launcher, Order
from freetrain.slurm.preconditions import OF_PATTERNS, Candidate, why_not_yet
from freetrain.slurm.submissions import Submission

_COMMENT = re.compile(r"freetrain-fragment:of=(?P<trainer>[0-9_]+),node=[^,]+,at=[0-9]+")
_NO_LIMIT = 100_000
_OURS = re.compile(
    r"#SBATCH\s+(?:-[aNHtpwxdQWs]|--(?:array|nodes|hold|time|time-min|partition|comment|requeue|no-requeue|nodelist"
    r"|exclude|dependency|begin|parsable|wait|quiet|job-name|uid|gid|exclusive|oversubscribe|mem)\b)"
)
_OF_PARTS = re.compile(r"#SBATCH\s+(?:-G|--(?:gres|gpus|gpus-per-node|gpus-per-task|gpus-per-socket|mincpus)\b)")


@dataclass(frozen=True, slots=True)
class Pattern:
    """Script and options that a submission's fragments are made from.

    Attributes:
        directory: the directory that it was submitted in.
        account: the account that it is charged to; empty: the owner's default.
        qos: its QOS; empty: the owner's default.
    """

    script: str
    directory: str
    account: str = ""
    qos: str = ""


class Submitting(Launcher):
    """Launcher of a new job for each node. Pure but for reading: see :class:`freetrain.slurm.launcher.Launcher`.

    ``act_as`` gives the words before sbatch that submit as a user, none for the daemon's own; None: it may not.
    """

    def __init__(
        self, partition: str, read_pattern: Callable[[str], Pattern], act_as: Callable[[str], Command | None]
    ) -> None:
        self._partition = partition
        self._read_pattern = read_pattern
        self._act_as = act_as

    runs_tasks = False

    def why_not(self, submission: Submission, some_completed: bool = False) -> str:
        """Reason why it cannot be a trainer, as where only root can submit it or it has no script; empty: none."""
        if self._act_as(submission.owner) is None:
            return "freetrain runs the trainings of its own account only here"
        if submission.good_tag is not None and submission.good_tag.is_filler:
            return "kind=tasks needs lend.launcher = steer: here fragments are copies of one job"
        try:
            if submission.waits:
                self._read_pattern(submission.id)
        except SlurmRefusedError as error:
            return error.what
        return ""

    def why_not_yet(self, submission: Submission, now_s: float, has_run: bool) -> str:
        """First unmet precondition of its pattern; empty: none. sbatch takes none over into a fragment."""
        return why_not_yet(Candidate(submission, now_s, has_run), OF_PATTERNS)

    def room(self, submission: Submission) -> int:
        """Number of fragments that it can have: any as long as the pattern waits, then those that it has."""
        return _NO_LIMIT if submission.waits else len(submission.fragments)

    def lend(
        self, submission: Submission, nodes: Sequence[str], limits_s: Sequence[float], now_s: float, task: str = ""
    ) -> Sequence[Fragment]:
        """Fragments, a new job for each node; until Slurm has given it a number it goes by its comment."""
        # Two fragments on parts of one node must not have the same name.
        before = [nodes[:at].count(node) for at, node in enumerate(nodes)]
        return [
            Fragment(
                f"freetrain-fragment:of={submission.id},node={node},at={now_s * 1000 + number:.0f}",
                submission.id,
                node,
                FragmentState.ASKED,
                now_s,
                limit_s,
            )
            for node, limit_s, number in zip(nodes, limits_s, before, strict=True)
        ]

    def gives(self, submission: Submission, amount: Amount, asked: Amount) -> Amount:
        """Amount to give: more memory for all, and more CPUs where there is one process to have them."""
        return amount if submission.needs.processes == 1 else replace(amount, cpus=asked.cpus)

    def place(
        self, submission: Submission, fragment: Fragment, nodes: Sequence[Node], amount: Amount | None = None
    ) -> Order:
        """Submit the fragment for this node only: all of it, or as much of it as the pattern asks for, or more."""
        pattern, needs = self._read_pattern(submission.id), submission.needs
        options = {"chdir": pattern.directory, "account": pattern.account, "qos": pattern.qos}
        if amount is not None:
            needs = replace(needs, cpus=amount.cpus, memory_mb=amount.memory_mb)
        if needs.in_part:
            gres = ",".join(f"{name}:{count}" for name, count in needs.gres)
            options |= {"mincpus": str(needs.cpus), "gres": gres}
        if amount is not None and needs.processes == 1:
            options["cpus-per-task"] = str(amount.cpus)
        command = commands.submit_fragment(
            fragment.node,
            fragment.limit_s,
            self._partition,
            fragment.job,
            f"freetrain-{fragment.trainer}",
            needs.memory_mb,
            options,
            is_whole=not needs.in_part,
        )
        before: Command = self._act_as(submission.owner) or ()
        why = f"lend {fragment.node} to {submission.id}"
        return Order(before + command, why, fragment_script(fragment, pattern, needs.in_part))

    def stop(self, fragments: Sequence[Fragment], why: str) -> Sequence[Order]:
        """Cancel the fragments whose jobs have a number."""
        known = [fragment.job for fragment in fragments if is_named(fragment)]
        return [Order(commands.cancel(*known), why)] if known else []

    def placed(self, fragment: Fragment, printed: str) -> Fragment:
        """The fragment with the number that sbatch printed."""
        return replace(fragment, job=printed.strip().partition(";")[0])

    def recognise(self, fragments: Iterable[Fragment], jobs: Iterable[Job]) -> Sequence[Fragment]:
        """Find by their comments those whose submission got no answer."""
        fragments = list(fragments)
        if all(map(is_named, fragments)):
            return fragments
        numbers = {job.comment: job.id for job in jobs}
        return [
            fragment
            if is_named(fragment) or fragment.job not in numbers
            else replace(fragment, job=numbers[fragment.job])
            for fragment in fragments
        ]

    def of_trainer(self, job: Job) -> str | None:
        """Trainer that the job's comment names; None: it is not a fragment."""
        match = _COMMENT.fullmatch(job.comment)
        return match["trainer"] if match else None

    def tidy(
        self, submission: Submission, needed_again: Callable[[Job], bool], jobs: Iterable[Job]
    ) -> Sequence[Order]:
        """Hold a pattern that its owner forgot to hold; end fragments that wait to run a second time."""
        stray = [task.id for task in submission.tasks if task.state.is_waiting and not task.is_held]
        known = {fragment.job for fragment in submission.fragments}
        # Slurm requeues a job whose node crashes while it starts there, although it was submitted with --no-
        # requeue.
        again = [
            job.id
            for job in jobs
            if job.state.is_waiting
            and job.comment.startswith(f"freetrain-fragment:of={submission.id},")
            and not {job.id, job.comment} & known
        ]
        orders = []
        if stray:
            why = f"{submission.id} is a pattern for fragments and does not start itself"
            orders.append(Order(commands.hold(*stray), why))
        if again:
            orders.append(Order(commands.cancel(*again), f"{len(again)} fragments of {submission.id} have ended"))
        return orders

    def end(self, submission: Submission, why: str) -> Sequence[Order]:
        """Cancel the pattern and its fragments."""
        known = [fragment.job for fragment in submission.fragments if fragment.job.isdigit()]
        return [Order(commands.cancel(submission.id, *known), why)]


def fragment_script(fragment: Fragment, pattern: Pattern, in_part: bool = False) -> str:
    """The batch script of a fragment: the owner's, without what freetrain decides."""
    lines = pattern.script.splitlines()
    shebang = lines[0].removeprefix("#!").strip() if lines and lines[0].startswith("#!") else "/bin/bash"
    # The owner's script stands in a here-document, which would end at a line that is equal to its mark.
    mark = "FREETRAIN_END_OF_SCRIPT"
    while mark in lines:
        mark += "_"
    environment = Environment(
        loader=PackageLoader("freetrain.slurm", "."), undefined=StrictUndefined, trim_blocks=True, autoescape=False
    )
    environment.filters["quote"] = shlex.quote
    options = [line for line in lines if line.startswith("#SBATCH") and not _OURS.match(line)]
    return environment.get_template("fragment.sh.j2").render(
        node=fragment.node,
        trainer=fragment.trainer,
        limit_s=int(fragment.limit_s),
        directives=[line for line in options if not (in_part and _OF_PARTS.match(line))],
        directory=pattern.directory,
        interpreter=shebang,
        mark=mark,
        script=pattern.script.rstrip("\n"),
    )


def is_named(fragment: Fragment) -> bool:
    """Whether Slurm has shown its job, or answered to the order that submitted it."""
    return not fragment.job.startswith("freetrain-fragment:")


_WORK_DIRECTORY = re.compile(r"\bWorkDir=(.+?) (?:(?:Admin|System)?Comment|Extra|StdErr)=")
_ACCOUNT, _QOS = re.compile(r"\bAccount=(\S+)"), re.compile(r"\bQOS=(\S+)")


def pattern_reader(gateway: Gateway) -> Callable[[str], Pattern]:
    """Reader of the pattern of a submission, which asks Slurm once for each.

    It raises a SlurmRefusedError where Slurm keeps no script of the submission, or does not show it.
    """

    @cache
    def read(submission: str) -> Pattern:
        script = gateway.perform(queries.ask_script(submission))
        facts = gateway.perform(queries.show_job(submission))
        matches = (what.search(facts) for what in (_WORK_DIRECTORY, _ACCOUNT, _QOS))
        # Slurm shows none of it, or has a word for none.
        directory, account, qos = (
            match[1] if match and match[1] not in ("(null)", "N/A") else "" for match in matches
        )
        if not directory:
            raise SlurmRefusedError(f"Slurm does not say where job {submission} was submitted.")
        return Pattern(script, directory, account, qos)

    return read


def act_as(user: str) -> Command | None:
    """Words before a command that run it as this user with their groups; None: this process may not."""
    try:
        known = pwd.getpwnam(user)
    except KeyError:
        return None
    if known.pw_uid == os.geteuid():
        return ()
    if os.geteuid() != 0:
        return None
    return ("setpriv", f"--reuid={known.pw_uid}", f"--regid={known.pw_gid}", "--init-groups")
