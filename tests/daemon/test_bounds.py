"""What is accepted once can be read again: tag, trainer, journal, ledger, explain, page, progress, settings."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from freetrain.cli.main import cli
from freetrain.config import Config, Loaded
from freetrain.core import bounds
from freetrain.core.known_trainer import KnownTrainer, TrainerState
from freetrain.core.observed import SeenCosts, SizeChange
from freetrain.core.throughput import Observation, usable
from freetrain.core.trainer import Trainer
from freetrain.daemon.service import Service
from freetrain.elastic.on_disk import progress
from freetrain.slurm import tags
from freetrain.slurm.tags import KEYS, Tag, check_values, format_tag
from freetrain.store.store import DAEMONS_STORE, Store
from freetrain.web.server import LivePage
from tests.daemon.fake_slurm import FakeSlurm

NUMBERS = st.one_of(
    st.sampled_from(
        [
            "0", "1", "2", "0.000001", "0.01", "100", "100000", "100001", "999999", "1000000", "1000001", "1e9",
            "1000000000", "1000000001", "1e12", "1e15", "999999999999999", "1e18", "1e19", "1e99",
            "999999999999999e99",
        ]
    ),
    st.integers(0, 10**15).map(str),
)  # fmt: skip


def joined(parts: st.SearchStrategy[str], least: int, most: int, by: str) -> st.SearchStrategy[str]:
    return st.lists(parts, min_size=least, max_size=most).map(by.join)


POINTS = st.lists(st.tuples(st.integers(1, 100_000), NUMBERS), min_size=1, max_size=4)
OF_READER: dict[object, st.SearchStrategy[str]] = {
    tags.read_name: st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True),
    tags.read_path: st.from_regex(r"/[A-Za-z0-9._/+@:-]{0,20}", fullmatch=True),
    tags.read_curve: POINTS.map(lambda points: "/".join(f"{nodes}:{rate}" for nodes, rate in sorted(points))),
    tags.read_kind: st.sampled_from(["training", "tasks"]),
    tags.read_range_of_nodes: joined(NUMBERS, 1, 2, "-"),
    tags.read_yes: st.sampled_from(["yes", "no"]),
    tags.read_speeds: joined(NUMBERS.map(lambda speed: f"a100:{speed}"), 1, 1, "/"),
    tags.read_step: joined(NUMBERS, 5, 5, "/"),
    tags.read_gradients: joined(NUMBERS, 2, 2, "/"),
    tags.read_time: st.one_of(
        st.from_regex(r"[1-9][0-9]{0,4}[mhd]", fullmatch=True),
        st.datetimes().map(lambda time: f"{time:%Y-%m-%dT%H:%M}"),
    ),
}
VALUES = {name: OF_READER.get(key.read, NUMBERS) for name, key in KEYS.items()}


@st.composite
def comments(draw: st.DrawFn) -> str:
    """A comment that is accepted, with a value at a bound where there is one."""
    keys = draw(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=4, unique=True))
    values = {key: draw(VALUES[key]) for key in keys}
    values = {key: value for key, value in values.items() if isinstance(check_values({key: value}), Tag)}
    assume(values)
    assume(isinstance(check_values(values), Tag))
    return format_tag(values)


@settings(
    max_examples=6,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(st.lists(comments(), min_size=6, max_size=10), st.booleans())
def test_every_accepted_tag_goes_through_store_journal_explain_and_page_and_back(
    tags: list[str], is_fair: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        state = {"directory": directory, "stop_file": f"{directory}/STOP"}
        lend = {"mode": "act"} if is_fair else {"mode": "act", "fair_share": "off"}
        config = Config.model_validate({"lend": lend, "state": state})
        slurm = FakeSlurm()
        arrays = [slurm.submit_array(tag, tasks=2) for tag in tags]
        for _ in range(2):
            Service(Loaded(config), slurm, lambda config=config: Loaded(config)).run(cycles=1)
            slurm.advance(5.0)
            slurm.start_what_can()
        store = Store.open_existing(Path(directory) / DAEMONS_STORE)
        for run in store.runs():
            for summary in store.decisions(run.id):
                problem, decision = store.decision(run.id, summary.number)
                assert math.isfinite(decision.objective)
                for trainer in problem.trainers:
                    adapter = TypeAdapter(Trainer)
                    assert adapter.validate_python(adapter.dump_python(trainer, by_alias=True)) == trainer
        known = store.ledger().trainers()
        assert {known[array].tag.partition(" | ")[0] for array in arrays if array in known} <= set(tags)
        assert LivePage(config).now().plain.startswith(b"<!DOCTYPE html>")
        file = Path(directory) / "freetrain.toml"
        file.write_text(f"[state]\ndirectory = '{directory}'\n")
        for array in arrays[:3]:
            result = CliRunner().invoke(cli, ["explain", array, "--config", str(file)])
            assert (result.exit_code, result.stderr) == (0, ""), (tags, result.output)


@pytest.mark.parametrize("number", [1e9, 1000000001, 1e15, 1e99])
def test_what_a_record_cannot_hold_is_refused_where_it_comes_in(number: float) -> None:
    accepted = isinstance(check_values({"grow": f"{number:.0f}" if number < 1e15 else f"{number:.0e}"}), Tag)
    assert accepted == (number in bounds.SECONDS)


PROGRESS = {
    "nodes": bounds.NODES,
    "samples_done": bounds.SAMPLES,
    "samples_per_s": bounds.SEEN_RATE,
    "elapsed_s": bounds.SEEN_WEIGHT,
    "time_s": bounds.INSTANT,
    "pause_s": bounds.SECONDS,
    "start_s": bounds.SECONDS,
}


def test_what_progress_may_say_lies_within_what_records_may_hold() -> None:
    for name, bound in PROGRESS.items():
        least, most = progress._RANGES[name]
        assert least in bound, name
        assert most in bound, name


def within(bound: bounds.Bound) -> st.SearchStrategy[float]:
    return st.floats(bound.least, bound.most, allow_nan=False) | st.sampled_from([bound.least, bound.most])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 100_000), within(bounds.SEEN_RATE), within(bounds.SEEN_WEIGHT)), max_size=5),
    within(bounds.SAMPLES),
    st.lists(st.tuples(st.floats(0.0, 1e11), st.integers(1, 100_000), within(bounds.SECONDS)), max_size=5),
)
def test_what_progress_said_is_kept_as_it_was(
    seen: list[tuple[int, float, float]], done: float, changes: list[tuple[float, int, float]]
) -> None:
    costs = SeenCosts().after([SizeChange(at_s, nodes, "join", pause_s) for at_s, nodes, pause_s in changes], ())
    trainer = KnownTrainer(
        "101", "news", "freetrain:min=1", TrainerState.ACTIVE, 0.0, samples_done=done,
        observations=usable(Observation(*observed) for observed in seen), costs=costs,
    )  # fmt: skip
    assert len(trainer.observations) == len(seen)
    with tempfile.TemporaryDirectory() as directory:
        ledger = Store.open(Path(directory) / DAEMONS_STORE).ledger()
        ledger.save_trainers([trainer])
        assert ledger.trainers() == {"101": trainer}


@pytest.mark.parametrize("seconds", ["1e10", "inf", "nan", "-1"])
def test_a_setting_that_no_record_can_hold_is_refused(seconds: str) -> None:
    with pytest.raises(ValueError, match="poll"):
        Config.model_validate({"pace": {"poll": float(seconds)}})
