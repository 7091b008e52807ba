"""Both words, as the source of each release prints them; those up to 25.11 were seen with Slurm 22.05."""

from __future__ import annotations

import pytest

from freetrain.core.amounts import Amount
from freetrain.slurm.asking import has_whole_nodes, parse_asks, parse_requests
from tests.slurm.test_asking import line

UP_TO_25_11 = [
    ("sbatch", "OK", "", False),
    ("sbatch --oversubscribe", "YES", "", False),
    ("sbatch --exclusive", "NO", "", True),
    ("sbatch, in a partition with OverSubscribe=EXCLUSIVE", "NO", "", True),
    ("sbatch --exclusive=user", "USER", "", None),
    ("sbatch --exclusive=mcs", "MCS", "", None),
    ("sbatch --exclusive=topo", "TOPO", "", None),
]
SINCE_26_05 = [
    ("sbatch", "NO", "NO", False),
    ("sbatch, in a partition with OverSubscribe=FORCE:2", "OK", "NO", False),
    ("sbatch --oversubscribe", "YES", "NO", False),
    ("sbatch --exclusive", "NO", "NODE", True),
    ("sbatch, in a partition with Exclusive=NODE", "NO", "NODE", True),
    ("sbatch --exclusive=user", "NO", "USER", None),
    ("sbatch --exclusive=mcs", "NO", "MCS", None),
    ("sbatch, in a partition with Exclusive=TOPO", "NO", "TOPO", None),
]
UNHEARD_OF = [
    ("a later word", "PERHAPS", "", None),
    ("a later word", "NO", "RACK", None),
    ("no word", "", "", None),
    ("no word", "N/A", "N/A", None),
]
every_word = pytest.mark.parametrize(
    ("how", "over_subscribe", "exclusive", "is_whole"), UP_TO_25_11 + SINCE_26_05 + UNHEARD_OF
)


@every_word
def test_who_has_whole_nodes(how: str, over_subscribe: str, exclusive: str, is_whole: bool | None) -> None:
    assert has_whole_nodes({"oversubscribe": over_subscribe, "Exclusive": exclusive}) is is_whole


@every_word
def test_of_a_job_that_may_have_whole_nodes_all_of_them_are_kept(
    how: str, over_subscribe: str, exclusive: str, is_whole: bool | None
) -> None:
    row = line(oversubscribe=over_subscribe, Exclusive=exclusive, **{"tres-alloc": "cpu=2,mem=100M,node=1"})
    assert parse_asks(row)["7"].part == (Amount(2, 100) if is_whole is False else None)


@every_word
def test_a_task_that_may_share_its_node_is_not_taken_to_have_all_of_it(
    how: str, over_subscribe: str, exclusive: str, is_whole: bool | None
) -> None:
    row = line(oversubscribe=over_subscribe, Exclusive=exclusive)
    assert parse_requests(row, "", 0)["7"].needs.is_whole is bool(is_whole)
