"""Traits of places: whatever tells places apart reaches policies, JSON and the journal, also one that is new."""

from __future__ import annotations

import json

import pytest

from freetrain.core.place import NO_TRAITS, Place, Traits
from freetrain.core.problem import Problem, problem_from_json, problem_to_dict
from freetrain.core.trainer import Trainer
from freetrain.store.packing import Packer, unpack

TRAINER = Trainer("a", ((1, 1.0),))
TRAITS = Traits._fields
VALUES = {trait: "a100" if none == "" else 1.5 for trait, none in NO_TRAITS._asdict().items()}


def told_apart(trait: str) -> Problem:
    """Two nodes that differ in this trait alone."""
    return Problem(0.0, (Place("n1", 50.0, "a").having(**{trait: VALUES[trait]}), Place("n2", 50.0)), (TRAINER,))


def test_a_place_of_which_nothing_is_known_has_traits_that_say_nothing() -> None:
    assert Place("n1").traits == NO_TRAITS
    assert not any(NO_TRAITS)


@pytest.mark.parametrize("trait", TRAITS)
def test_a_trait_makes_a_class(trait: str) -> None:
    classes = told_apart(trait).classes
    assert {getattr(each.traits, trait): dict(each.names) for each in classes} == {
        VALUES[trait]: {"a": ["n1"]},
        getattr(NO_TRAITS, trait): {None: ["n2"]},
    }


@pytest.mark.parametrize("trait", TRAITS)
def test_a_trait_comes_back_from_json_and_from_the_journal(trait: str) -> None:
    problem = told_apart(trait)
    document = problem_to_dict(problem)
    assert [sorted(node.keys() & {*TRAITS}) for node in document["nodes"]] == [[trait], [trait]]
    assert problem_from_json(json.dumps(document)) == problem
    names = ("n1", "n2")
    packed = Packer(names).pack(problem, {}, (1,))
    assert unpack(packed, problem.now_s, names, lambda _: [TRAINER])[0] == problem


@pytest.mark.parametrize("trait", TRAITS)
def test_a_place_keeps_its_traits_when_its_end_is_another(trait: str) -> None:
    place = told_apart(trait).nodes[0]
    assert place.ending(70.0) == Place("n1", 70.0, "a").having(**{trait: VALUES[trait]})
