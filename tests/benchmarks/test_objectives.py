"""What each objective costs the others, on a piece of the log."""

from __future__ import annotations

from benchmarks.objectives import WISHES, Wish, read_log, replay, table, trainers


def test_every_wish_has_a_row_and_everybody_his_trainings() -> None:
    assert len({wish.name for wish in WISHES}) == len(WISHES)
    people = {(trainer.owner, trainer.account) for trainer in trainers()}
    assert people == {("ann", "vision"), ("ben", "vision"), ("cat", "language"), ("dan", "language")}
    assert sum(trainer.deadline_s is not None for trainer in trainers()) == 8


def test_electricity_that_counts_is_saved_at_the_cost_of_work() -> None:
    log = read_log(0.5)
    plain, saving = replay(log, Wish("plain")), replay(log, Wish("saving", "speedup,energy=5000"))
    assert saving.kwh < plain.kwh
    assert saving.node_hours_of_work < plain.node_hours_of_work
    assert saving.node_hours_of_work / saving.kwh > plain.node_hours_of_work / plain.kwh
    head, rule, *rows = table([(Wish("plain"), plain), (Wish("saving"), saving)])
    assert {line.count("|") for line in (head, rule, *rows)} == {11}
    assert rows[0].startswith("| plain | ")
