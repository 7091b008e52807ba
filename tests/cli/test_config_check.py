"""Mistakes in slurm.conf, in accounting and in freetrain.toml: each is found, with the line that mends it."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from freetrain.cli.main import cli
from freetrain.errors import ExitCode
from freetrain.slurm.errors import SlurmUnreachableError
from freetrain.slurm.finding import Finding
from tests.cli.planted_site import NOTHING, Kind, PlantedSite, waiting_trainer

Plant = Callable[[PlantedSite], object]
Site = Callable[[Kind], PlantedSite]
UPDATE = "scontrol update PartitionName=freetrain"


@pytest.fixture
def new_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    def made(kind: Kind) -> PlantedSite:
        site = PlantedSite(tmp_path, kind)
        monkeypatch.setattr("freetrain.cli.config.OpenedWhenAsked", lambda *_: site)
        return site

    return made


def check(site: PlantedSite, *arguments: str) -> Result:
    site.write()
    command = ["config", "check", "--config", str(site.path), "--user", "freetrain", *arguments]
    return CliRunner().invoke(cli, command)


def findings(site: PlantedSite) -> list[dict[str, object]]:
    found = json.loads(check(site, "--json").stdout)["findings"]
    assert isinstance(found, list)
    return found


def lines(finding: dict[str, object]) -> list[tuple[str, str]]:
    mends = finding["mends"]
    assert isinstance(mends, list)
    return [(mend["place"], mend["line"]) for mend in mends]


def toml(text: str) -> Plant:
    return lambda site: setattr(site, "toml", text)


def conf(line: str) -> Plant:
    return lambda site: site.conf(line)


def ours(change: str) -> Plant:
    return lambda site: site.partition("freetrain", change)


def qos(name: str, **fields: str) -> Plant:
    return lambda site: site.qos[name].update(fields)


def associate(account: str, user: str | None = None, **fields: str) -> Plant:
    return lambda site: site.associate(account, user, **fields)


YEAR = "ReservationName=all StartTime=1700000000 EndTime=1800000000 Nodes=n[001-004] Flags=SPEC_NODES\n"
IN_SLURM_CONF = {
    "no preemption": (conf("PreemptType=preempt/none"), "PreemptType=preempt/partition_prio", True),
    "preemption off": (conf("PreemptMode=OFF"), "PreemptMode=REQUEUE", True),
    "priority decides": (conf("PreemptMode=REQUEUE,PRIORITY"), "PreemptMode=REQUEUE", True),
    "long exempt time": (conf("PreemptExemptTime=00:02:00"), "PreemptExemptTime=00:00:00", True),
    "long complete wait": (conf("CompleteWait=90 sec"), "CompleteWait=0", True),
    "youngest first": (
        conf("SchedulerParameters=bf_continue,preempt_youngest_first"), "SchedulerParameters=bf_continue", False
    ),
    "defer": (conf("SchedulerParameters=bf_continue,defer"), "SchedulerParameters=bf_continue", False),
    "exempt priority": (
        conf("PreemptParameters=strict_order,min_exempt_priority=9"), "PreemptParameters=strict_order", True
    ),
    "no backfill": (conf("SchedulerType=sched/builtin"), "SchedulerType=sched/backfill", False),
    "limits are not kept": (conf("OverTimeLimit=10 min"), f"{UPDATE} OverTimeLimit=0", False),
    "limits are not enforced": (
        conf("AccountingStorageEnforce=none"), "AccountingStorageEnforce=associations,limits,qos", False
    ),
    "nodes are powered down": (
        lambda site: (site.conf("SuspendTime=300 sec"), site.conf("SuspendProgram=/sbin/off")),
        "spare_suspendable = true", False,
    ),
    "tier of another too low": (
        lambda site: site.partition("debug", "PriorityTier=0"),
        "scontrol update PartitionName=debug PriorityTier=1", True,
    ),
    "tier too high": (ours("PriorityTier=1"), f"{UPDATE} PriorityTier=0", True),
    "default partition": (ours("Default=YES"), f"{UPDATE} Default=NO", True),
    "never preempted": (ours("PreemptMode=OFF"), f"{UPDATE} PreemptMode=REQUEUE", True),
    "suspended": (ours("PreemptMode=SUSPEND"), f"{UPDATE} PreemptMode=REQUEUE", True),
    "long grace time": (ours("GraceTime=600"), f"{UPDATE} GraceTime=0", True),
    "partition down": (ours("State=DOWN"), f"{UPDATE} State=UP", False),
    "root only": (ours("RootOnly=YES"), f"{UPDATE} RootOnly=NO", True),
    "reservations only": (ours("ReqResv=YES"), f"{UPDATE} ReqResv=NO", True),
    "several nodes only": (ours("MinNodes=2"), f"{UPDATE} MinNodes=0", True),
    "no nodes": (ours("MaxNodes=0"), f"{UPDATE} MaxNodes=1", True),
    "parts of nodes": (ours("MaxCPUsPerNode=8"), f"{UPDATE} MaxCPUsPerNode=UNLIMITED", False),
    "short jobs only": (ours("MaxTime=00:01:00"), f"{UPDATE} MaxTime=1-00:00:00", False),
    "an owner kept out": (
        lambda site: (setattr(site, "jobs", waiting_trainer("alice", "ml")),
                      site.partition("freetrain", "AllowAccounts=physics")),
        f"{UPDATE} AllowAccounts=ml,physics", False,
    ),
    "this machine's clock is ahead": (
        lambda site: setattr(site, "clock_ahead_s", 20), "timedatectl set-ntp true", False
    ),
    "this machine's clock is far behind": (
        lambda site: setattr(site, "clock_ahead_s", -120), "timedatectl set-ntp true", True
    ),
    "few questions a second": (
        conf("SlurmctldParameters=enable_configless,rl_enable,rl_bucket_size=5"),
        "SlurmctldParameters=enable_configless,rl_enable,rl_bucket_size=18", False,
    ),
    "dear nodes": (ours("TRESBillingWeights=CPU=1.0"), f"{UPDATE} TRESBillingWeights=CPU=0.0", False),
    "few hosts": (ours("AllocNodes=login1"), f"{UPDATE} AllocNodes=ALL", False),
    "few groups": (ours("AllowGroups=physicists"), f"{UPDATE} AllowGroups=ALL", False),
    "little memory": (ours("MaxMemPerNode=100"), f"{UPDATE} MaxMemPerNode=0", False),
    "little memory for a CPU": (ours("MaxMemPerCPU=100"), f"{UPDATE} MaxMemPerCPU=0", False),
    "few CPUs of a socket": (ours("MaxCPUsPerSocket=1"), f"{UPDATE} MaxCPUsPerSocket=UNLIMITED", False),
    "nodes of one user": (ours("ExclusiveUser=YES"), f"{UPDATE} ExclusiveUser=NO", False),
    "shared CPUs": (ours("OverSubscribe=FORCE:4"), f"{UPDATE} OverSubscribe=NO", False),
    "no GPU nodes": (
        lambda site: (site.gpu_nodes.append("g1"), site.partition("main", "Nodes=n[001-004],g1")),
        f"{UPDATE} Nodes=g1,n[001-004]", False,
    ),
    "SIGKILL comes late": (conf("KillWait=600 sec"), "KillWait=30", False),
    "SIGKILL comes late for a site that tolerates little": (
        lambda site: (site.conf("KillWait=30 sec"), setattr(site, "toml", '[harm]\nlimit = "20s"\n')),
        "KillWait=20", False,
    ),
    "plans are rare": (
        conf("SchedulerParameters=bf_continue,bf_interval=900"),
        "SchedulerParameters=bf_continue,bf_interval=30", False,
    ),
    "few jobs of a partition": (
        conf("SchedulerParameters=partition_job_depth=1,bf_continue"), "SchedulerParameters=bf_continue", False
    ),
    "few jobs are planned": (conf("SchedulerParameters=bf_max_job_test=5"), "SchedulerParameters=", False),
    "few jobs of a partition are planned": (
        conf("SchedulerParameters=bf_max_job_part=2"), "SchedulerParameters=", False
    ),
    "plans are short": (conf("SchedulerParameters=bf_window=10"), "SchedulerParameters=", False),
    "few jobs at an end": (conf("SchedulerParameters=default_queue_depth=1"), "SchedulerParameters=", False),
    "starts are rare": (
        conf("SchedulerParameters=sched_min_interval=60000000"), "SchedulerParameters=", False
    ),
    "forgotten soon": (conf("MinJobAge=5 sec"), "MinJobAge=300", False),
    "short arrays": (conf("MaxArraySize=5"), "MaxArraySize=1001", False),
    "few jobs": (conf("MaxJobCount=20"), "MaxJobCount=10000", False),
    "never requeued": (conf("JobRequeue=0"), "JobRequeue=1", False),
    "srun must answer": (conf("InactiveLimit=10 sec"), "InactiveLimit=0", False),
    "stuck for long": (conf("UnkillableStepTimeout=3600 sec"), "UnkillableStepTimeout=60", False),
    "licences by preemption": (conf("PreemptParameters=reclaim_licenses"), "PreemptParameters=", False),
    "something runs at each end": (
        conf("EpilogSlurmctld=/etc/slurm/end"),
        "EpilogSlurmctld=", False,
    ),
    "all reserved for a year": (
        lambda site: setattr(site, "reservations", YEAR), "scontrol delete ReservationName=all", False
    ),
    "no fence": (ours("QoS=N/A"), f"{UPDATE} QOS=freetrain", False),
}  # fmt: skip

IN_ACCOUNTING = {
    "no limit": (qos("scavenger", GrpTRES=""), "sacctmgr -i modify qos scavenger set GrpTRES=node=4", False),
    "any number may wait": (
        qos("scavenger", MaxSubmitPU=""), "sacctmgr -i modify qos scavenger set MaxSubmitJobsPU=1000", False
    ),
    "no right": (
        lambda site: site.people.update(freetrain="None"),
        "sacctmgr -i modify user freetrain set AdminLevel=Operator", True,
    ),
    "unknown account": (
        lambda site: site.people.pop("freetrain"), "sacctmgr -i add user freetrain account=root", True
    ),
}  # fmt: skip

IN_QOS = {
    "small jobs only": (
        qos("scavenger", MaxTRES="cpu=1"), "sacctmgr -i modify qos scavenger set MaxTRES=cpu=-1", True
    ),
    "parts of nodes only": (
        qos("scavenger", MaxTRESPerNode="cpu=2"),
        "sacctmgr -i modify qos scavenger set MaxTRESPerNode=cpu=-1", True,
    ),
    "large jobs only": (
        qos("scavenger", MinTRES="node=2"), "sacctmgr -i modify qos scavenger set MinTRES=node=-1", True
    ),
    "no CPU for all": (
        qos("scavenger", GrpTRES="cpu=0,node=4"), "sacctmgr -i modify qos scavenger set GrpTRES=cpu=-1", True
    ),
    "short jobs only": (
        qos("scavenger", MaxWall="00:05:00"), "sacctmgr -i modify qos scavenger set MaxWall=-1", False
    ),
    "no job": (qos("scavenger", GrpJobs="0"), "sacctmgr -i modify qos scavenger set GrpJobs=-1", True),
    "no job of a user": (
        qos("scavenger", MaxJobsPU="0"), "sacctmgr -i modify qos scavenger set MaxJobsPU=-1", True
    ),
    "nothing may wait": (
        qos("scavenger", GrpSubmit="0"), "sacctmgr -i modify qos scavenger set GrpSubmit=-1", True
    ),
    "before all others": (
        qos("scavenger", Priority="100000"), "sacctmgr -i modify qos scavenger set Priority=0", False
    ),
    "in reservations only": (
        qos("scavenger", Flags="DenyOnLimit,RequiresReservation"),
        "sacctmgr -i modify qos scavenger set Flags-=RequiresReservation", True,
    ),
    "one that does not preempt": (
        qos("normal", Preempt=""), "sacctmgr -i modify qos normal set Preempt+=scavenger", True
    ),
    "a new one that does not": (
        lambda site: site.qos.update(urgent=site.qos["normal"] | {"Name": "urgent", "Preempt": ""}),
        "sacctmgr -i modify qos urgent set Preempt+=scavenger", True,
    ),
    "long grace time": (
        qos("scavenger", GraceTime="00:10:00"), "sacctmgr -i modify qos scavenger set GraceTime=0", True
    ),
    "long exempt time": (
        qos("scavenger", PreemptExemptTime="00:05:00"),
        "sacctmgr -i modify qos scavenger set PreemptExemptTime=00:00:00", True,
    ),
    "suspended": (
        qos("scavenger", PreemptMode="suspend"), "sacctmgr -i modify qos scavenger set PreemptMode=requeue", True
    ),
    "priority decides": (
        qos("normal", PreemptMode="priority"), "sacctmgr -i modify qos normal set PreemptMode=cluster", True
    ),
    "every QOS": (ours("AllowQos=ALL"), f"{UPDATE} AllowQos=scavenger", True),
    "dear nodes": (
        ours("TRESBillingWeights=CPU=1.0"), "sacctmgr -i modify qos scavenger set UsageFactor=0", False
    ),
    "site's jobs in it": (
        lambda site: site.partition("debug", "DenyQos="),
        "scontrol update PartitionName=debug DenyQos=scavenger", False,
    ),
}  # fmt: skip

IN_SHARED_PARTITION = {
    "one that does not preempt": (
        qos("normal", Preempt=""), "sacctmgr -i modify qos normal set Preempt+=scavenger", True
    ),
    "by partition": (conf("PreemptType=preempt/partition_prio"), 'partition = "freetrain"', True),
    "not admitted": (
        lambda site: site.partition("main", "AllowQos=normal"),
        "scontrol update PartitionName=main AllowQos=normal,scavenger", True,
    ),
    "it preempts the site's": (
        qos("scavenger", Preempt="normal"), "sacctmgr -i modify qos scavenger set Preempt-=normal", True
    ),
    "never preempted": (
        qos("scavenger", PreemptMode="within"), "sacctmgr -i modify qos scavenger set PreemptMode=requeue", True
    ),
    "short grace time": (
        qos("scavenger", GraceTime="00:00:20"), "sacctmgr -i modify qos scavenger set GraceTime=0", False
    ),
    "short exempt time": (
        qos("scavenger", PreemptExemptTime="00:00:20"),
        "sacctmgr -i modify qos scavenger set PreemptExemptTime=00:00:00", False,
    ),
    "the default of an account": (
        associate("ml", DefaultQOS="scavenger"), "sacctmgr -i modify account ml set DefaultQOS=-1", True
    ),
    "the default of a user": (
        associate("ml", "alice", DefaultQOS="scavenger"),
        "sacctmgr -i modify user alice where account=ml set DefaultQOS=-1", True,
    ),
    "nobody may use it": (
        associate("ml", QOS="normal"), "sacctmgr -i modify account ml set QOS+=scavenger", False
    ),
    "no limit": (qos("scavenger", GrpTRES=""), "sacctmgr -i modify qos scavenger set GrpTRES=node=4", False),
    "dear nodes": (
        qos("scavenger", UsageFactor="1.0"), "sacctmgr -i modify qos scavenger set UsageFactor=0", False
    ),
}  # fmt: skip

IN_FREETRAIN_TOML = {
    "misspelt setting": ("[pace]\npol = 5\n", 'poll = "00:00:05"', True),
    "misspelt section": ("[pase]\npoll = 5\n", "[pace]", True),
    "wrong section": ('[pace]\nmode = "act"\n', 'mode = "act"', True),
    "no duration": ('[pace]\npoll = "soon"\n', 'poll = "00:00:10"', True),
    "no such word": ('[lend]\nmode = "on"\n', 'mode = "observe"', True),
    "text for a number": ('[lend]\nreserve_nodes = "3"\n', "reserve_nodes = 0", True),
    "no list of nodes": ('[lend]\nexclude_nodes = "c[01-"\n', 'exclude_nodes = ""', True),
    "out of range": ("[lend]\nreserve_nodes = -3\n", "reserve_nodes = 0", True),
    "misspelt partition": ('[slurm]\nbackend = "cli"\npartition = "freetrian"\n', 'partition = "freetrain"', True),
    "misspelt policy": ('[decide]\npolicy = "freetrian"\n', 'policy = "freetrain"', True),
    "misspelt objective": ('[decide]\nobjective = "weigthed"\n', 'objective = "weighted"', True),
    "no part for this policy": (
        '[decide]\npolicy = "smd"\nobjective = "weighted,evictions=60"\n', 'policy = "freetrain"', False
    ),
    "unknown node": ('[lend]\nexclude_nodes = "n[001,099]"\n', 'exclude_nodes = "n001"', False),
    "every node excluded": ('[lend]\nexclude_nodes = "n[001-004]"\n', 'exclude_nodes = ""', False),
    "every node in reserve": ("[lend]\nreserve_nodes = 4\n", "reserve_nodes = 1", False),
    "misspelt user": ("[lend.shares]\nalcie = 2\n", "shares = {alice = 2.0}", False),
    "unknown account": ('[lend]\nfair_share = "account"\n[lend.shares]\nchem = 2\n', "shares = {}", False),
    "shares for nobody": ('[lend]\nfair_share = "off"\n[lend.shares]\nbob = 2\n', 'fair_share = "user"', False),
    "nodes without commas": ('[lend]\nexclude_nodes = "n001 n002"\n', 'exclude_nodes = ""', True),
    "nodes with semicolons": ('[lend]\nexclude_nodes = "n001;n002"\n', 'exclude_nodes = ""', True),
    "nodes without brackets": ('[lend]\nexclude_nodes = "n001-003"\n', 'exclude_nodes = "n[001-003]"', True),
    "limits of nobody": (
        '[lend]\nfair_share = "off"\nmost_nodes_per_user = 2\n', 'fair_share = "user"', True
    ),
    "longer than jobs may run": (
        '[lend]\nlongest_fragment = "7-0"\n', 'longest_fragment = "1-00:00:00"', False
    ),
    "metrics for nobody": ('[metrics]\nlisten = "0.0.0.0:9810"\n', 'listen = "127.0.0.1:9810"', False),
    "metrics for others alone": (
        '[metrics]\nlisten = "[::1]:9810"\nallow = "10.0.0.0/8"\n', 'allow = "127.0.0.0/8,::1"', False
    ),
    "short memory": ('[state]\ndirectory = "/nonexistent/f"\nkeep = "1s"\n', 'keep = "35-00:00:00"', False),
    "harm without limit": ('[harm]\nlimit = "1d"\n', 'limit = "00:01:00"', True),
    "harm that is forgotten": ('[harm]\nwithin = "1s"\n', 'within = "01:00:00"', True),
    "harm without end": ("[harm]\nallowed = 100000\n", "allowed = 3", True),
    "long cool down": ('[pace]\ncool_down = "40-0"\n', 'cool_down = "00:00:00"', False),
    "a message a second": ('[notify]\nevery = 1\n', 'every = "01:00:00"', False),
    "no amount": ('[lend]\nkeep = "4 CPUs"\n', 'keep = ""', True),
    "kept of whole nodes": ('[lend]\nkeep = "cpu=4,mem=16G"\n', 'keep = ""', False),
    "short fragments": ('[lend]\nlongest_fragment = "1m"\n', 'longest_fragment = "1-00:00:00"', False),
    "long margin": ('[lend]\nmargin = "5m"\n', 'shortest_hole = "00:06:00"', False),
    "seldom looks": ('[pace]\npoll = "5m"\n', 'poll = "00:00:10"', False),
    "harm without pause": ("[harm]\npause = 0\n", 'pause = "01:00:00"', False),
    "nobody to tell": ('[notify]\ncommand = "/nonexistent/mail root"\n', 'command = ""', False),
    "relative stop file": (
        '[state]\ndirectory = "/nonexistent/f"\nstop_file = "STOP"\n', 'stop_file = "/run/freetrain/STOP"', True
    ),
}  # fmt: skip

MISTAKES = [
    pytest.param(kind, plant, mend, is_error, id=f"{where}: {name}")
    for where, kind, table in (
        ("slurm.conf", Kind.TIERS, IN_SLURM_CONF),
        ("accounting", Kind.TIERS, IN_ACCOUNTING),
        ("QOS", Kind.QOS, IN_QOS),
        ("shared partition", Kind.SHARED, IN_SHARED_PARTITION),
        (
            "freetrain.toml",
            Kind.TIERS,
            {key: (toml(text), *rest) for key, (text, *rest) in IN_FREETRAIN_TOML.items()},
        ),
    )
    for name, (plant, mend, is_error) in table.items()
]


def test_more_than_a_hundred_mistakes_are_known() -> None:
    assert len(MISTAKES) >= 100


@pytest.mark.parametrize("kind", Kind)
def test_a_site_without_mistakes_has_no_findings(new_site: Site, kind: Kind) -> None:
    result = check(new_site(kind))
    assert result.exit_code == ExitCode.OK, result.output
    assert "0 errors, 0 warnings." in result.stdout
    assert "not checked" not in result.stdout


def all_of(*plants: Plant) -> Plant:
    return lambda site: [plant(site) for plant in plants]


def another_partition(name: str, *changes: str) -> Plant:
    """One more of the site's, of its nodes."""

    def plant(site: PlantedSite) -> None:
        site.new_partition(f"PartitionName={name} PriorityTier=5 MaxTime=2-00:00:00 DenyQos=scavenger")
        site.partition(name, "PreemptMode=OFF", *changes)

    return plant


MAINTENANCE = "ReservationName=pm StartTime=1800000000 EndTime=1800030000 Nodes=n[001-004] Flags=MAINT,WEEKLY\n"
GOOD = {
    "cloud": (
        Kind.TIERS, conf("SchedulerParameters=bf_continue,salloc_wait_nodes,ignore_prefer_validation")
    ),
    "a university's": (
        Kind.TIERS,
        all_of(
            conf("SchedulerParameters=bf_window=4320,bf_resolution=300,bf_max_job_user=20,bf_max_job_test=1000,"
                 "bf_interval=60,bf_continue,default_queue_depth=1000,kill_invalid_depend"),
            conf("PriorityType=priority/multifactor"), conf("KillWait=60 sec"), conf("PrologFlags=Alloc,Contain"),
        ),
    ),
    "a large one": (
        Kind.TIERS,
        all_of(
            conf("SchedulerParameters=bf_interval=120,bf_max_job_part=100,max_rpc_cnt=150,"
                 "sched_min_interval=2000000,batch_sched_delay=20,partition_job_depth=50"),
            conf("MaxJobCount=200000"), conf("MaxArraySize=50001"), conf("MinJobAge=900 sec"),
            conf("UnkillableStepTimeout=300 sec"), conf("EnforcePartLimits=ALL"),
        ),
    ),
    "a laboratory's": (
        Kind.TIERS,
        all_of(conf("SchedulerParameters=bf_licenses,sched_interval=30"), conf("JobCompType=jobcomp/filetxt"),
               conf("Epilog=/etc/slurm/epilog.d/clean"), conf("SlurmctldParameters=enable_configless")),
    ),
    "partitions for some": (
        Kind.TIERS,
        all_of(another_partition("bigmem", "AllowGroups=chem", "MaxMemPerNode=900"),
               another_partition("teaching", "ExclusiveUser=YES", "OverSubscribe=FORCE:4", "MaxTime=04:00:00")),
    ),
    "partitions with limits": (
        Kind.TIERS,
        all_of(lambda site: site.qos.update(part=NOTHING | {"Name": "part", "MaxTRESPU": "cpu=400"}),
               another_partition("long", "QoS=part", "MinNodes=2", "AllowAccounts=ml")),
    ),
    "QOS of several priorities": (
        Kind.QOS,
        lambda site: site.qos.update(
            high=site.qos["normal"] | {"Name": "high", "Priority": "1000", "Preempt": "scavenger,normal"},
            debug=site.qos["normal"] | {"Name": "debug", "Priority": "5000", "MaxJobsPU": "2"},
        ),
    ),
    "QOS of the site's with limits": (
        Kind.SHARED,
        lambda site: site.qos["normal"].update(MaxTRESPU="cpu=1000", Flags="DenyOnLimit", GrpTRES="cpu=9000"),
    ),
    "weekly maintenance": (Kind.TIERS, lambda site: setattr(site, "reservations", MAINTENANCE)),
    "nodes are powered down": (
        Kind.TIERS,
        all_of(conf("SuspendTime=600 sec"), conf("SuspendProgram=/sbin/off"),
               toml("[lend]\nspare_suspendable = true\n")),
    ),
}  # fmt: skip
"""Sites without mistakes, with what public slurm.conf files have in common."""


@pytest.mark.parametrize(("kind", "plant"), [pytest.param(*site, id=name) for name, site in GOOD.items()])
def test_a_good_site_raises_no_false_alarm(new_site: Site, kind: Kind, plant: Plant) -> None:
    site = new_site(kind)
    plant(site)
    assert findings(site) == []


@pytest.mark.parametrize(("kind", "plant", "mend", "is_error"), MISTAKES)
def test_each_mistake_is_found_and_the_line_that_is_named_mends_it(
    new_site: Site, kind: Kind, plant: Plant, mend: str, is_error: bool
) -> None:
    site = new_site(kind)
    plant(site)
    (found,) = findings(site)
    assert found["is_error"] is is_error
    assert mend in [line for _, line in lines(found)]
    assert check(site).exit_code == (ExitCode.CONFIGURATION if is_error else ExitCode.OK)
    site.type(lines(found))
    assert findings(site) == []


@pytest.mark.parametrize(
    ("keep", "is_found"), [("cpu=64", True), ("cpu=4", True), ("mem=1000M", True), ("cpu=3,mem=999M", False)]
)
def test_to_keep_as_much_as_a_node_has_is_found(new_site: Site, keep: str, is_found: bool) -> None:
    site = new_site(Kind.TIERS)
    site.conf("TaskPlugin=task/cgroup")
    site.conf("ProctrackType=proctrack/cgroup")
    site.toml = f'[lend]\nshare = "any"\nkeep = "{keep}"\n'
    mends = [lines(found) for found in findings(site)]
    assert mends == [[("freetrain.toml", "[lend]"), ("freetrain.toml", 'keep = ""')]] * is_found


def test_several_mistakes_are_found_at_once_errors_first(new_site: Site) -> None:
    site = new_site(Kind.TIERS)
    site.partition("freetrain", "GraceTime=30", "PriorityTier=5")
    site.toml = "[lend]\nreserve_nodes = 4\n"
    said = check(site).stdout
    assert said.index("error: Partition debug shares 4 nodes") < said.index("warning: The site's jobs wait up to")
    assert f"    run: {UPDATE} GraceTime=0\n    slurm.conf: PartitionName=freetrain … GraceTime=0\n" in said
    assert said.endswith("1 error, 2 warnings.\n")


def test_all_mistakes_of_all_files_are_found_at_once(new_site: Site, tmp_path: Path) -> None:
    site = new_site(Kind.TIERS)
    site.toml = "[pace]\npol = 5\nback_off = 'soon'\n"
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "10-site.toml").write_text("[lend\n")
    said = [str(found["what"]) for found in findings(site)]
    assert len(said) == 3
    assert "10-site.toml is not TOML" in said[2]
    result = check(site)
    assert result.exit_code == ExitCode.CONFIGURATION
    assert "Slurm was not asked." in result.stdout


def test_each_line_is_said_to_belong_into_the_file_that_needs_it(new_site: Site, tmp_path: Path) -> None:
    site = new_site(Kind.TIERS)
    site.toml = "[lend]\nreserve_nodes = 4\n"
    assert f"    {site.path}: [lend]\n    {site.path}: reserve_nodes = " in check(site).stdout
    drop_in = tmp_path / "conf.d" / "10-site.toml"
    drop_in.parent.mkdir()
    drop_in.write_text("[pace]\npol = 5\n")
    assert f"    {drop_in}: [pace]\n    {drop_in}: poll = " in check(site).stdout


def test_a_partition_that_is_not_there_is_made_below_all_others(new_site: Site) -> None:
    site = new_site(Kind.TIERS)
    del site.partitions["freetrain"]
    site.toml = '[slurm]\nbackend = "cli"\npartition = "idle"\n'
    missing, *of_the_new_one = findings(site)
    assert of_the_new_one
    assert [found["what"] for found in of_the_new_one if found["is_error"]] == []
    (made,) = [line for place, line in lines(missing) if place == "slurm.conf"]
    assert made.startswith("PartitionName=idle Nodes=n[001-004] PriorityTier=0 PreemptMode=REQUEUE GraceTime=0 ")


def test_a_coordinator_may_steer_some(new_site: Site) -> None:
    site = new_site(Kind.TIERS)
    site.people["freetrain"] = "None|ml"
    (found,) = findings(site)
    assert found["is_error"] is False
    assert "coordinator of ml: only their jobs" in str(found["what"])


def test_a_file_that_everybody_may_write_is_an_error(new_site: Site) -> None:
    site = new_site(Kind.TIERS)
    site.write()
    site.path.chmod(0o666)
    (found,) = findings(site)
    assert lines(found) == [("run", f"chmod o-w {site.path}")]


def test_without_accounting_nothing_is_charged_and_nothing_is_asked_of_it(new_site: Site) -> None:
    site = new_site(Kind.TIERS)
    site.conf("AccountingStorageType=accounting_storage/none")
    site.partition("freetrain", "TRESBillingWeights=CPU=1.0", "QoS=N/A")
    site.qos.clear()
    assert findings(site) == []


def test_a_wake_file_that_slurmctld_cannot_write_is_a_warning(
    new_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = new_site(Kind.TIERS)
    closed = Finding("slurm cannot write it.", "chgrp slurm /var/lib/freetrain/wake", is_unsafe=False)
    monkeypatch.setattr("freetrain.daemon.admission.inspection.closed_wake_file", lambda *_: closed)
    assert "warning: slurm cannot write it.\n    run: chgrp slurm /var/lib/freetrain/wake\n" in check(site).stdout


def test_where_accounting_is_silent_that_is_said(new_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site = new_site(Kind.TIERS)
    ask = site._ask

    def silent(command: tuple[str, ...], stdin: str = "") -> str:
        if command[0] == "sacctmgr":
            raise SlurmUnreachableError("slurmdbd is away.")
        return ask(command, stdin)

    monkeypatch.setattr(site, "_ask", silent)
    monkeypatch.setattr(site._site, "_ask", silent)
    said = check(site).stdout
    assert "not checked: QOS, accounts and limits (slurmdbd is away.)" in said
    assert "not checked: the rights of freetrain (slurmdbd is away.)" in said


def test_where_slurm_is_silent_the_files_are_checked_and_the_status_says_so(
    new_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = new_site(Kind.TIERS)
    site.toml = "[harm]\npause = 0\n"

    def silent(command: tuple[str, ...], stdin: str = "") -> str:
        raise SlurmUnreachableError("Slurm's controller is away.")

    monkeypatch.setattr(site, "_ask", silent)
    result = check(site)
    assert result.exit_code == ExitCode.UNREACHABLE
    assert "warning: harm.pause is 0" in result.stdout
    assert "Slurm's controller is away." in result.stderr


def test_offline_no_slurm_is_asked(new_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site = new_site(Kind.TIERS)
    monkeypatch.setattr(site, "_ask", None)
    assert check(site, "--offline").exit_code == ExitCode.OK


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (ours("GraceTime=0"), "Slurm requeues what it preempts (PreemptMode=REQUEUE): an evicted task waits"),
        (
            ours("PreemptMode=CANCEL"),
            "Slurm cancels what it preempts (PreemptMode=CANCEL): an evicted task",
        ),
        (
            toml("[lend]\nlauncher = 'submit'\n"),
            "What Slurm preempts has ended for good (PreemptMode=REQUEUE;",
        ),
    ],
)
def test_it_says_what_becomes_of_a_fragment_that_slurm_preempts(new_site: Site, plant: Plant, says: str) -> None:
    site = new_site(Kind.TIERS)
    plant(site)
    assert says in check(site).stdout
    (note,) = json.loads(check(site, "--json").stdout)["notes"]
    assert note.startswith(says)


def test_rights_are_proved_with_a_job_where_that_is_asked_for(new_site: Site) -> None:
    site = new_site(Kind.TIERS)
    me = pwd.getpwuid(os.geteuid()).pw_name
    site.people[me] = "Operator"
    assert "job 77" not in check(site, "--user", me).stdout
    said = check(site, "--user", me, "--prove")
    assert said.exit_code == ExitCode.OK, said.output
    assert f"As {me}, job 77 was submitted to partition freetrain, held, changed" in said.stdout


def test_nobody_can_prove_the_rights_of_another(new_site: Site) -> None:
    result = check(new_site(Kind.TIERS), "--prove")
    assert result.exit_code == ExitCode.USAGE
    assert "sudo -u freetrain freetrain config check --prove" in result.stderr


def test_what_is_proved_with_a_job_needs_a_slurm(new_site: Site) -> None:
    me = pwd.getpwuid(os.geteuid()).pw_name
    assert check(new_site(Kind.TIERS), "--user", me, "--prove", "--offline").exit_code == ExitCode.USAGE


def test_a_state_directory_that_the_daemon_cannot_write_is_an_error(
    new_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = Finding("freetrain may not write it.", "chown freetrain /var/lib/freetrain")
    monkeypatch.setattr("freetrain.daemon.admission.inspection.closed_state", lambda *_: closed)
    for arguments in ((), ("--offline",)):
        said = check(new_site(Kind.TIERS), *arguments)
        assert said.exit_code == ExitCode.CONFIGURATION
        assert "error: freetrain may not write it.\n    run: chown freetrain /var/lib/freetrain\n" in said.stdout


def test_the_daemon_has_an_option_that_does_the_same(new_site: Site) -> None:
    site = new_site(Kind.TIERS)
    site.people["freetrain"] = site.people[pwd.getpwuid(os.geteuid()).pw_name] = "None"
    site.toml = "[harm]\npause = 0\n"
    site.write()
    result = CliRunner().invoke(cli, ["daemon", "--check-config", "--config", str(site.path)])
    assert "warning: harm.pause is 0" in result.stdout
    site.toml = "[lend]\nreserve_nodes = -3\n"
    site.write()
    assert CliRunner().invoke(cli, ["daemon", "--check-config", "--config", str(site.path)]).exit_code == 78


def test_trainings_that_do_not_name_what_the_policy_needs_are_counted(new_site: Site) -> None:
    site = new_site(Kind.TIERS)
    site.jobs = waiting_trainer("alice", "ml")
    assert not [found for found in findings(site) if "trainings name" in str(found["what"])]
    site.toml += '[decide]\npolicy = "smd"\n'
    (found,) = (found for found in findings(site) if "trainings name" in str(found["what"]))
    assert str(found["what"]).startswith("1 of 1 trainings name no target (7): assumed is a day's work at")
    assert not found["is_error"]


def test_a_name_that_a_policy_had_is_a_warning_with_what_it_is_now(new_site: Site) -> None:
    site = new_site(Kind.TIERS)
    site.toml += '[decide]\npolicy = "gadget-log"\n'
    (found,) = (found for found in findings(site) if "gadget-log" in str(found["what"]))
    assert 'utility = "log" under [decide.gadget]' in str(found["what"])
    assert not found["is_error"]
