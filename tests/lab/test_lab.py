from __future__ import annotations

import multiprocessing
import os
import pwd
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from freetrain.errors import FreetrainError, InputError
from freetrain.lab import Lab, LabOptions
from tests.slurm_lab import eventually, on_free_ports, run, short_directory, started_lab

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

SLEEPER = "setsid sleep 600 & trap '' TERM; sleep 600; sleep 600"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with started_lab(LabOptions(nodes=3, gpus=2, accounting=True, settings={"SlurmdTimeout": "5"})) as lab:
        yield lab


@pytest.fixture
def directory() -> Iterator[Path]:
    with short_directory() as directory:
        yield directory


def processes_in(directory: Path) -> list[str]:
    """Commands of the processes that work in a directory, or name it, or have Slurm's variable point there."""
    return [text.partition("\n")[0] for text in texts_of_processes_in(directory)]


def texts_of_processes_in(directory: Path) -> list[str]:
    """Their commands, environments and directories."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            texts = [(process / name).read_bytes().decode(errors="replace") for name in ("cmdline", "environ")]
            texts.append(str((process / "cwd").readlink()))
        except OSError:
            continue
        if any(f"{directory}/" in text for text in texts):
            found.append("\n".join(texts))
    return found


def state_of(lab: Lab, node: str) -> str:
    return run(lab, "sinfo", "-h", "-p", "main", "-n", node, "-o", "%T").strip()


def test_all_nodes_are_idle_in_both_partitions(lab: Lab) -> None:
    told = run(lab, "sinfo", "-h", "-o", "%R %D %T %p %M %G").splitlines()
    assert told == ["main 3 idle 10 OFF gpu:2", "freetrain 3 idle 1 REQUEUE gpu:2"]
    status = lab.status()
    assert all(status.daemons.values())
    assert all(status.nodes.values())
    assert set(status.daemons) == {"munged", "mariadbd", "slurmdbd", "slurmctld"}


def test_alice_runs_a_job_which_is_accounted_for(lab: Lab) -> None:
    assert run(lab, "srun", "-N2", "id", "-un", role="alice").split() == [lab.users["alice"]] * 2
    asked = ("sacct", "-a", "-n", "-P", "-X", "-o", "User,Account,State")
    assert eventually(lambda: f"{lab.users['alice']}|ml|COMPLETED" in run(lab, *asked).split())


def test_the_daemon_may_change_the_jobs_of_others(lab: Lab) -> None:
    admins = run(lab, "sacctmgr", "-n", "-P", "list", "user", "format=User,AdminLevel").split()
    assert f"{lab.users['daemon']}|Operator" in admins
    job = run(lab, "sbatch", "--parsable", "--hold", "-o/dev/null", "--wrap=true", role="alice").strip()
    run(lab, "scontrol", "update", f"JobId={job}", "Comment=seen", role="daemon")
    assert run(lab, "squeue", "-h", "-j", job, "-o", "%k").strip() == "seen"
    run(lab, "scancel", job, role="daemon")


def test_a_node_that_crashes_takes_all_its_processes_along_and_comes_back(lab: Lab) -> None:
    batch = ("sbatch", "--parsable", "--exclusive", "-o/dev/null", "--wrap", SLEEPER, "-p", "freetrain")
    run(lab, *batch, "--no-requeue", "-w", "n002", role="alice")
    other = run(lab, *batch, "--export=NIL", "-w", "n003", role="bob").strip()
    assert eventually(lambda: sum("sleep" in process for process in processes_in(lab.directory)) >= 4)
    lab.crash("n002")
    left = [text for text in texts_of_processes_in(lab.directory) if "SLURMD_NODENAME=n00" in text]
    assert not any("SLURMD_NODENAME=n002" in text for text in left)
    assert any("SLURMD_NODENAME=n003" in text for text in left)
    assert lab.status().nodes == {"n001": True, "n002": False, "n003": True}
    assert eventually(lambda: state_of(lab, "n002").startswith("down"))
    lab.start_node("n002")
    assert eventually(lambda: state_of(lab, "n002") == "idle")
    run(lab, "scancel", other)


def test_the_controller_stops_and_keeps_what_it_knew(lab: Lab) -> None:
    job = run(lab, "sbatch", "--parsable", "--hold", "-o/dev/null", "--wrap=true", role="bob").strip()
    for end in (lab.stop_controller, lab.kill_controller):
        end()
        assert not lab.status().daemons["slurmctld"]
        assert lab.status().states == {}
        lab.start_controller()
        assert run(lab, "squeue", "-h", "-j", job, "-o", "%i").strip() == job
    run(lab, "scancel", job)


def test_a_node_of_another_name_is_no_node(lab: Lab) -> None:
    with pytest.raises(InputError, match=r"no node n009"):
        lab.crash("n009")


def test_a_second_lab_in_a_running_ones_directory_is_refused(lab: Lab) -> None:
    with pytest.raises(InputError, match=r"runs in") as caught:
        Lab.up(lab.directory, lab.options)
    assert f"freetrain lab down --dir {lab.directory}" in caught.value.hint


def test_down_leaves_no_process_and_up_starts_afresh(directory: Path) -> None:
    options = on_free_ports(LabOptions(nodes=2, accounting=True))
    lab = Lab.up(directory, options)
    run(lab, "sbatch", "-N2", "-o/dev/null", f"--wrap=srun sh -c {SLEEPER!r}", role="alice")
    assert eventually(lambda: any("slurmstepd" in process for process in processes_in(directory)))
    Lab.find(directory).down()
    assert processes_in(directory) == []
    again = Lab.up(directory, options)
    assert run(again, "squeue", "-h") == ""
    again.down()
    again.down()
    assert processes_in(directory) == []


def test_a_lab_within_anothers_directory_is_not_part_of_it(directory: Path) -> None:
    outer = Lab.up(directory, on_free_ports(LabOptions(nodes=1)))
    inner = Lab.up(directory / "inner", on_free_ports(LabOptions(nodes=1)))
    outer.down()
    assert inner.status().states == {"idle": 1}
    inner.down()
    assert processes_in(directory) == []


def test_a_directory_that_others_cannot_enter_is_refused(directory: Path) -> None:
    if os.geteuid() == 0:
        directory.chmod(0o700)
        with pytest.raises(InputError, match=f"{directory} is closed to them"):
            Lab.up(directory / "lab", on_free_ports(LabOptions(nodes=1)))


def test_a_directory_with_other_things_is_refused(directory: Path) -> None:
    (directory / "thesis.tex").touch()
    with pytest.raises(InputError, match="neither empty nor"):
        Lab.up(directory, on_free_ports(LabOptions(nodes=1)))
    assert (directory / "thesis.tex").exists()


def test_a_taken_port_is_named(directory: Path) -> None:
    options = on_free_ports(LabOptions(nodes=1))
    complaint = f"Port {options.ports[1]}, which"
    with socket.create_server(("", options.ports[1])), pytest.raises(InputError, match=complaint):
        Lab.up(directory, options)
    assert list(directory.iterdir()) == []


def test_a_lab_that_fails_halfway_leaves_nothing_running(directory: Path) -> None:
    options = on_free_ports(LabOptions(nodes=1, settings={"SelectType": "select/nonsense"}))
    with pytest.raises(FreetrainError, match="slurmctld did not start"):
        Lab.up(directory, options)
    assert processes_in(directory) == []


def test_thousands_of_imaginary_nodes_are_idle() -> None:
    with started_lab(LabOptions(nodes=1, fake=8000)) as lab:
        assert lab.status().states == {"idle": 8001}


def test_other_settings_and_a_job_submit_script(directory: Path) -> None:
    script = directory / "site.lua"
    script.write_text(
        "function slurm_job_submit(job, parts, uid) job.comment = 'from lua' return slurm.SUCCESS end\n"
        "function slurm_job_modify(job, old, parts, uid) return slurm.SUCCESS end\n"
    )
    options = LabOptions(nodes=1, preempt_mode="SUSPEND", settings={"KillWait": "7"}, job_submit=script)
    with started_lab(options) as lab:
        assert "KillWait                = 7 sec" in run(lab, "scontrol", "show", "config")
        job = run(lab, "sbatch", "--parsable", "--hold", "-o/dev/null", "--wrap=true", role="alice").strip()
        assert run(lab, "squeue", "-h", "-j", job, "-o", "%k").strip() == "from lua"


def test_an_ordinary_user_has_a_lab_of_his_own(directory: Path) -> None:
    games = pwd.getpwnam("games") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    os.chown(directory, games.pw_uid, games.pw_gid)

    def play() -> None:
        with_accounting = on_free_ports(LabOptions(nodes=2, accounting=True))
        lab = Lab.up(directory, with_accounting)
        assert set(lab.users.values()) == {games.pw_name}
        assert run(lab, "srun", "-N2", "id", "-un", role="alice").split() == [games.pw_name] * 2
        lab.crash("n001")
        lab.down()

    assert _in_a_process_of(games, play) == 0
    assert processes_in(directory) == []


def _in_a_process_of(account: pwd.struct_passwd, function: Callable[[], None]) -> int | None:
    def become_and_run() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
        function()

    process = multiprocessing.get_context("fork").Process(target=become_and_run)
    process.start()
    process.join()
    return process.exitcode
