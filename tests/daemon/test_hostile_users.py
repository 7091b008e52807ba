"""Whatever one user hands in or writes, no look ends, and another user's training goes on.

FREETRAIN_HOSTILE_DRAWS=10000 draws that many submissions, each with what is written for it; by default a few.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freetrain.core.job import JobState
from freetrain.core.known_trainer import TrainerState
from freetrain.slurm.comments import ANSWER
from freetrain.slurm.tags import KEYS
from freetrain.store.store import Store
from tests.daemon.training import Site, everybody_is_me, rate
from tests.hostile import PROGRESS_LINES

AT_ONCE = 10
DRAWS = int(os.environ.get("FREETRAIN_HOSTILE_DRAWS", "120"))

HONEST_TASKS = 4
HONEST_LINES = (rate(samples_done=100), rate(nodes=1, samples_per_s=33.0, samples_done=200))

NUMBERS = st.one_of(
    st.sampled_from(
        [
            "0",
            "1",
            "2",
            "8",
            "100000",
            "999999",
            "1e9",
            "1e15",
            "1e99",
            "9" * 15 + "e99",
            "1e-320",
            "0.000001",
            "inf",
        ]
    ),
    st.integers(0, 100_000).map(str),
    st.floats(0, 1e15).map(lambda value: f"{value:.3f}"),
)
POINTS = st.tuples(st.one_of(st.integers(1, 9).map(str), NUMBERS), NUMBERS).map(":".join)
CURVES = st.lists(POINTS, max_size=4).map("/".join)
ANYTHING = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30)
"""Slurm's strings end at a NUL."""


@st.composite
def tags(draw: st.DrawFn) -> str:
    """A comment that begins as a tag does."""
    items = []
    for key in draw(st.lists(st.sampled_from([*KEYS, "mim", ""]), max_size=4)):
        kind = CURVES if key == "curve" else st.one_of(NUMBERS, NUMBERS, NUMBERS, ANYTHING)
        items.append(f"{key}={draw(kind)}")
    answer = draw(st.one_of(st.just(""), st.just(""), ANYTHING.map(lambda text: ANSWER + text)))
    return "freetrain:" + ",".join(items) + answer


TAGS = st.one_of(tags(), tags(), ANYTHING.map("freetrain:".__add__), ANYTHING)


@dataclass(frozen=True)
class Attack:
    """Something that the hostile user hands in, and what he writes for it.

    Attributes:
        tag: the comment; where it is to have a directory, that is added.
        has_directory: whether.
        tasks: of the array.
        changes: of its tasks: what a user may ask of Slurm, and what may become of a job.
        held: whether it was handed in held.
        first: whether before the honest user.
        lines: of progress, before each look.
    """

    tag: str
    has_directory: bool
    tasks: int
    changes: dict[str, object]
    held: bool
    first: bool
    lines: tuple[tuple[bytes, ...], ...]


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "node_count": st.sampled_from([0, 1, 2, 100_000]),
        "features": st.one_of(st.sampled_from(["(null)", "a&", "[a*4&b]", "a|b", "&&", "*"]), ANYTHING),
        "reason": st.one_of(st.sampled_from(["QOSMaxJobsPerUserLimit", "BadConstraints"]), ANYTHING),
        "name": ANYTHING,
        "state": st.sampled_from(list(JobState)),
    },
)
ATTACKS = st.builds(
    Attack,
    TAGS,
    st.booleans(),
    st.integers(1, 12),
    CHANGES,
    st.booleans(),
    st.booleans(),
    st.tuples(*[st.lists(PROGRESS_LINES, max_size=4).map(tuple)] * 3),
)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """In memory where there is such a place: each look writes to the database."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def store(folder: Path) -> Store:
    """One database for all draws, emptied for each: making one takes longer than several looks."""
    store = Store.open(folder / "freetrain.db")
    shutil.copyfile(store.path, folder / "empty.db")
    return store


def emptied(store: Store) -> Store:
    """The database as it was in the beginning."""
    for path in store.path.parent.glob("freetrain.db-*"):
        path.unlink()
    shutil.copyfile(store.path.with_name("empty.db"), store.path)
    return store


def submit(site: Site, name: str, attack: Attack) -> None:
    """Hand in one of the hostile user's arrays."""
    tag = attack.tag
    if attack.has_directory and tag.startswith("freetrain:"):
        body, bar, answer = tag.partition(ANSWER)
        tag = f"{body},dir={site.directory(name)}{bar}{answer}"
    array = site.slurm.submit_array(tag, attack.tasks, user="mallory", held=attack.held)
    for task in [job for job in site.slurm.jobs.values() if job.array == array]:
        changes = {name: value for name, value in attack.changes.items() if hasattr(task, name)}
        if changes.get("state") in (JobState.RUNNING, JobState.COMPLETING):
            changes["nodes"] = frozenset({"n8"})
        site.slurm.jobs[task.id] = replace(task, **changes)  # type: ignore[arg-type]


def check_honest(site: Site, array: str) -> None:
    """The honest user's training is what it was without the other's, as long as freetrain has nodes to lend."""
    entry = site.training(array)
    assert entry.trainer.state is TrainerState.ACTIVE
    assert entry.trainer.fault == ""
    assert site.competes(array) or not offered(site)


def check_share(site: Site, array: str) -> None:
    """It has at least half of what is lent, or all that it can use."""
    assert len(site.slurm.running(array)) >= min(HONEST_TASKS, offered(site) // 2)


def offered(site: Site) -> int:
    """Nodes that freetrain may lend: a job without a tag takes nodes without freetrain, in whatever partition."""
    assert site.lender.judgement is not None
    return len(site.lender.judgement.offers.offered)


def play(site: Site, attacks: Sequence[Attack]) -> None:
    """The attacks beside an honest training, through three looks of a daemon and two of the next."""
    named = {f"mallory-{number}": attack for number, attack in enumerate(attacks)}
    for name, attack in named.items():
        if attack.first:
            submit(site, name, attack)
    honest = site.slurm.submit_array(f"freetrain:min=1,dir={site.directory('alice')}", HONEST_TASKS, user="alice")
    for name, attack in named.items():
        if not attack.first:
            submit(site, name, attack)
    site.train("alice", *HONEST_LINES)
    with site.daemon():
        for look in range(3):
            for name, attack in named.items():
                site.train(name, *attack.lines[look])
            site.look()
            check_honest(site, honest)
        seen = [
            (observation.nodes, observation.samples_per_s)
            for observation in site.training(honest).trainer.observations
        ]
        assert seen == [(2, 64.0), (1, 33.0)]
        assert site.training(honest).trainer.samples_done == 200
    with site.daemon():
        site.train("alice", rate(samples_done=300))
        site.look(4)  # what was handed in without being held has started by itself, and is taken back first
        check_honest(site, honest)
        check_share(site, honest)
        assert site.training(honest).trainer.samples_done == 300


@pytest.mark.slow
@settings(
    max_examples=max(1, DRAWS // AT_ONCE),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    print_blob=True,
)
@given(attacks=st.lists(ATTACKS, min_size=AT_ONCE, max_size=AT_ONCE))
def test_whatever_one_user_hands_in_and_writes_no_look_ends_and_the_others_training_goes_on(
    folder: Path,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    attacks: list[Attack],
) -> None:
    everybody_is_me(monkeypatch)
    caplog.clear()
    with tempfile.TemporaryDirectory(dir=folder) as directories:
        play(Site(Path(directories), emptied(store)), attacks)
    assert not [record for record in caplog.records if record.exc_info and record.levelno > logging.DEBUG]
    assert not [record for record in caplog.records if "a defect" in record.getMessage()]
