from __future__ import annotations

from pathlib import Path

import pytest

from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_node.script_ranks import ScriptRanks, adopted_command
from freetrain.errors import InputError

RUNNER = ["-m", "freetrain.elastic.adopting"]


@pytest.mark.parametrize(
    ("command", "adopted"),
    [
        (["python", "train.py", "--lr", "1"], ["python", *RUNNER, "train.py", "--lr", "1"]),
        (["/env/bin/python3.12", "-u", "train.py"], ["/env/bin/python3.12", "-u", *RUNNER, "train.py"]),
        (["python3", "-m", "training", "-v"], ["python3", *RUNNER, "-m", "training", "-v"]),
    ],
)
def test_the_runner_comes_before_the_script(command: list[str], adopted: list[str]) -> None:
    assert adopted_command(command) == adopted


@pytest.mark.parametrize("command", [["bash", "train.sh"], ["python"], ["./train.py", "-v"]])
def test_a_command_that_is_no_script_of_pythons_is_refused(command: list[str]) -> None:
    with pytest.raises(InputError, match="--adopt cannot look into"):
        adopted_command(command)


def test_one_living_script_is_rank_0_and_the_next_one_that_starts_follows_it(tmp_path: Path) -> None:
    directory = TrainerDirectory.open(tmp_path / "trainer")
    ranks, others = ScriptRanks(directory, 3, 2), ScriptRanks(directory, 3, 2)
    started = [ranks.environment("a", 0), ranks.environment("b", 1), others.environment("c", 0)]
    assert [environment["RANK"] for environment in started] == ["0", "2", "1"]
    assert {environment["WORLD_SIZE"] for environment in started} == {"3"}
    assert not directory.has_lost_main()
    directory.mark_gone("a", "its node was taken back")
    assert directory.has_lost_main()
    assert others.environment("d", 1)["RANK"] == "0"
    assert not directory.has_lost_main()
