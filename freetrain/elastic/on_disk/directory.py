"""The trainer's directory on the shared file system: the one place where the truth about a trainer lives."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from freetrain.elastic.errors import DirectoryError
from freetrain.elastic.on_disk.files import (
    ListedFolder,
    create_json,
    make_folder,
    names_in,
    overwrite,
    read_json,
    write_json,
)
from freetrain.elastic.on_disk.members import Generation, Member, Secret, from_document
from freetrain.elastic.on_disk.next_generation import View, spread
from freetrain.errors import explained

TRAINER_VARIABLE = "FREETRAIN_TRAINER"
_KEPT_GENERATIONS = 50
# The daemon runs under an account of its own and must get at the progress, and at nothing else in there.
_ROOT_MODE = 0o711


class TrainerDirectory:
    """Reads and writes a trainer's directory.

    Heartbeats, and where servers are to run, are replaced as a whole; all other files are written once. A
    generation is fenced by its number: the file of generation n can be created only once.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.checkpoints = root / "checkpoints"
        self.progress_path = root / "progress.jsonl"
        self.finished_path = root / "finished.json"
        self._servers_path = root / "servers.json"
        self._epoch_path = root / "epoch.json"
        self._not_adopted_path = root / "not_adopted.json"
        self._members = root / "members"
        self._generations = root / "generations"
        self._listed_members = ListedFolder(self._members)
        self._listed_generations = ListedFolder(self._generations)
        self._viewed: tuple[list[str], list[str], View] | None = None
        self._beats = root / "beats"
        self._requests = root / "requests"
        self._agents = root / "agents"
        self.secret = Secret(b"")
        self._known: dict[str, Member] = {}
        self._reasons: dict[str, str] = {}
        self._latest: Generation | None = None

    @classmethod
    def open(cls, root: Path) -> TrainerDirectory:
        """The directory, made if need be; raises DirectoryError if it cannot be used."""
        self = cls(root.absolute())
        make_folder(self.root, _ROOT_MODE)
        for name in ("checkpoints", "members", "generations", "beats", "requests", "agents"):
            make_folder(self.root / name)
        what = f"cannot write to the trainer's directory {self.root}"
        hint = "All members of a trainer must be able to write there; check its owner, mode, quota and mount."
        # A full disk, or a quota, shows only when something is written.
        with explained(what, hint, DirectoryError), tempfile.TemporaryFile(dir=self._members) as probe:
            probe.write(bytes(4096))
            probe.flush()
        self.secret = Secret.of(self.root / "secret")
        return self

    @classmethod
    def existing(cls, root: Path) -> TrainerDirectory:
        """The directory of a trainer that somebody started already."""
        if not (root / "generations").is_dir():
            raise DirectoryError(
                f"{root} is not the directory of a trainer.",
                "Name the directory that was given to 'freetrain run --trainer'.",
            )
        return cls.open(root)

    # -- members

    def join(self, member: Member) -> None:
        """Record that this member is ready to join."""
        write_json(self._members / f"{member.id}.json", asdict(self.secret.sign(member)))

    def leave(self, member: str) -> None:
        """Record that this member wants to leave at the next step boundary."""
        create_json(self._members / f"{member}.leaving", {"reason": "asked to leave"})

    def mark_gone(self, member: str, reason: str) -> bool:
        """Record that this member left or was lost, for good; True for the process that recorded it first."""
        return create_json(self._members / f"{member}.gone", {"reason": reason})

    def refuse(self, member: str, reason: str) -> None:
        """Turn a newcomer away, with a sentence."""
        create_json(self._members / f"{member}.refused", {"reason": reason})

    def offer_feed(self, member: str, attempt: int, document: dict[str, Any]) -> None:
        """Publish where this newcomer can be fed, and by which member, after so many attempts before."""
        create_json(self._members / f"{member}.{attempt}.feed", document)

    def feed_offer(self, member: str, attempt: int) -> dict[str, Any] | None:
        """The newcomer's offer of this attempt."""
        return read_json(self._members / f"{member}.{attempt}.feed")

    def say_ready(self, member: str) -> None:
        """Record that this newcomer waits for nothing but a world."""
        create_json(self._members / f"{member}.ready", {})

    def is_gone(self, member: str) -> str | None:
        """Reason why the member is gone; None if it is not."""
        path = self._members / f"{member}.gone"
        return _reason_in(path) if path.exists() else None

    # -- replicas

    def bind(self, replica: str) -> None:
        """Record that the workers of this replica live and die together."""
        create_json(self._members / f"{replica}.bound", {})

    def is_bound(self, replica: str) -> bool:
        """Whether one of them has recorded that."""
        return (self._members / f"{replica}.bound").exists()

    def forget_replica(self, replica: str) -> None:
        """All of its workers have ended, as their agent knows."""
        for suffix in ("bound", "meeting"):
            _remove(self._members / f"{replica}.{suffix}")

    def call_replica(self, replica: str, document: dict[str, Any]) -> None:
        """Publish where the workers of this replica meet."""
        create_json(self._members / f"{replica}.meeting", document)

    def meeting_of(self, replica: str) -> dict[str, Any] | None:
        """The place where the replica's workers meet, as published; None if it is not published yet."""
        return read_json(self._members / f"{replica}.meeting")

    # -- generations

    def publish(self, generation: Generation) -> bool:
        """Create the generation; False if another one of this number exists."""
        path = self._generations / _generation_name(generation.number)
        created = create_json(path, asdict(self.secret.sign(generation)))
        if created:
            self._prune(generation.number - _KEPT_GENERATIONS)
        return created

    def report_broken(self, number: int, reason: str) -> None:
        """Record that this generation's world does not work (any more)."""
        create_json(self._generations / f"{number:08d}.broken", {"reason": reason})

    def note_stopped(self, number: int, member: str) -> None:
        """Record that an agent's workers of worlds before this generation have ended."""
        create_json(self._generations / f"{number:08d}.{member}.stopped", {})

    def view(self) -> View:
        """The directory as it is now; the same view as before where nothing has changed."""
        # Generations first: members of one that is listed had joined before it came, and are listed, too.
        numbers, names = self._listed_generations.names(), self._listed_members.names()
        # Lists that are the same objects have not changed: thousands of names need no comparing.
        if self._viewed is not None and self._viewed[0] is numbers and self._viewed[1] is names:
            return self._viewed[2]
        view = self._view(numbers, names)
        # A file that could not be read yet is looked for again.
        latest = max(_with_suffix(numbers, ".json"), default="00000000")
        is_whole = view.number == int(latest) and len(view.members) == len(_with_suffix(names, ".json"))
        self._viewed = (numbers, names, view) if is_whole else None
        return view

    def _view(self, numbers: Sequence[str], names: Sequence[str]) -> View:
        latest = max((name for name in numbers if name.endswith(".json")), default="")
        if latest and (self._latest is None or latest != _generation_name(self._latest.number)):
            read = from_document(Generation, read_json(self._generations / latest))
            self._latest = read if read and self.secret.signed(read) else self._latest
        for name in names:
            self._read_member(name)
        members = {id_: self._known[id_] for id_ in _with_suffix(names, ".json") if id_ in self._known}
        left = {id_: self._reasons[f"{id_}.gone"] for id_ in _with_suffix(names, ".gone")}
        leaving, gone = spread(members, frozenset(_with_suffix(names, ".leaving")), left)
        feeds = (name.rpartition(".") for name in _with_suffix(names, ".feed"))
        stopped = (name.partition(".") for name in _with_suffix(numbers, ".stopped"))
        return View(
            generation=self._latest,
            members=members,
            leaving=leaving,
            gone=gone,
            refused={id_: self._reasons[f"{id_}.refused"] for id_ in _with_suffix(names, ".refused")},
            feeds=frozenset((id_, int(attempt)) for id_, _, attempt in feeds),
            ready=frozenset(_with_suffix(names, ".ready")),
            stopped=frozenset(id_ for number, _, id_ in stopped if f"{number}.json" == latest),
            broken_numbers=frozenset(int(name) for name in _with_suffix(numbers, ".broken") if name.isdecimal()),
        )

    def _read_member(self, name: str) -> None:
        """Read a file about a member, once: none of them ever changes."""
        id_, _, kind = name.rpartition(".")
        if kind in ("gone", "refused") and name not in self._reasons:
            self._reasons[name] = _reason_in(self._members / name)
        elif kind == "json" and id_ not in self._known:
            member = from_document(Member, read_json(self._members / name))
            if member is None:
                return
            if self.secret.signed(member):
                self._known[id_] = member
            else:
                self.refuse(id_, "it does not know the trainer's secret")

    def _prune(self, oldest_kept: int) -> None:
        """Remove what nobody asks for any more, so that a look stays cheap over months."""
        outdated = [name for name in names_in(self._generations) if name < f"{max(oldest_kept, 0):08d}"]
        for name in outdated:
            _remove(self._generations / name)
        if not outdated:
            return
        view = self.view()
        left = set(_with_suffix(names_in(self._members), ".gone"))
        # A member that is gone with another one of its replica learns that from the other's record.
        needed = {member.replica for id_, member in view.members.items() if id_ not in left} - {""}
        forgotten = set(view.members) & left - set(view.everyone)
        for id_ in (id_ for id_ in forgotten if view.members[id_].replica not in needed):
            for suffix in ("json", "leaving", "refused", "ready"):
                _remove(self._members / f"{id_}.{suffix}")
            for attempt in (attempt for member, attempt in view.feeds if member == id_):
                _remove(self._members / f"{id_}.{attempt}.feed")
            _remove(self._beats / id_)

    # -- heartbeats

    def beat(self, member: str, count: int, progress: str = "") -> bool:
        """Leave a sign of life, and how far the member is; False if that cannot be."""
        try:
            # Opened and closed each time, or NFS would keep it to itself. Always of one length: even a full disk
            # takes what is written over the beat before.
            overwrite(self._beats / member, f"{count:20d} {progress:54}".encode())
        except OSError:
            return False
        return True

    def last_beat(self, member: str) -> str:
        """The latest sign of life; what counts is that it changes."""
        try:
            return (self._beats / member).read_text()
        except OSError:
            return ""

    # -- servers

    def place_servers(self, nodes: Sequence[str]) -> None:
        """Publish on which nodes servers are to run from now on."""
        write_json(self._servers_path, {"nodes": list(nodes)})

    def server_nodes(self) -> frozenset[str]:
        """The nodes on which servers are to run; none before they are published."""
        nodes = (read_json(self._servers_path) or {}).get("nodes")
        return frozenset(map(str, nodes)) if isinstance(nodes, list) else frozenset()

    # -- scripts for torchrun

    def note_epoch(self, epoch: int) -> None:
        """Record in which epoch the members train."""
        write_json(self._epoch_path, {"epoch": epoch})

    def epoch(self) -> int:
        """The epoch in which the present members train, or a bit before; 0 where nobody trains."""
        epoch = (read_json(self._epoch_path) or {}).get("epoch")
        return epoch if isinstance(epoch, int) and self.view().current else 0

    def claim_main(self, member: str) -> bool:
        """Let this member's script be rank 0; False if that of another member is."""
        turn, holder = self._main()
        is_free = holder is None or self.is_gone(holder) is not None
        return is_free and create_json(self._members / f"{turn + 1:08d}.main", {"member": member})

    def has_lost_main(self) -> bool:
        """Whether the member whose script was rank 0 is gone."""
        _, holder = self._main()
        return holder is not None and self.is_gone(holder) is not None

    def awaits_main(self) -> bool:
        """Whether nobody trains yet, nor has the member joined whose script is rank 0."""
        view, (_, holder) = self.view(), self._main()
        return holder is not None and not view.current and holder not in view.members

    def _main(self) -> tuple[int, str | None]:
        """Number of times that a member's script became rank 0, and the latest of these members; None: none."""
        turn = max((int(name) for name in _with_suffix(names_in(self._members), ".main")), default=0)
        document = read_json(self._members / f"{turn:08d}.main") if turn else None
        return turn, str(document.get("member")) if document else None

    def give_up_adopting(self, reason: str) -> None:
        """Record that the trainer's script cannot be adopted."""
        create_json(self._not_adopted_path, {"reason": reason})

    def why_not_adopted(self) -> str | None:
        """Reason why the trainer's script cannot be adopted; None if none is recorded."""
        return _reason_in(self._not_adopted_path) if self._not_adopted_path.exists() else None

    # -- requests to agents, and what became of the agents

    def request(self, name: str, document: dict[str, object]) -> Path:
        """Ask any agent for something; the file vanishes when one takes it."""
        path = self._requests / f"{name}.json"
        write_json(path, document)
        return path

    def requests(self) -> list[tuple[Path, dict[str, object]]]:
        """Requests to agents that none has taken."""
        paths = [self._requests / name for name in names_in(self._requests)]
        return [(path, document) for path in paths if (document := read_json(path)) is not None]

    def claim(self, path: Path) -> bool:
        """Take a request; False if another agent was faster."""
        # Of several the file system lets one remove it.
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        return True

    def write_agent(self, agent: str, document: dict[str, object]) -> None:
        """Record what an agent is doing, or why it ended."""
        write_json(self._agents / f"{agent}.json", dict(document))

    def agents(self) -> dict[str, dict[str, object]]:
        """The agents' records, by agent."""
        names = _with_suffix(names_in(self._agents), ".json")
        documents = {name: read_json(self._agents / f"{name}.json") for name in names}
        return {name: document for name, document in documents.items() if document is not None}


def trainer_from_environment() -> Path | None:
    """The trainer's directory as the agent, Slurm or the user gave it."""
    given = os.environ.get(TRAINER_VARIABLE)
    return Path(given) if given else None


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _generation_name(number: int) -> str:
    """The file of this generation; in order of their names they are in order of their numbers."""
    return f"{number:08d}.json"


def _reason_in(path: Path) -> str:
    """Reason in a file on a member that is gone or refused, or the like; empty: the file names none."""
    return str((read_json(path) or {}).get("reason", ""))


def _with_suffix(names: Iterable[str], suffix: str) -> list[str]:
    """The names with this suffix, without it."""
    return [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
