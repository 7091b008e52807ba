from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.slurm.tags import KEYS, ArrayKind, Tag, WrongTag, check_values, format_tag, parse_tag


def test_a_tag_with_everything() -> None:
    text = "freetrain:min=2,max=16,name=bert,dir=/scratch/a/t1,weight=2,target=1e6,grow=1,shrink=0.2,start=30"
    assert parse_tag(text + ",curve=1:100/2:190") == Tag(
        2, 16, "bert", "/scratch/a/t1", 2.0, 1e6, 1.0, 0.2, 30.0, ((1, 100.0), (2, 190.0))
    )


def test_a_tag_says_how_fast_it_is_on_which_nodes() -> None:
    assert parse_tag("freetrain:speed=a100:1/v100:0.4") == Tag(speeds=(("a100", 1.0), ("v100", 0.4)))
    assert parse_tag("freetrain:mixed=yes") == Tag(mixed=True)


def test_a_deadline_is_a_time_of_this_machine_or_so_long_after_the_submission(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def deadline_s(text: str) -> float | None:
        tag = parse_tag(f"freetrain:target=1e6,deadline={text}")
        assert isinstance(tag, Tag)
        return tag.deadline_s(1000.0)

    assert Tag().deadline_s(1000.0) is None
    assert [deadline_s(text) for text in ("90m", "12h", "3d")] == [6400.0, 44200.0, 260200.0]
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Etc/GMT-2")
        time.tzset()
        assert deadline_s("2026-12-01T08:00") == 1796104800.0, "06:00 UTC"
    time.tzset()


def test_a_fillers_tag() -> None:
    text = "freetrain:kind=tasks,max=8,start=5,shortest=60,save=30,boot=2,notice=yes"
    assert parse_tag(text) == Tag(
        max_nodes=8, start_s=5.0, kind=ArrayKind.TASKS, shortest_s=60.0, save_s=30.0, boot_s=2.0, notice=True
    )


def test_the_tag_of_a_filler_whose_tasks_have_several_nodes() -> None:
    tag = parse_tag("freetrain:kind=tasks,nodes=2-8,curve=2:1/8:3")
    assert tag == Tag(kind=ArrayKind.TASKS, task_nodes=(2, 8), curve=((2, 1.0), (8, 3.0)))
    assert tag.is_moldable
    assert parse_tag("freetrain:kind=tasks,nodes=4") == Tag(kind=ArrayKind.TASKS, task_nodes=(4, 4))


def test_the_shortest_tag() -> None:
    assert parse_tag("freetrain:") == Tag()


@pytest.mark.parametrize("comment", ["", "nightly run", "Freetrain:min=2", " freetrain:min=2"])
def test_no_tag(comment: str) -> None:
    assert parse_tag(comment) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mim=2", "there is no key mim; did you mean min?"),
        ("zzz=2", "there is no key zzz; there are min, max"),
        ("min=0", "min=0 is not a number of nodes from 1 to"),
        ("min=-3", "min=-3 is not a number of nodes"),
        ("min=9999999999", "is not a number of nodes"),
        ("min=8,max=4", "min=8 is more than max=4"),
        ("min=2,min=3", "min is given twice"),
        ("min", "min has no value"),
        ("weight=nan", "weight=nan is not a number"),
        ("weight=0", "weight=0 must be from 0.01 to 100"),
        ("weight=1e15", "weight=1e15 must be from 0.01 to 100"),
        ("target=0", "target=0 must be more than 0"),
        ("dir=tmp/x", "must be an absolute path"),
        ("dir=/a/../etc", "must be an absolute path"),
        ("name=$(reboot)", "name=?(reboot) may have letters"),
        ("curve=2:10/1:5", "ascending order"),
        ("curve=one", "is not a number of nodes"),
        ("speed=a100", "speed=a100 is not a number"),
        ("speed=a100:1/a100:2", "names something twice"),
        ("kind=tasks,speed=a100:1", "speed is for kind=training only"),
        ("servers=17", "servers=17 is not a number of servers from 1 to 16"),
        ("step=1/2/3", "step=1/2/3 must be five numbers"),
        ("step=1/2/3/4/x", "step=1/2/3/4/x is not a number"),
        ("kind=tasks,servers=1", "servers is for kind=training only"),
        ("gradients=98", "gradients=98 must be megabytes and samples, as 98/192"),
        ("gradients=98/0", "gradients=98/0 must be more than 0"),
        ("gradients=1e15/1", "gradients=1e15/1 is more than 1e+15 bytes for each sample"),
        ("kind=tasks,gradients=98/192", "gradients is for kind=training only"),
        ("kind=jobs", "kind=jobs is neither training nor tasks"),
        ("kind=tasks,notice=1", "notice=1 is neither yes nor no"),
        ("kind=tasks,grow=1", "grow is for kind=training only"),
        ("shortest=1", "shortest is for kind=tasks only"),
        ("nodes=2-8", "nodes is for kind=tasks only"),
        ("kind=tasks,nodes=8-2", "nodes=8-2 has a minimum above its maximum"),
        ("kind=tasks,nodes=2-", "nodes=2- is not a number of nodes from 1 to 100000"),
        ("kind=tasks,nodes=4-8,max=3", "nodes=4 of each task is more than max=3"),
        ("kind=tasks,curve=1:1/2:2", "curve is for kind=training, and for tasks with nodes=2-8"),
        ("target=9,deadline=tomorrow", "deadline=tomorrow is neither a time, as 2026-12-01T08:00, nor how long"),
        ("target=9,deadline=2026-02-30T08:00", "is neither a time"),
        ("deadline=12h", "deadline needs target=…: without it nobody knows how much is left to do"),
        ("kind=tasks,deadline=12h", "deadline is for kind=training only"),
    ],
)
def test_a_wrong_tag_is_answered(text: str, why: str) -> None:
    wrong = parse_tag(f"freetrain:{text}")
    assert isinstance(wrong, WrongTag)
    assert why in wrong.why


@given(st.text())
def test_any_text_has_one_of_three_results(text: str) -> None:
    result = parse_tag(f"freetrain:{text}")
    assert isinstance(result, Tag | WrongTag)
    if isinstance(result, WrongTag):
        assert result.why.isprintable()
        assert len(result.why) < 300


@given(st.integers(1, 1000), st.integers(0, 1000), st.floats(0.001, 200))
def test_what_is_written_is_read(fewest: int, more: int, weight: float) -> None:
    comment = format_tag({"min": str(fewest), "max": str(fewest + more), "weight": f"{weight:.6f}"})
    tag = parse_tag(comment)
    if isinstance(tag, Tag):
        assert (tag.min_nodes, tag.max_nodes) == (fewest, fewest + more)
        assert tag.weight == pytest.approx(weight, abs=1e-6)
    else:
        assert not 0.01 <= float(f"{weight:.6f}") <= 100


def test_servers_and_their_steps_are_read() -> None:
    tag = parse_tag("freetrain:servers=4,step=1.5/0/0.02/0.02/0.04")
    assert tag == Tag(servers=4, step_s_by_size=(1.5, 0.0, 0.02, 0.02, 0.04))


def test_gradients_are_read_as_bytes_for_each_sample() -> None:
    assert parse_tag("freetrain:gradients=96/192") == Tag(bytes_per_sample=5e5)


def test_every_key_sets_a_field_of_the_tag() -> None:
    assert {key.field for key in KEYS.values()} == set(Tag.__dataclass_fields__)


def test_a_value_cannot_bring_other_keys_with_it() -> None:
    assert check_values({"name": "x", "max": "4"}) == Tag(name="x", max_nodes=4)
    for value in ("x,weight=9", "x | y", " x", "x\n"):
        assert isinstance(check_values({"name": value}), WrongTag)
