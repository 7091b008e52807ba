"""The tables of the settings file: each setting with its type, default, meaning and bounds.

The docstring of a table is its paragraph in the documents.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from freetrain.config.values import (
    AbsolutePath,
    Address,
    AmountText,
    CommandWords,
    Duration,
    NetworkList,
    NodeList,
    NonNegative,
    Period,
    Section,
    SettingsTogetherError,
    setting,
)
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.power import PowerDraw
from freetrain.durations import show_duration

_FailuresToPause = Annotated[
    Duration,
    Field(
        description="A training to which so much of its time is owed has a turn once in every such time; 0: never."
    ),
]
Level = Literal["debug", "info", "warning", "error"]


class Slurm(Section):
    """The site's Slurm, and how freetrain talks to it."""

    backend: Literal["auto", "cli", "pyslurm"] = setting(
        "auto", "Slurm's commands or pyslurm; auto: pyslurm where it is installed and answers."
    )
    partition: str = setting(
        "freetrain",
        "The partition in which fragments run; its nodes are those that may be lent. It is "
        "preemptible and freetrain's own, unless slurm.qos is set; then there may be several, as a,b.",
    )
    qos: str = setting(
        "",
        "The preemptible QOS of fragments, where the site's jobs run in their partition, too "
        "(PreemptType=preempt/qos): jobs there with another QOS are the site's. Empty: all jobs in the "
        "partition are freetrain's.",
    )
    timeout: Duration = setting(30.0, "How long one question to Slurm may take.")

    @model_validator(mode="after")
    def _several_partitions_have_a_qos(self) -> Slurm:
        if "," in self.partition and not self.qos:
            raise SettingsTogetherError(
                "partition names several: fragments need a QOS of their own then (slurm.qos)", 'qos = "freetrain"'
            )
        return self

    @property
    def queue(self) -> FragmentQueue:
        """The queue in which fragments wait and run."""
        return FragmentQueue(self.partition, self.qos)


class LendSettings(Section):
    """Nodes that may be lent, and the trainings that may have them."""

    mode: Literal["observe", "advise", "act"] = setting(
        "observe",
        "observe: watch and record what would be done; advise: also print the commands; act: carry them out.",
    )
    launcher: Literal["steer", "submit"] = setting(
        "steer",
        "steer: the users' own held array tasks are pinned and released; submit: freetrain "
        "submits fragments itself.",
    )
    share: Literal["whole", "gpus", "any"] = setting(
        "whole",
        "How much of a node is lent. whole: all of it, and only where no job has any of it; gpus: "
        "to tasks that ask for GPUs also the part that they ask for, beside other jobs; any: to all tasks.",
    )
    keep: AmountText = setting(
        "", 'What stays free on a node that is lent in parts, as "cpu=4,mem=16G" (and gres/gpu=1).'
    )
    exclude_nodes: NodeList = setting("", "Nodes never to lend, as c[01-04,17] or @group.")
    reserve_nodes: int = setting(0, "Idle nodes to leave alone, always.", ge=0)
    next_in_line: Duration = setting(
        60.0,
        "Whole nodes on which the first waiting job of a partition will start are kept free as "
        "soon as one more end of a running job lets it start, and is expected within this time; 0: never.",
    )
    most_nodes: int = setting(0, "Most nodes to lend at once; 0: no limit.", ge=0)
    spare_suspendable: bool = setting(
        False,
        "Leave nodes alone that Slurm powers down when they are idle for SuspendTime: a lent node "
        "never is, and stays powered up.",
    )
    idle_for: Duration = setting(0.0, "How long a node must have been idle before it is lent.")
    shortest_hole: Duration = setting(120.0, "Holes expected to be shorter are left alone.")
    longest_fragment: Duration = setting(
        86400.0, "Time limit of a fragment whose node nobody is expected to want."
    )
    margin: Duration = setting(
        60.0, "A fragment's limit ends this long before its hole: Slurm enforces limits up to 30 s late."
    )
    max_running: int = setting(100, "Most trainers that may compete at once, of those that could run now.", ge=1)
    fair_share: Literal["user", "account", "off"] = setting(
        "user",
        "user: users share the nodes equally; account: accounts do, and the users within each; "
        "off: all trainers compete by the objective alone.",
    )
    half_life: Duration = setting(
        7 * 86400.0,
        "Past use of nodes tilts the shares, to half of an equal one at most; after this time it counts half.",
        ge=3600,
    )
    shares: dict[str, Annotated[float, Field(ge=0.01, le=100)]] = setting(
        {},
        "Users (or accounts, if they share) that get more or less than others, each with its "
        "weight from 0.01 to 100; those not named count 1.",
    )
    most_nodes_per_user: int = setting(0, "Most nodes lent to one user at once; 0: no limit.", ge=0)
    most_nodes_per_account: int = setting(0, "Most nodes lent to one account at once; 0: no limit.", ge=0)
    most_trainers_per_user: int = setting(
        0, "Most trainers of one user that may compete at once; 0: no limit.", ge=0
    )

    @property
    def in_parts(self) -> bool:
        """Whether parts of nodes are lent."""
        return self.share != "whole"

    @model_validator(mode="after")
    def _limits_need_people(self) -> LendSettings:
        if self.fair_share == "off" and (
            self.most_nodes_per_user or self.most_nodes_per_account or self.most_trainers_per_user
        ):
            raise SettingsTogetherError(
                'limits per user and account need fair_share = "user" or "account"', 'fair_share = "user"'
            )
        return self


class HarmSettings(Section):
    """Pauses that freetrain makes by itself, since lending did too much harm."""

    limit: Duration = setting(60.0, "Delay of one of the site's jobs, caused by a fragment, that is too much.")
    within: Duration = setting(3600.0, "Over what time such delays, lost nodes and evictions are counted.")
    allowed: int = setting(3, "How many such delays, and how many lost nodes, are tolerated in that time.", ge=0)
    evictions: int = setting(
        0,
        "How many evictions are tolerated in that time; 0: any number. Each node that Slurm takes "
        "back counts, so a site's job on 100 lent nodes is 100 evictions.",
        ge=0,
    )
    pause: Duration = setting(
        3600.0, "How long freetrain then lends nothing, from the last of those that were too many."
    )


class State(Section):
    """Files in which freetrain keeps what it knows."""

    directory: AbsolutePath = setting("/var/lib/freetrain", "On a local disk; holds the database and the lock.")
    keep: Duration = setting(
        35 * 86400.0,
        "How long decisions, commands, delays and the times of single nodes are remembered; the "
        "report of a month needs one. What users and accounts were lent on each day stays.",
    )
    stop_file: AbsolutePath = setting(
        "/run/freetrain/STOP", "While this file exists nothing is lent and everything lent is taken back."
    )


class GadgetOptions(Section):
    """Options of the policy gadget."""

    utility: Literal["linear", "log", "fair"] = setting(
        "linear",
        "What the policy gadget sums up, of the part of its target that a training has done; with "
        "log, and more with fair, those that have done least gain most.",
    )
    patience: _FailuresToPause = 86400.0


class SmdOptions(Section):
    """Options of the policy smd."""

    sizes: Literal["fastest", "menu"] = setting(
        "fastest",
        "What the policy smd chooses from: fastest: each training's fastest size or nothing; "
        "menu: smaller sizes, too.",
    )
    patience: _FailuresToPause = 86400.0


class Decide(Section):
    """Decisions: the policy, its objective and its horizon."""

    policy: str = setting("freetrain", "As in 'freetrain replay --policy'.")
    place: str = setting(
        "first",
        "Which nodes they are, as in 'freetrain replay --place'; the switches are those of "
        "'scontrol show topology'.",
    )
    finish: str = setting(
        "as-asked",
        "Where parts of nodes are lent: as-asked: what a task asks for; synergy-tune: with GPUs "
        "more CPUs or memory, of what is left, for trainings that wait for data; synergy-opt: the same, "
        "divided such that they are fastest together; or what a package brings.",
    )
    objective: str = setting("weighted", "As in 'freetrain replay --objective'.")
    horizon: Duration = setting(
        0.0, "How far ahead value is counted; 0: as long as idle nodes are expected to stay, which is learned."
    )
    solver: Literal["auto", "highs"] = setting(
        "auto",
        "Of the policy freetrain. auto: an exact dynamic programme where all nodes are alike, columns where they "
        "are not; highs: the whole model in HiGHS, which begins from what auto finds and takes longer.",
    )
    second_opinion: int = setting(
        100,
        "One in so many decisions is solved again by HiGHS as a whole model, in a process of its own with the "
        "lowest priority; a difference is logged, counted in the metrics, and its problem kept. 0: none is.",
        ge=0,
    )
    gadget: GadgetOptions = GadgetOptions()
    smd: SmdOptions = SmdOptions()

    @property
    def policy_with_options(self) -> str:
        """The policy as 'freetrain replay --policy' takes it: its options, where they differ from the defaults."""
        options = getattr(self, self.policy, None)
        if not isinstance(options, GadgetOptions | SmdOptions):
            return self.policy
        chosen = options.model_dump(exclude_defaults=True)
        shown = (
            f"{name}={show_duration(value) if isinstance(value, float) else value}"
            for name, value in chosen.items()
        )
        return ",".join((self.policy, *shown))


class Pace(Section):
    """Intervals: looks, rests and failures."""

    poll: Period = setting(10.0, "How often Slurm is asked; four questions each time.")
    cool_down: Duration = setting(0.0, "How long a node that was taken back is not lent again.")
    back_off: Duration = setting(60.0, "How long a trainer rests after its fragments failed; doubles each time.")
    failures_to_pause: int = setting(
        5, "Failures in a row after which a trainer is paused until its owner looks.", ge=1
    )


class LinksSettings(Section):
    """Bandwidth of the links between the site's nodes, for policies that reserve it, as gadget."""

    node_gbit: NonNegative = setting(
        0.0,
        "Gbit/s of the link between a node and its switch, each way (the slowest node's); 0: not "
        "known, and nothing is reserved.",
    )
    uplink_gbit: NonNegative = setting(
        0.0,
        "Gbit/s of all links together from a leaf switch of 'scontrol show topology' to the others; 0: likewise.",
    )

    @property
    def are_known(self) -> bool:
        """Whether anything can be reserved."""
        return bool(self.node_gbit or self.uplink_gbit)


class Prices(Section):
    """Equipment and prices of the site's nodes: replays and the ledger say by it what idle nodes are worth."""

    currency: str = setting("EUR", "In which the prices are.", max_length=8)
    gpus_per_node: NonNegative = setting(
        0.0, "GPUs of each node; 0: not known, and what follows from it is left out."
    )
    watts_per_node: NonNegative = setting(0.0, "What a node takes that trains; 0: not known.")
    idle_watts_per_node: NonNegative = setting(
        0.0, "What a node takes without a job, which is switched on anyway."
    )
    watts_of: dict[str, NonNegative] = setting(
        {},
        "What nodes of some kinds take that train, by feature or type of GPU (in a replay by "
        'pool of the machine file), as {"a100"=2400}; all others, and all in the ledger, take watts_per_node.',
    )
    idle_watts_of: dict[str, NonNegative] = setting(
        {}, "What they take without a job, likewise; all others take idle_watts_per_node."
    )
    per_kwh: NonNegative = setting(0.0, "Price of a kWh of electricity, cooling included; 0: not known.")
    per_gpu_hour: NonNegative = setting(0.0, "What a GPU-hour costs elsewhere; 0: not known.")

    @property
    def say_anything(self) -> bool:
        """Whether anything follows from them."""
        return bool(self.gpus_per_node or self.draw.is_known)

    @property
    def draw(self) -> PowerDraw:
        """Power draw of lent nodes beyond their draw when idle."""

        def beyond_idle(watts: float, kind: str) -> float:
            return max(watts - self.idle_watts_of.get(kind, self.idle_watts_per_node), 0.0)

        of_kind_w = {kind: beyond_idle(watts, kind) for kind, watts in self.watts_of.items()}
        return PowerDraw(beyond_idle(self.watts_per_node, "") if self.watts_per_node else 0.0, of_kind_w)


class MetricsSettings(Section):
    """Outlets of freetrain's own metrics, for Prometheus."""

    textfile: str = setting(
        "",
        "File that is written after each look, for node_exporter's textfile collector, as "
        "/var/lib/node_exporter/freetrain.prom; empty: none.",
    )
    listen: Address = setting(
        "", "Address and port on which GET /metrics is answered, as 127.0.0.1:9810; empty: none."
    )
    allow: NetworkList = setting(
        "127.0.0.0/8,::1",
        'Who is answered there: addresses and networks, as "127.0.0.0/8,::1,10.1.0.0/16"; anybody '
        "else is refused. By default this machine alone.",
    )


class FreezeSettings(Section):
    """Freezers: programs of the site's that save a filler's task which cannot save itself, each by its name."""

    launch: dict[str, str] = setting(
        {},
        'Line for a shell that starts the program, which is "$@"; $FREEZE_DIR is an empty directory for this run. '
        "docs/admins/freezers.md has examples. The table must be readable on the compute nodes.",
    )
    save: dict[str, str] = setting(
        {}, "Line that saves the program, process $FREEZE_PID, into $FREEZE_DIR; it may end the program."
    )
    thaw: dict[str, str] = setting(
        {}, "Line that lets the program go on that was saved in $FREEZE_IMAGE; $FREEZE_DIR is for the next save."
    )
    within: Period = setting(
        25.0, "How long a save may take; less than Slurm's KillWait, or than the GraceTime of fragments."
    )

    @model_validator(mode="after")
    def _each_has_three_lines(self) -> FreezeSettings:
        lines = {"launch": self.launch, "save": self.save, "thaw": self.thaw}
        names = sorted(set().union(*lines.values()))
        for name in names:
            for line, table in lines.items():
                if not table.get(name):
                    raise SettingsTogetherError(f"the freezer {name} has no {line}", f'{line} = {{{name} = "…"}}')
        return self


class WebSettings(Section):
    """Users of 'freetrain web': who they are, besides by the tokens that 'freetrain web token' makes."""

    user_header: str = setting(
        "",
        "Header in which a reverse proxy names the user that it has authenticated, as X-Remote-User. It counts "
        "from web.proxies only; the proxy must remove what a client sends of that name. Empty: none.",
    )
    proxies: NetworkList = setting(
        "",
        'Addresses of these proxies, as "10.1.0.5"; empty: none. On a machine where users log in any process may '
        "send any name: do not trust it, nor 127.0.0.1 there.",
    )


class NotifySettings(Section):
    """Commands by which freetrain tells people what happened."""

    command: CommandWords = setting(
        "",
        "Command that is run, without a shell, when a job of the site had to wait for fragments "
        "longer than harm.limit (harm), when nothing more is lent (pause), and when a training is paused, a "
        "node lost or Slurm silent for five minutes (failure). It reads what happened on standard input, and "
        "finds the kind in FREETRAIN_KIND; empty: none.",
    )
    owners_command: CommandWords = setting(
        "",
        "Command that is run in the same way for the owner of a training when it is registered, "
        'finished, paused after failures, or has lost work, as "/usr/sbin/sendmail -t": it reads a whole mail on '
        "standard input, and finds the kind in FREETRAIN_KIND and the owner in FREETRAIN_OWNER; empty: none.",
    )
    templates: str = setting(
        "", "Directory with texts of the site's own, for_admins.j2 or for_owners.j2 (Jinja); empty: freetrain's."
    )
    every: Duration = setting(
        3600.0,
        "Each command runs once in this time for each kind, and owner, at most; what happens "
        "meanwhile comes with the next.",
    )
    timeout: Period = setting(30.0, "How long each may run before it is ended.")


class Log(Section):
    """The daemon's log; its lines go to standard error, and from there to the journal."""

    format: Literal["text", "json"] = setting(
        "text", "text: lines for people; json: one object a line, for programs that collect logs."
    )
    level: Level = setting("info", "What is less important than this is not logged.")
    levels: dict[str, Level] = setting(
        {},
        'Loggers that say more or less than others, each with its level, as {"freetrain.slurm"='
        '"debug"}; what lies within one (freetrain.slurm.opening) follows it. alembic has '
        "warning, apscheduler error, unless they are named.",
    )
