from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.core.problem import Offer, Problem
from freetrain.core.trainer import Trainer
from freetrain.errors import StateError
from freetrain.store.frames import join, narrow, run_lengths, split
from freetrain.store.packing import PackedDecision, Packer, Roll, unpack
from tests.store.samples import BERT, NAMES, PLACEMENT, PROBLEM, RESNET

TRAINERS = (RESNET, BERT, *(Trainer(f"t{number}", ((1, 1.0),)) for number in range(3)))
IDS = [trainer.id for trainer in TRAINERS]


def packed_and_back(problem, placement, names=NAMES, redefined=()):
    numbers = [3 + 2 * position for position in range(len(problem.trainers))][::-1]
    packed = Packer(names).pack(problem, placement, Roll(numbers, redefined))
    known = dict(zip(numbers, problem.trainers, strict=True))
    return unpack(packed, problem.now_s, names, lambda wanted: [known[number] for number in wanted])


@st.composite
def problems_with_placements(draw):
    names = draw(st.lists(st.sampled_from([*NAMES, "stranger", "guest"]), unique=True))
    ends = st.sampled_from([None, 0.1 + 0.2, 1.7e9, 1.7e9 + 1 / 3, -5.0])
    nodes = tuple(Offer(name, draw(ends), draw(st.sampled_from([None, *IDS]))) for name in names)
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


def test_a_problem_without_anything_comes_back_empty():
    empty = Problem(0.0, (), ())
    assert packed_and_back(empty, {}, names=()) == (empty, {})
    assert packed_and_back(empty, {}) == (empty, {})


def test_holders_and_owners_that_are_no_trainers_of_the_problem_are_kept():
    problem = Problem(0.0, (Offer("n01", 5.0), Offer("n02", None, "long gone")), (RESNET,))
    placement = {"resnet": ("n01",), "nobody knows": ("n02", "n03")}
    assert packed_and_back(problem, placement) == (problem, placement)


def test_more_than_255_trainers_and_ends_fit():
    names = tuple(f"n{number:04d}" for number in range(1000))
    trainers = tuple(Trainer(f"t{number}", ((1, 1.0),)) for number in range(400))
    nodes = tuple(Offer(name, float(number), f"t{number % 400}") for number, name in enumerate(names))
    placement = {f"t{number}": (names[-1 - number],) for number in range(400)}
    problem = Problem(0.0, nodes, trainers)
    assert packed_and_back(problem, placement, names) == (problem, placement)


def test_1600_idle_nodes_of_4700_with_100_trainers_take_less_than_2_kb():
    names = tuple(f"node{number:04d}" for number in range(4700))
    trainers = tuple(Trainer(f"t{number}", ((1, 1.0), (64, 40.0))) for number in range(100))
    idle = np.random.default_rng(1).choice(470, 160, replace=False)
    lent = {10 * block + offset: f"t{block % 100}" for block in idle.tolist() for offset in range(8)}
    nodes = tuple(
        Offer(names[10 * block + offset], 1.7e9 + 300.0 * (block % 70), lent.get(10 * block + offset))
        for block in idle.tolist()
        for offset in range(10)
    )
    placement = {trainer.id: tuple(names[n] for n in lent if lent[n] == trainer.id) for trainer in trainers}
    packed = Packer(names).pack(Problem(1.7e9, nodes, trainers), placement, Roll(range(1, 101)))
    assert len(nodes) == 1600
    assert len(packed.problem) + len(packed.placement) < 2000


def test_runs_of_equal_values_expand_to_the_values():
    values = np.array([7, 7, 7, 0, 300, 300])
    lengths, of_run = run_lengths(values)
    assert lengths.tolist() == [3, 1, 2]
    assert np.repeat(of_run, lengths).tolist() == values.tolist()
    assert narrow(of_run).dtype == np.uint16
    assert narrow(lengths).dtype == np.uint8


def test_a_frame_gives_its_header_and_arrays_back():
    header, (small, real) = split(join({"ä": [1]}, (np.arange(3, dtype=np.uint8), np.array([0.1, np.nan]))))
    assert header == {"ä": [1]}
    assert small.tolist() == [0, 1, 2]
    assert real[0] == 0.1
    assert np.isnan(real[1])


def test_a_damaged_or_unknown_frame_is_a_state_error():
    whole = join({}, (np.arange(1000),))
    with pytest.raises(StateError, match="is damaged"):
        split(whole[:-5])
    with pytest.raises(StateError, match="packed in a way"):
        split(b"\x09" + whole[1:])
    with pytest.raises(StateError, match="packed in a way"):
        unpack(PackedDecision(b"", b""), 0.0, NAMES, lambda numbers: [])
