"""What is said in comments behind a tag."""

from __future__ import annotations

from freetrain.slurm.comments import answer_in, servers_on, with_answer, with_servers
from freetrain.slurm.tags import Tag, parse_tag


def test_an_answer_leaves_the_tag_as_it_is_and_replaces_an_older_answer() -> None:
    comment = with_answer("freetrain:min=2", "no node has 3 GPUs")
    assert parse_tag(comment) == Tag(min_nodes=2)
    assert with_answer(comment, "paused").count(" | ") == 1
    assert len(with_answer(comment, "x" * 5000)) == 1000


def test_where_servers_run_is_told_behind_the_tag_and_is_no_answer_to_the_owner() -> None:
    comment = with_servers("freetrain:min=2,servers=3 | paused after 5 failures", ("c1", "c3"))
    assert comment == "freetrain:min=2,servers=3 | servers on c1,c3"
    assert servers_on(comment) == ("c1", "c3")
    assert answer_in(comment) == ""
    assert parse_tag(comment) == Tag(min_nodes=2, servers=3)
    assert with_servers(comment, ()) == "freetrain:min=2,servers=3"
    assert servers_on("freetrain:name=x | paused after 5 failures") == ()
    assert servers_on("freetrain:") == ()
