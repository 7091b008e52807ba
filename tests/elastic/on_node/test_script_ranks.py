from __future__ import annotations

from pathlib import Path

from freetrain.elastic.on_disk.directory import TrainerDirectory
from freetrain.elastic.on_node.agent import ScriptRanks


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
