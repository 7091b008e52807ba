from __future__ import annotations

from freetrain.slurm.terms_facts import parse_associations
from freetrain.slurm.terms_of_people import judge_people

TEXT = "root|||normal\nml|||normal,spare\nml|alice||normal,spare\nbio||normal|normal\n"
"""As Slurm 22.05 prints it: an account's line comes before those of its users."""


def said(text: str, is_enforced: bool = True) -> list[tuple[str, bool]]:
    associations, rejected = parse_associations(text)
    assert rejected == []
    return [(one.mend, one.is_unsafe) for one in judge_people("spare", associations, is_enforced)]


def test_it_is_enough_that_some_may_use_the_qos() -> None:
    assert said(TEXT) == []


def test_where_nobody_may_use_it_the_accounts_are_named() -> None:
    nobody = TEXT.replace(",spare", "")
    assert said(nobody) == [("sacctmgr -i modify account bio,ml set QOS+=spare", False)]
    assert said(nobody, is_enforced=False) == []


def test_whoever_has_it_without_asking_is_named_once() -> None:
    account = TEXT.replace("ml|||", "ml||spare|").replace("ml|alice||", "ml|alice|spare|")
    assert said(account) == [("sacctmgr -i modify account ml set DefaultQOS=-1", True)]
    user = TEXT.replace("ml|alice||", "ml|alice|spare|")
    assert said(user) == [("sacctmgr -i modify user alice where account=ml set DefaultQOS=-1", True)]


def test_a_line_that_makes_no_sense_is_named() -> None:
    assert parse_associations("a|b\n")[1] == ["association line not understood: 'a|b'"]
