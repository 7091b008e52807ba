"""What changes of size cost a trainer in a replay."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from freetrain.core.objectives import worth_per_s
from freetrain.core.trainer import Trainer, TrainerPast
from freetrain.replay.trainer_run import Loss, TrainerRun

TRAINER = Trainer("A", ((1, 10.0), (2, 20.0)), scale_up_s=5.0, scale_down_s=5.0, forced_loss_s=300.0, start_s=60.0)


def started(as_published: bool = False) -> TrainerRun:
    run = TrainerRun(TRAINER, worth_per_s(TRAINER, "throughput"), 0.0, as_published)
    run.grow(("n1",), 0.0)
    return run


def test_an_eviction_takes_the_pause_and_no_more_work_than_was_trained_since_the_start() -> None:
    run = started()
    run.evict({"n1"}, 160.0)
    assert run.samples == -5 * 10.0
    assert run.lost_s == {Loss.START: 60.0, Loss.EVICTION: 100.0, Loss.EVICTION_PAUSE: 5.0}


def test_its_past_is_what_it_has_done_and_had_by_then() -> None:
    run = started()
    assert run.past_at(160.0) == TrainerPast(1000.0, 160.0, 0.0, None)
    run.shrink(("n1",), 200.0)
    assert run.past_at(300.0) == TrainerPast(run.samples, 200.0, 0.0, 200.0)
    run.grow(("n1",), 400.0)
    run.boot(("n2",), 410.0)
    assert run.past_at(420.0).node_s == 200.0 + 10.0 + 2 * 10.0


def test_what_was_trained_long_ago_is_saved() -> None:
    run = started()
    run.evict({"n1"}, 1060.0)
    assert run.samples == (1000 - 300) * 10.0
    assert run.lost_s == {Loss.START: 60.0, Loss.EVICTION: 295.0, Loss.EVICTION_PAUSE: 5.0}


def test_a_change_in_good_order_saves_what_was_trained_before_it() -> None:
    run = started()
    run.grow(("n2",), 160.0)
    run.evict({"n2"}, 165.0)
    assert run.samples == (100 - 5) * 10.0 + 5 * 20.0 - 5 * 20.0, "one pause follows the other, no work is lost"
    run.evict({"n1"}, 175.0)
    assert run.lost_s[Loss.EVICTION] == 5.0, "what was trained between the second pause and the third"
    assert run.lost_s[Loss.EVICTION_PAUSE] == 10.0


def test_a_pause_that_an_eviction_cuts_short_costs_what_has_passed_of_it() -> None:
    run = started()
    run.evict({"n1"}, 10.0)
    assert run.lost_s == {Loss.START: 10.0, Loss.EVICTION: 0.0, Loss.EVICTION_PAUSE: 5.0}
    assert run.samples == -5 * 10.0


def test_an_eviction_soon_after_growing_is_never_free() -> None:
    run = started()
    run.grow(("n2",), 160.0)
    run.evict({"n2"}, 160.0)
    assert run.lost_s[Loss.EVICTION_PAUSE] == 5.0


def test_who_knew_the_end_has_saved_and_pays_the_pause_alone() -> None:
    run = started()
    run.evict({"n1"}, 1060.0, was_known=True)
    assert run.lost_s == {Loss.START: 60.0, Loss.EVICTION: 0.0, Loss.EVICTION_PAUSE: 5.0}


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(("grow", "shrink", "evict", "evict known")), st.floats(0.0, 400.0), st.integers(1, 3)
    ),
    max_size=12,
)


@given(CHANGES, st.booleans(), st.booleans())
def test_no_loss_is_ever_negative(
    changes: list[tuple[str, float, int]], as_published: bool, independent: bool
) -> None:
    trainer = replace(TRAINER, independent=independent)
    run, now_s = TrainerRun(trainer, worth_per_s(trainer, "throughput"), 0.0, as_published), 0.0
    for change, later_s, count in changes:
        now_s += later_s
        names = [f"n{number}" for number in range(count)]
        if change == "grow":
            run.grow(set(names) - run.nodes, now_s)
        elif change == "shrink":
            run.shrink(names, now_s)
        else:
            run.evict(set(names) & run.nodes, now_s, was_known=change == "evict known")
    assert all(seconds >= -1e-9 for seconds in run.lost_s.values())
    assert run.lost_node_s >= -1e-9


def test_the_published_method_charges_an_eviction_whole() -> None:
    run = started(as_published=True)
    run.evict({"n1"}, 160.0)
    assert run.samples == (160 - 60 - 300) * 10.0


def test_nodes_that_work_each_by_itself_lose_nothing_when_others_come_or_go() -> None:
    trainer = replace(TRAINER, independent=True)
    run = TrainerRun(trainer, worth_per_s(trainer, "throughput"), 0.0)
    run.grow(("n1",), 0.0)
    run.grow(("n2",), 100.0)
    assert run.samples == (100 - 60 - 60) * 10.0, "each has started once"
    run.shrink(("n2",), 200.0)
    assert run.samples == (200 - 60) * 10.0 + (100 - 60) * 10.0 - 5 * 10.0


def booting(boot_s: float = 30.0) -> TrainerRun:
    trainer = replace(TRAINER, boot_s=boot_s)
    run = TrainerRun(trainer, worth_per_s(trainer, "throughput"), 0.0)
    run.boot(("n1",), 0.0)
    return run


def test_a_node_that_boots_trains_nothing_and_is_lent() -> None:
    run = booting()
    assert not run.finish_boots(29.0)
    assert run.finish_boots(30.0)
    run.settle(130.0)
    assert run.samples == (100 - 60) * 10.0
    assert (run.node_s, run.booting_node_s) == (130.0, 30.0)


def test_the_others_go_on_while_a_node_boots_and_pay_when_it_joins() -> None:
    run = booting()
    run.finish_boots(30.0)
    run.boot(("n2",), 130.0)
    run.finish_boots(160.0)
    assert run.samples == (130 - 60 - 5) * 10.0
    run.settle(170.0)
    assert run.samples == (130 - 60 - 5) * 10.0 + 10 * 20.0


def test_a_node_that_is_taken_or_given_back_while_it_boots_costs_nothing() -> None:
    run = booting()
    run.evict({"n1"}, 10.0)
    assert (run.samples, run.losses, run.evicted_nodes, run.booting_s) == (0.0, {}, 1, {})
    run.boot(("n1",), 20.0)
    run.shrink(("n1",), 30.0)
    assert (run.samples, run.losses, run.booting_s) == (0.0, {}, {})
    assert not run.finish_boots(100.0)


def test_nodes_take_their_electricity_while_they_boot_too() -> None:
    trainer = replace(TRAINER, boot_s=30.0)
    run = TrainerRun(trainer, worth_per_s(trainer, "throughput"), 0.0, watts_of={"n1": 100.0, "n2": 1000.0})
    run.boot(("n1",), 0.0)
    run.finish_boots(30.0)
    run.boot(("n2",), 100.0)
    run.settle(110.0)
    assert run.joules == 110 * 100.0 + 10 * 1000.0
