"""What users write – tags, comments, progress, records of a training – and what clients of the network send."""

from __future__ import annotations

import getpass
import json
import random
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from freetrain.config import WebSettings
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState
from freetrain.core.known_trainer import believed
from freetrain.daemon.admission.sole_lender import find_marks
from freetrain.daemon.trainers.progress_reader import ProgressFiles, read_report
from freetrain.durations import parse_duration
from freetrain.elastic.on_disk.files import read_json
from freetrain.elastic.on_disk.members import Generation, Member, from_document
from freetrain.showing.ready_text import parse_head
from freetrain.slurm import comments
from freetrain.slurm.tags import Tag, parse_tag
from freetrain.web.identity import Identities
from freetrain.web.server import Answers, Rendered, packed
from tests.fuzzing.damage import damaged, damaged_text
from tests.fuzzing.running import Parser
from tests.hostile import RATE

TAGS = (
    "freetrain:min=2,max=16,curve=1:100/2:190/4:350,weight=2,samples=1e9,deadline=2026-12-01T08:00",
    "freetrain:kind=tasks,max=100,dir=/scratch/me/run-7",
    "freetrain:min=1,max=8,speeds=a100:1/v100:0.5,servers=2,gradients=98/192 | servers on c01,c02",
    "freetrain:min=1,max=8,deadline=12h | resume 1790000000",
    "freetrain-daemon:host=login1,pid=4711,at=1790000000,state=/var/lib/freetrain",
)
DURATIONS = ("1-12:30:15", "2h", "90s", "10:00", "UNLIMITED", "1.5days")
REQUEST = b"GET /metrics?x=1 HTTP/1.1\r\nHost: localhost:9811\r\nAccept-Encoding: gzip, br\r\nAccept: */*\r\n\r\n"
QUEUE = FragmentQueue("freetrain")


def tag(random: random.Random, folder: Path) -> None:
    """A comment: its tag, and what freetrain and the owner wrote behind it."""
    comment = damaged_text(random, random.choice(TAGS))
    read = parse_tag(comment)
    if isinstance(read, Tag):
        read.deadline_s(1.79e9)
        if read.curve:
            believed(read.curve)
    job = Job("7", "7", "me", "freetrain", JobState.PENDING, comment=comment)
    find_marks([job], QUEUE)
    comments.ask_to_resume(comment, 1.79e9)
    comments.servers_on(comments.with_answer(comment, "x"))
    comments.servers_on(comment)
    comments.says_paused(comment)


def progress(random: random.Random, folder: Path) -> None:
    """A training's directory, as its owner left it."""
    line = json.dumps(RATE).encode() + b"\n"
    rescale = {"event": "rescale", "time_s": 2.0, "generation": 2, "world": 4, "nodes": 4, "from_world": 2}
    text = damaged(random, line * random.choice([1, 2, 20]) + json.dumps(rescale).encode() + b"\n")
    (folder / "progress.jsonl").write_bytes(text)
    read_report(ProgressFiles(str(folder), getpass.getuser(), random.choice([0, 0, 1, len(text) // 2, len(text)])))


def records(random: random.Random, folder: Path) -> None:
    """Records by which the members of a training find each other."""
    member = Member("m1", "a1", "h1", "10.0.0.1", 4711, 99, "2.13", "abc", 1.79e9)
    generation = {"number": 3, "members": ["m1", "m2"], "cause": "grown", "address": "10.0.0.1", "port": 4000}
    document = random.choice([json.dumps(generation), json.dumps({"id": member.id, "pid": member.pid})])
    path = folder / "record.json"
    path.write_bytes(damaged(random, document.encode()))
    read = read_json(path) or {}
    from_document(Member, read)
    from_document(Generation, read)


def request(random: random.Random, folder: Path) -> None:
    """The head of a request to the page."""
    head = parse_head(damaged(random, REQUEST), "127.0.0.1")
    _page()(head)


@cache
def _page():  # type: ignore[no-untyped-def]
    identities = Identities(WebSettings(), Path("/nowhere"))
    return Answers(_Page(), identities, is_local=True).answer  # type: ignore[arg-type]


class _Page:
    def now(self) -> Rendered:
        return packed(b"<html>")


def duration(random: random.Random, folder: Path) -> None:
    """A duration."""
    parse_duration(damaged_text(random, random.choice(DURATIONS)))


PARSERS: Mapping[str, Parser] = {
    "users tags": Parser(tag),
    "users progress": Parser(progress),
    "users records": Parser(records),
    "users http": Parser(request, (ValueError,)),
    "users durations": Parser(duration, (ValueError,)),
}
