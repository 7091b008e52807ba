from __future__ import annotations

import dataclasses
import os
import subprocess
import threading
from pathlib import Path

import pytest

from freetrain.elastic.membership.identity import this_member
from freetrain.elastic.membership.watcher import Liveness
from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_disk.files import ListedFolder, create_json, read_json, why_distrusted, write_json
from freetrain.elastic.on_disk.members import Generation, start_ticks


def generation(number: int, members: tuple[str, ...] = ("a",), nonce: str = "") -> Generation:
    return Generation(number, members, "host", "address", 1, nonce, "join")


def test_one_of_many_creates_a_generation(tmp_path: Path) -> None:
    TrainerDirectory.open(tmp_path)
    directories = [TrainerDirectory.open(tmp_path) for _ in range(8)]
    won: list[str] = []
    barrier = threading.Barrier(8)

    def publish(index: int) -> None:
        barrier.wait()
        if directories[index].publish(generation(1, nonce=str(index))):
            won.append(str(index))

    threads = [threading.Thread(target=publish, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    latest = directories[0].view().generation
    assert latest is not None
    assert latest.nonce == won[0]


def test_the_latest_generation_counts_and_an_unsigned_one_does_not(tmp_path: Path) -> None:
    directory = TrainerDirectory.open(tmp_path)
    directory.publish(generation(1))
    directory.publish(generation(2, ("a", "b")))
    assert directory.view().ranks == ("a", "b")
    write_json(tmp_path / "generations" / "00000003.json", dataclasses.asdict(generation(3, ("evil",))))
    assert directory.view().ranks == ("a", "b")


def test_a_view_shows_who_joined_leaves_and_is_gone(tmp_path: Path) -> None:
    directory = TrainerDirectory.open(tmp_path)
    me = this_member("mark", "2.13")
    directory.join(me)
    assert directory.view().waiting == (me.id,)
    directory.leave(me.id)
    assert directory.view().leaving == {me.id}
    assert directory.mark_gone(me.id, "first")
    assert not directory.mark_gone(me.id, "second")
    assert directory.view().gone == {me.id: "first"}
    assert TrainerDirectory.open(tmp_path).is_gone(me.id) == "first"


def test_old_generations_and_who_was_in_them_are_dropped(tmp_path: Path) -> None:
    directory = TrainerDirectory.open(tmp_path)
    directory.join(this_member("mark", "2.13"))
    name = next(iter(directory.view().members))
    directory.mark_gone(name, "left")
    for number in range(1, 80):
        directory.publish(generation(number))
    assert len(list((tmp_path / "generations").iterdir())) <= 51
    assert directory.view().number == 79
    assert directory.view().members == {}
    assert name in directory.view().gone


def test_files_are_whole_private_and_exclusive(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    assert create_json(path, {"a": 1})
    assert not create_json(path, {"a": 2})
    assert read_json(path) == {"a": 1}
    assert path.stat().st_mode & 0o777 == 0o600
    assert [child.name for child in tmp_path.iterdir()] == ["file.json"]
    assert why_distrusted(path) is None
    path.write_text("{ torn")
    assert read_json(path) is None
    assert read_json(tmp_path / "missing") is None


def test_a_silent_member_is_lost_and_a_beating_one_is_not() -> None:
    now_s, beats = [0.0], {"a": "0", "b": "0"}
    liveness = Liveness(beats.__getitem__, 5.0, lambda: now_s[0])
    silent = []
    for second in range(8):
        now_s[0] = float(second)
        beats["b"] = str(second)
        silent = liveness.silent(["a", "b"])
    assert silent == ["a"]


def test_an_observer_that_slept_gives_nobody_up() -> None:
    now_s = [0.0]
    liveness = Liveness(lambda _: "same", 5.0, lambda: now_s[0])
    assert liveness.silent(["a"]) == []
    now_s[0] = 100.0
    assert liveness.silent(["a"]) == []


def test_the_process_table_tells_who_is_dead_here() -> None:
    liveness = Liveness(lambda _: "", 5.0, lambda: 0.0)
    me = this_member("mark", "2.13")
    reused = dataclasses.replace(me, id="reused", started_ticks=me.started_ticks - 1)
    elsewhere = dataclasses.replace(reused, id="elsewhere", host="other")
    assert me.pid == os.getpid()
    assert liveness.dead_here([me, reused, elsewhere]) == ["reused"]


@pytest.mark.parametrize("has_descriptors", [True, False])
def test_a_process_that_ends_is_dead_before_its_parent_has_asked(
    has_descriptors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_descriptors:
        monkeypatch.delattr(os, "pidfd_open")
    liveness = Liveness(lambda _: "", 5.0, lambda: 0.0)
    with subprocess.Popen(["sleep", "60"]) as process:
        ticks = start_ticks(process.pid)
        member = dataclasses.replace(this_member("mark", "2.13"), pid=process.pid, started_ticks=ticks)
        assert liveness.dead_here([member]) == []
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert liveness.dead_here([member]) == [member.id]


def test_who_is_lost_with_another_one_can_see_it_as_long_as_it_lives(tmp_path: Path) -> None:
    directory = TrainerDirectory.open(tmp_path)
    for shard in range(2):
        me = dataclasses.replace(this_member("mark", "2.13"), id=f"r{shard}", replica="r", shard=shard, shards=2)
        directory.join(me)
    directory.mark_gone("r0", "killed")
    for number in range(1, 60):
        directory.publish(generation(number, ("a",)))
    assert directory.view().gone["r1"] == "its replica lost r0"
    directory.mark_gone("r1", "killed as well")
    directory.publish(generation(60, ("a",)))
    assert directory.view().members == {}


def test_a_folder_is_listed_only_when_its_time_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freetrain.elastic.on_disk.files._COARSEST_TIME_S", 0.0)
    os.utime(tmp_path, (1, 1))
    folder = ListedFolder(tmp_path)
    before = folder.names()
    (tmp_path / "late").touch()
    os.utime(tmp_path, (1, 1))
    assert folder.names() is before


def test_a_second_change_within_one_tick_of_the_file_system_is_seen(tmp_path: Path) -> None:
    os.utime(tmp_path, (1, 1))
    folder = ListedFolder(tmp_path)
    assert folder.names() == []
    (tmp_path / "first").touch()
    os.utime(tmp_path, (2, 2))
    assert folder.names() == ["first"]
    (tmp_path / "second").touch()
    os.utime(tmp_path, (2, 2))
    assert folder.names() == ["first", "second"]
