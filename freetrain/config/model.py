"""The settings: one model, from which come the checks, the example file, the reference page and the man page."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from freetrain.config.values import (
    Address,
    Amount,
    AmountText,
    Duration,
    NetworkList,
    NodeList,
    Period,
    Words,
)
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.power import PowerDraw


class Section(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Slurm(Section):
    """How freetrain talks to Slurm."""

    backend: Annotated[
        Literal["auto", "cli", "pyslurm"],
        Field(description="Slurm's commands or pyslurm; auto: pyslurm where it is installed and answers."),
    ] = "auto"
    partition: Annotated[
        str,
        Field(
            description="The partition in which fragments run; its nodes are those that may be lent. It is "
            "preemptible and freetrain's own, unless slurm.qos is set; then there may be several, as a,b."
        ),
    ] = "freetrain"
    qos: Annotated[
        str,
        Field(
            description="The preemptible QOS of fragments, where the site's jobs run in their partition, too "
            "(PreemptType=preempt/qos): jobs there with another QOS are the site's. Empty: all jobs in the "
            "partition are freetrain's."
        ),
    ] = ""
    timeout: Annotated[Duration, Field(description="How long one question to Slurm may take.")] = 30.0

    @model_validator(mode="after")
    def _several_partitions_have_a_qos(self) -> Slurm:
        if "," in self.partition and not self.qos:
            raise ValueError("partition names several: fragments need a QOS of their own then (slurm.qos)")
        return self

    @property
    def queue(self) -> FragmentQueue:
        """Where fragments wait and run."""
        return FragmentQueue(self.partition, self.qos)


class Lend(Section):
    """What may be lent, and to whom."""

    mode: Annotated[
        Literal["observe", "advise", "act"],
        Field(
            description="observe: watch and record what would be done; advise: also print the commands; "
            "act: carry them out."
        ),
    ] = "observe"
    launcher: Annotated[
        Literal["steer", "submit"],
        Field(
            description="steer: the users' own held array tasks are pinned and released; submit: freetrain "
            "submits fragments itself."
        ),
    ] = "steer"
    share: Annotated[
        Literal["whole", "gpus", "any"],
        Field(
            description="How much of a node is lent. whole: all of it, and only where no job has any of it; gpus: "
            "to tasks that ask for GPUs also the part that they ask for, beside other jobs; any: to all tasks."
        ),
    ] = "whole"
    keep: Annotated[
        AmountText,
        Field(description='What stays free on a node that is lent in parts, as "cpu=4,mem=16G" (and gres/gpu=1).'),
    ] = ""
    exclude_nodes: Annotated[NodeList, Field(description="Nodes never to lend, as c[01-04,17] or @group.")] = ""
    reserve_nodes: Annotated[int, Field(ge=0, description="Idle nodes to leave alone, always.")] = 0
    next_in_line: Annotated[
        Duration,
        Field(
            description="Nodes on which the first waiting job of a partition will start are kept free as soon as "
            "one more end of a running job lets it start, and is expected within this time; 0: never."
        ),
    ] = 60.0
    most_nodes: Annotated[int, Field(ge=0, description="Most nodes to lend at once; 0: no limit.")] = 0
    spare_suspendable: Annotated[
        bool,
        Field(
            description="Leave nodes alone that Slurm powers down when they are idle for SuspendTime: a lent node "
            "never is, and stays powered up."
        ),
    ] = False
    idle_for: Annotated[Duration, Field(description="How long a node must have been idle before it is lent.")] = (
        0.0
    )
    shortest_hole: Annotated[Duration, Field(description="Holes expected to be shorter are left alone.")] = 120.0
    longest_fragment: Annotated[
        Duration, Field(description="Time limit of a fragment whose node nobody is expected to want.")
    ] = 86400.0
    margin: Annotated[
        Duration,
        Field(
            description="A fragment's limit ends this long before its hole: Slurm enforces limits up to 30 s late."
        ),
    ] = 60.0
    max_running: Annotated[
        int, Field(ge=1, description="Most trainers that may compete at once, of those that could run now.")
    ] = 100
    fair_share: Annotated[
        Literal["user", "account", "off"],
        Field(
            description="user: users share the nodes equally; account: accounts do, and the users within each; "
            "off: all trainers compete by the objective alone."
        ),
    ] = "user"
    half_life: Annotated[
        Duration,
        Field(
            ge=3600,
            description="Past use of nodes tilts the shares, to half of an equal one at most; after this time it "
            "counts half.",
        ),
    ] = 7 * 86400.0
    shares: Annotated[
        dict[str, Annotated[float, Field(ge=0.01, le=100)]],
        Field(
            description="Users (or accounts, if they share) that get more or less than others, each with its "
            "weight from 0.01 to 100; those not named count 1."
        ),
    ] = {}
    most_nodes_per_user: Annotated[
        int, Field(ge=0, description="Most nodes lent to one user at once; 0: no limit.")
    ] = 0
    most_nodes_per_account: Annotated[
        int, Field(ge=0, description="Most nodes lent to one account at once; 0: no limit.")
    ] = 0
    most_trainers_per_user: Annotated[
        int, Field(ge=0, description="Most trainers of one user that may compete at once; 0: no limit.")
    ] = 0

    @property
    def in_parts(self) -> bool:
        """Whether parts of nodes are lent."""
        return self.share != "whole"

    @model_validator(mode="after")
    def _limits_need_people(self) -> Lend:
        if self.fair_share == "off" and (
            self.most_nodes_per_user or self.most_nodes_per_account or self.most_trainers_per_user
        ):
            raise ValueError('limits per user and account need fair_share = "user" or "account"')
        return self


class Decide(Section):
    """How it is decided who gets what."""

    policy: Annotated[str, Field(description="As in 'freetrain replay --policy'.")] = "freetrain"
    place: Annotated[
        str,
        Field(
            description="Which nodes they are, as in 'freetrain replay --place'; the switches are those of "
            "'scontrol show topology'."
        ),
    ] = "first"
    finish: Annotated[
        Literal["as-asked", "synergy-tune", "synergy-opt"],
        Field(
            description="Where parts of nodes are lent: as-asked: what a task asks for; synergy-tune: with GPUs "
            "more CPUs or memory, of what is left, for trainings that wait for data; synergy-opt: the same, "
            "divided such that they are fastest together."
        ),
    ] = "as-asked"
    objective: Annotated[str, Field(description="As in 'freetrain replay --objective'.")] = "weighted"
    horizon: Annotated[
        Duration,
        Field(
            description="How far ahead value is counted; 0: as long as idle nodes are expected to stay, which is "
            "learned."
        ),
    ] = 0.0


class Pace(Section):
    """How often things happen."""

    poll: Annotated[Period, Field(description="How often Slurm is asked; four questions each time.")] = 10.0
    cool_down: Annotated[Duration, Field(description="How long a node that was taken back is not lent again.")] = (
        0.0
    )
    back_off: Annotated[
        Duration, Field(description="How long a trainer rests after its fragments failed; doubles each time.")
    ] = 60.0
    failures_to_pause: Annotated[
        int, Field(ge=1, description="Failures in a row after which a trainer is paused until its owner looks.")
    ] = 5


class Harm(Section):
    """When freetrain lends nothing for a while by itself, since lending did too much harm."""

    limit: Annotated[
        Duration, Field(description="Delay of one of the site's jobs, caused by a fragment, that is too much.")
    ] = 60.0
    within: Annotated[
        Duration,
        Field(description="Over what time such delays, lost nodes and evictions are counted."),
    ] = 3600.0
    allowed: Annotated[
        int, Field(ge=0, description="How many such delays, and how many lost nodes, are tolerated in that time.")
    ] = 3
    evictions: Annotated[
        int,
        Field(
            ge=0,
            description="How many evictions are tolerated in that time; 0: any number. Each node that Slurm takes "
            "back counts, so a site's job on 100 lent nodes is 100 evictions.",
        ),
    ] = 0
    pause: Annotated[
        Duration,
        Field(description="How long freetrain then lends nothing, from the last of those that were too many."),
    ] = 3600.0


class State(Section):
    """Where freetrain keeps what it knows."""

    directory: Annotated[str, Field(description="On a local disk; holds the database and the lock.")] = (
        "/var/lib/freetrain"
    )
    keep: Annotated[
        Duration,
        Field(
            description="How long decisions, commands and delays are remembered; the report of a month needs one."
        ),
    ] = 35 * 86400.0
    stop_file: Annotated[
        str, Field(description="While this file exists nothing is lent and everything lent is taken back.")
    ] = "/run/freetrain/STOP"


class Metrics(Section):
    """Where Prometheus finds freetrain's own metrics."""

    textfile: Annotated[
        str,
        Field(
            description="File that is written after each look, for node_exporter's textfile collector, as "
            "/var/lib/node_exporter/freetrain.prom; empty: none."
        ),
    ] = ""
    listen: Annotated[
        Address,
        Field(description="Address and port on which GET /metrics is answered, as 127.0.0.1:9810; empty: none."),
    ] = ""
    allow: Annotated[
        NetworkList,
        Field(
            description='Who is answered there: addresses and networks, as "127.0.0.0/8,::1,10.1.0.0/16"; anybody '
            "else is refused. By default this machine alone."
        ),
    ] = "127.0.0.0/8,::1"


class Notify(Section):
    """Whom freetrain tells of its own accord what happened."""

    command: Annotated[
        Words,
        Field(
            description="Command that is run, without a shell, when a job of the site had to wait for fragments "
            "longer than harm.limit (harm), when nothing more is lent (pause), and when a training is paused, a "
            "node lost or Slurm silent for five minutes (failure). It reads what happened on standard input, and "
            "finds the kind in FREETRAIN_KIND; empty: none."
        ),
    ] = ""
    owners_command: Annotated[
        Words,
        Field(
            description="Command that is run in the same way for the owner of a training when it is registered, "
            'finished, or paused after failures, as "/usr/sbin/sendmail -t": it reads a whole mail on standard '
            "input, and finds the kind in FREETRAIN_KIND and the owner in FREETRAIN_OWNER; empty: none."
        ),
    ] = ""
    templates: Annotated[
        str,
        Field(
            description="Directory with texts of the site's own, for_admins.j2 or for_owners.j2 (Jinja); empty: "
            "freetrain's."
        ),
    ] = ""
    every: Annotated[
        Duration,
        Field(
            description="Each command runs once in this time for each kind, and owner, at most; what happens "
            "meanwhile comes with the next."
        ),
    ] = 3600.0
    timeout: Annotated[Period, Field(description="How long each may run before it is ended.")] = 30.0


class Prices(Section):
    """What the site's nodes have and cost: replays and the ledger say by it what idle nodes are worth."""

    currency: Annotated[str, Field(max_length=8, description="In which the prices are.")] = "EUR"
    gpus_per_node: Annotated[
        Amount, Field(description="GPUs of each node; 0: not known, and what follows from it is left out.")
    ] = 0.0
    watts_per_node: Annotated[Amount, Field(description="What a node takes that trains; 0: not known.")] = 0.0
    idle_watts_per_node: Annotated[
        Amount, Field(description="What a node takes without a job, which is switched on anyway.")
    ] = 0.0
    watts_of: Annotated[
        dict[str, Amount],
        Field(
            description="What nodes of some kinds take that train, by feature or type of GPU (in a replay by "
            'pool of the machine file), as {"a100"=2400}; all others, and all in the ledger, take watts_per_node.'
        ),
    ] = {}
    idle_watts_of: Annotated[
        dict[str, Amount],
        Field(description="What they take without a job, likewise; all others take idle_watts_per_node."),
    ] = {}
    per_kwh: Annotated[
        Amount, Field(description="Price of a kWh of electricity, cooling included; 0: not known.")
    ] = 0.0
    per_gpu_hour: Annotated[Amount, Field(description="What a GPU-hour costs elsewhere; 0: not known.")] = 0.0

    @property
    def say_anything(self) -> bool:
        """Whether anything follows from them."""
        return bool(self.gpus_per_node or self.draw.is_known)

    @property
    def draw(self) -> PowerDraw:
        """What lent nodes take beyond what they take idle."""

        def beyond_idle(watts: float, kind: str) -> float:
            return max(watts - self.idle_watts_of.get(kind, self.idle_watts_per_node), 0.0)

        of_kind_w = {kind: beyond_idle(watts, kind) for kind, watts in self.watts_of.items()}
        return PowerDraw(beyond_idle(self.watts_per_node, "") if self.watts_per_node else 0.0, of_kind_w)


Level = Literal["debug", "info", "warning", "error"]


class Log(Section):
    """How the daemon logs; its lines go to standard error, and from there to the journal."""

    format: Annotated[
        Literal["text", "json"],
        Field(description="text: lines for people; json: one object a line, for programs that collect logs."),
    ] = "text"
    level: Annotated[Level, Field(description="What is less important than this is not logged.")] = "info"
    levels: Annotated[
        dict[str, Level],
        Field(
            description='Loggers that say more or less than others, each with its level, as {"freetrain.slurm"='
            '"debug"}; what lies within one (freetrain.slurm.opening) follows it. alembic and apscheduler have '
            "warning unless they are named."
        ),
    ] = {}


class Config(Section):
    """Everything that can be set."""

    slurm: Slurm = Slurm()
    lend: Lend = Lend()
    decide: Decide = Decide()
    pace: Pace = Pace()
    harm: Harm = Harm()
    state: State = State()
    metrics: Metrics = Metrics()
    notify: Notify = Notify()
    prices: Prices = Prices()
    log: Log = Log()


NEEDS_RESTART = frozenset({"slurm", "state", "metrics", "lend.launcher", "lend.share", "pace.poll", "log.format"})
"""Sections and settings that a running daemon cannot change."""
