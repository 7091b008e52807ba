"""Who may be in one training together."""

from __future__ import annotations

import dataclasses

import pytest

from freetrain.elastic.membership.fitting_in import why_foreign, why_foreign_to
from freetrain.elastic.membership.identity import this_member
from freetrain.elastic.on_disk.members import Generation
from freetrain.elastic.on_disk.next_generation import View

MEMBER = dataclasses.replace(this_member("model=1 data=2 script=3", "2.13"), id="a")
ALIKE = dataclasses.replace(MEMBER, id="b")
OTHERS = {
    "it runs torch 1.0, the others 2.13": dataclasses.replace(ALIKE, torch="1.0"),
    "another training runs there, whose model and data differ": dataclasses.replace(
        ALIKE, fingerprint="model=7 data=8 script=9"
    ),
    "its script is not the one that the others run": dataclasses.replace(
        ALIKE, fingerprint="model=1 data=2 script=9"
    ),
    "its node has 4 workers to shard the model over": dataclasses.replace(ALIKE, shards=4),
}


def seen(*members: str) -> View:
    generation = Generation(1, members, "host", "address", 1, "", "start")
    return View(generation=generation, members={MEMBER.id: MEMBER})


def test_who_is_alike_fits_in() -> None:
    assert why_foreign(MEMBER, ALIKE) is None


@pytest.mark.parametrize("reason", OTHERS)
def test_who_is_not_hears_why(reason: str) -> None:
    assert (why_foreign(MEMBER, OTHERS[reason]) or "").startswith(reason)


def test_who_comes_looks_at_those_who_train_and_not_at_the_size_of_their_nodes() -> None:
    words = ("another", "4 workers")
    alien, wider = (OTHERS[next(reason for reason in OTHERS if word in reason)] for word in words)
    assert why_foreign_to(seen("a"), ALIKE) is None
    assert (why_foreign_to(seen("a"), alien) or "").startswith("another training runs there")
    assert why_foreign_to(seen(), alien) is None
    assert why_foreign_to(seen("a"), wider) is None
