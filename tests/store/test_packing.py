from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.core.place import Place, Traits
from freetrain.core.problem import Problem
from freetrain.core.trainer import Trainer, TrainerPast
from freetrain.errors import StateError
from freetrain.store.packing import PackedDecision, Packer, compressed, decompressed, unpack, unpack_serving
from tests.store.samples import BERT, NAMES, PLACEMENT, PROBLEM, RESNET

TRAINERS = (RESNET, BERT, *(Trainer(f"t{number}", ((1, 1.0),)) for number in range(3)))
IDS = [trainer.id for trainer in TRAINERS]


def packed_and_back(problem, placement, names=NAMES, redefined=()):
    numbers = [3 + 2 * position for position in range(len(problem.trainers))][::-1]
    packed = Packer(names).pack(problem, placement, numbers, redefined)
    known = dict(zip(numbers, problem.trainers, strict=True))
    return unpack(packed, problem.now_s, names, lambda wanted: [known[number] for number in wanted])


@st.composite
def problems_with_placements(draw):
    names = draw(st.lists(st.sampled_from([*NAMES, "stranger", "guest"]), unique=True))
    ends = st.sampled_from([None, 0.1 + 0.2, 1.7e9, 1.7e9 + 1 / 3, -5.0])
    kinds = st.sampled_from(["", "a100", "v100"])
    watts = st.sampled_from([0.0, 1234.5])
    nodes = tuple(
        Place(name, draw(ends), draw(st.sampled_from([None, *IDS])), Traits(draw(kinds), draw(watts)))
        for name in names
    )
    owners = {name: draw(st.sampled_from([None, *IDS])) for name in names}
    placement = {
        trainer: tuple(name for name in names if owners[name] == trainer)
        for trainer in IDS
        if trainer in owners.values()
    }
    return Problem(draw(st.floats(0, 2e9)), nodes, TRAINERS, 120.5, "throughput"), placement


def in_numbered_order(names):
    return sorted(names, key=lambda name: NAMES.index(name) if name in NAMES else len(NAMES))


@given(problems_with_placements())
def test_whatever_is_packed_comes_back_with_its_nodes_in_numbered_order(case):
    problem, placement = case
    by_name = {node.name: node for node in problem.nodes}
    restored, owned = packed_and_back(problem, placement)
    assert restored.nodes == tuple(by_name[name] for name in in_numbered_order(by_name))
    assert (restored.now_s, restored.trainers) == (problem.now_s, problem.trainers)
    assert (restored.horizon_s, restored.objective) == (120.5, "throughput")
    assert owned == {trainer: tuple(in_numbered_order(names)) for trainer, names in placement.items()}


def test_a_problem_in_numbered_order_comes_back_equal():
    assert packed_and_back(PROBLEM, PLACEMENT) == (PROBLEM, PLACEMENT)


def test_how_often_sizes_change_comes_back():
    often = replace(PROBLEM, changes=7.5)
    assert packed_and_back(often, PLACEMENT) == (often, PLACEMENT)


def test_what_trainers_have_done_comes_back():
    known = replace(PROBLEM, past={PROBLEM.trainers[1].id: TrainerPast(1234.5678901, 7200.5, 30.25, None)})
    assert packed_and_back(known, PLACEMENT) == (known, PLACEMENT)


def test_what_an_older_freetrain_kept_of_a_past_is_read():
    packed = Packer(NAMES).pack(PROBLEM, PLACEMENT, (1, 2))
    older = compressed({**decompressed(packed.problem), "done": [None, 5.5]})
    problem, _ = unpack(replace(packed, problem=older), PROBLEM.now_s, NAMES, lambda _: PROBLEM.trainers)
    assert problem.past == {PROBLEM.trainers[1].id: TrainerPast(5.5)}


def test_which_nodes_had_servers_and_were_to_have_them_comes_back():
    id_ = PROBLEM.trainers[1].id
    known = replace(PROBLEM, serving={id_: (NAMES[0],)})
    assert packed_and_back(known, PLACEMENT) == (known, PLACEMENT)
    packed = Packer(NAMES).pack(known, PLACEMENT, (1, 2), serving={id_: (NAMES[1],)})
    assert unpack_serving(packed) == {id_: (NAMES[1],)}
    assert unpack_serving(Packer(NAMES).pack(PROBLEM, PLACEMENT, (1, 2))) == {}


def test_a_problem_without_anything_comes_back_empty():
    empty = Problem(0.0, (), ())
    assert packed_and_back(empty, {}, names=()) == (empty, {})
    assert packed_and_back(empty, {}) == (empty, {})


def test_holders_and_owners_that_are_no_trainers_of_the_problem_are_kept():
    problem = Problem(0.0, (Place("n01", 5.0), Place("n02", None, "long gone")), (RESNET,))
    placement = {"resnet": ("n01",), "nobody knows": ("n02", "n03")}
    assert packed_and_back(problem, placement) == (problem, placement)


def test_more_than_255_trainers_and_ends_fit():
    names = tuple(f"n{number:04d}" for number in range(1000))
    trainers = tuple(Trainer(f"t{number}", ((1, 1.0),)) for number in range(400))
    nodes = tuple(Place(name, float(number), f"t{number % 400}") for number, name in enumerate(names))
    placement = {f"t{number}": (names[-1 - number],) for number in range(400)}
    problem = Problem(0.0, nodes, trainers)
    assert packed_and_back(problem, placement, names) == (problem, placement)


def test_1600_idle_nodes_of_4700_with_100_trainers_take_less_than_2_kb():
    names = tuple(f"node{number:04d}" for number in range(4700))
    trainers = tuple(Trainer(f"t{number}", ((1, 1.0), (64, 40.0))) for number in range(100))
    idle = np.random.default_rng(1).choice(470, 160, replace=False)
    lent = {10 * block + offset: f"t{block % 100}" for block in idle.tolist() for offset in range(8)}
    nodes = tuple(
        Place(names[10 * block + offset], 1.7e9 + 300.0 * (block % 70), lent.get(10 * block + offset))
        for block in idle.tolist()
        for offset in range(10)
    )
    placement = {trainer.id: tuple(names[n] for n in lent if lent[n] == trainer.id) for trainer in trainers}
    packed = Packer(names).pack(Problem(1.7e9, nodes, trainers), placement, range(1, 101))
    assert len(nodes) == 1600
    assert len(packed.problem) + len(packed.placement) < 2000


def test_a_damaged_or_unknown_decision_is_a_state_error():
    packed = Packer(NAMES).pack(PROBLEM, PLACEMENT, (1, 2))
    for wrong in (packed.problem[:-5], compressed({"nodes": [99], "trainers": []})):
        with pytest.raises(StateError, match="is damaged"):
            unpack(PackedDecision(wrong, packed.placement), 0.0, NAMES, lambda numbers: [])
    for wrong in (b"\x09" + packed.problem[1:], b""):
        with pytest.raises(StateError, match="packed in a way"):
            unpack(PackedDecision(wrong, packed.placement), 0.0, NAMES, lambda numbers: [])
