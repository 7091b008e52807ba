"""Records in the trainer's directory: members and generations, signed with the trainer's secret."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from freetrain.elastic.errors import DirectoryError
from freetrain.elastic.on_disk.files import create_exclusively, why_distrusted

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

LOCAL_RANK_VARIABLE, LOCAL_WORLD_SIZE_VARIABLE = "FREETRAIN_LOCAL_RANK", "FREETRAIN_LOCAL_WORLD_SIZE"
"""Variables with a worker's place on its node, and the number of workers there. Under torchrun's names, which come
with others, libraries would take this for a run of torchrun."""

RecordT = TypeVar("RecordT", bound="Member | Generation")
Document = TypeVar("Document", bound="DataclassInstance")
SECRET_VARIABLE = "FREETRAIN_SECRET"


@dataclass(frozen=True)
class Member:
    """One worker that is, was or wants to be part of the training."""

    id: str  # unique for ever; a worker that comes back has another one
    agent: str  # the agent that started it
    host: str  # identity of the machine, and of its network and process name spaces
    address: str  # how other hosts reach it
    pid: int  # its process there
    started_ticks: int  # when that process started, so that a reused pid is not taken for it
    torch: str  # version of torch
    fingerprint: str  # digests of what all members must have in common
    joined_s: float  # when it was ready to join
    slots: int = 1  # processes it stands for (more than one only where whole agents are members)
    is_fed: bool = False  # whether it gets the state before it joins a world, where there is one
    switches: str = ""  # those above its node, the highest first, and the node: "top.leaf2.n007"
    replica: str = ""  # what members that hold one copy of the model together have in common
    shard: int = 0  # its place among these, from 0
    shards: int = 1  # how many they are
    is_server: bool = False  # whether it adds up the gradients of the others and trains nothing itself
    is_main: bool = False  # its script was started as rank 0 and stays that, as adopted scripts keep their rank
    ends_s: float = 0.0  # when its node is expected to be taken back, epoch seconds; 0: not known
    proof: str = ""  # signature with the trainer's secret

    @property
    def node(self) -> str:
        """Slurm's name of its node; empty: not known."""
        return self.switches.rpartition(".")[2]


# Without slots: cached properties have their values in __dict__.
@dataclass(frozen=True)
class Generation:
    """One world: its members in order of rank, and the place of its store."""

    number: int  # counts up; a higher number supersedes all lower ones
    members: tuple[str, ...]  # ids of the workers, in order of rank
    host: str  # machine of the store
    address: str  # how other machines reach it
    port: int  # its port there
    nonce: str  # makes the store's word unguessable without this file
    cause: str  # why it came to be
    servers: tuple[str, ...] = ()  # add up the gradients; without any, the workers do it themselves
    proof: str = ""  # signature with the trainer's secret

    @cached_property
    def world(self) -> int:
        """Number of workers."""
        return len(self.members)

    @cached_property
    def everyone(self) -> tuple[str, ...]:
        """The workers and, after them, the servers."""
        return (*self.members, *self.servers)

    def rank_of(self, member: str) -> int:
        """The worker's rank; a server's place after all of them."""
        return self.everyone.index(member)


def from_document(kind: type[Document], document: Mapping[str, Any] | None) -> Document | None:
    """The dataclass that was written as this document, or None if it is not one; other fields are ignored."""
    known = {field.name for field in fields(kind)}
    given = {name: value for name, value in (document or {}).items() if name in known}
    # JSON has no tuples.
    for name in ("members", "servers"):
        if isinstance(given.get(name), list):
            given[name] = tuple(given[name])
    try:
        return kind(**given)
    except TypeError:
        return None


@lru_cache(maxsize=1)
def this_host() -> str:
    """Identity of this machine as far as pids and loopback are concerned (containers count as machines)."""
    parts = [_text(Path("/proc/sys/kernel/random/boot_id")) or socket.gethostname()]
    for space in ("net", "pid"):
        try:
            parts.append(os.readlink(f"/proc/self/ns/{space}"))  # noqa: PTH115 (not a path)
        except OSError:
            parts.append("")
    return "/".join(parts)


def start_ticks(pid: int) -> int:
    """Start time of the process, in clock ticks after boot; 0 if there is none or it is a zombie."""
    line = _text(Path(f"/proc/{pid}/stat"))
    if line is None:
        return 0
    # The program's name stands in parentheses and may hold some; after it field 22 of proc(5) is the start.
    state, *rest = line.rpartition(")")[2].split()
    return 0 if state in "ZX" else int(rest[18])


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


class Secret:
    """Signs and checks records; 32 random bytes in a file that only the owner reads."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def of(cls, path: Path) -> Secret:
        """The secret in this file, made if there is none; the environment's takes precedence."""
        if os.environ.get(SECRET_VARIABLE):
            return cls(os.environ[SECRET_VARIABLE].encode())
        if not path.exists():
            # Another member may be faster: what is in the file then is the secret.
            create_exclusively(path, secrets.token_hex(32).encode() + b"\n")
        try:
            distrust = why_distrusted(path)
            key = path.read_bytes().strip()
        except OSError as error:
            raise DirectoryError(
                f"cannot read the trainer's secret {path}: {error.strerror}; so this process cannot join.",
                "Only the user who started the trainer can join it.",
            ) from error
        if distrust is not None:
            raise DirectoryError(
                f"{distrust}; so the trainer's secret may not be one.",
                f"Look who wrote it; 'chmod 600 {path}' if all is well.",
            )
        return cls(key)

    def sign(self, record: RecordT) -> RecordT:
        """The record with its proof."""
        return dataclasses.replace(record, proof=self._digest(record))

    def signed(self, record: RecordT) -> bool:
        """Whether the record was signed with this secret."""
        return hmac.compare_digest(record.proof, self._digest(record))

    def derive(self, text: str) -> str:
        """A key for one purpose."""
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()[:32]

    def _digest(self, record: RecordT) -> str:
        facts = {name: value for name, value in asdict(record).items() if name != "proof"}
        return hmac.new(self._key, json.dumps(facts, sort_keys=True).encode(), hashlib.sha256).hexdigest()
