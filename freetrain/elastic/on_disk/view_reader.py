"""Reading a trainer's directory into a view: what never changes is read once, so that each look is cheap."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from freetrain.elastic.on_disk.files import names_in, read_json
from freetrain.elastic.on_disk.members import Generation, Member, from_document
from freetrain.elastic.on_disk.next_generation import View
from freetrain.elastic.on_disk.replicas import spread
from freetrain.elastic.on_disk.secret import Secret


class ViewReader:
    """Remembers what it has read of members and of the latest generation.

    Args:
        members: the folder of what is said of members.
        generations: the folder of generations.
        refuse: turns a member away, with a sentence.
    """

    def __init__(self, members: Path, generations: Path, refuse: Callable[[str, str], None]) -> None:
        self._members = members
        self._generations = generations
        self._refuse = refuse
        self._known: dict[str, Member] = {}
        self._reasons: dict[str, str] = {}
        self._latest: Generation | None = None

    def look(self, secret: Secret) -> View:
        """All of it at one look: two directory listings, and only those files that were not read before.

        Args:
            secret: with which members and generations have to be signed.
        """
        numbers = names_in(self._generations)
        latest = max((name for name in numbers if name.endswith(".json")), default="")
        if latest and (self._latest is None or latest != generation_name(self._latest.number)):
            self._latest = self._read_generation(latest, secret) or self._latest
        names = names_in(self._members)
        for name in names:
            self._learn(name, secret)
        generation = self._latest
        members = {id_: self._known[id_] for id_ in with_suffix(names, ".json") if id_ in self._known}
        left = {id_: self._reasons[f"{id_}.gone"] for id_ in with_suffix(names, ".gone")}
        leaving, gone = spread(members, frozenset(with_suffix(names, ".leaving")), left)
        return View(
            generation=generation,
            members=members,
            leaving=leaving,
            gone=gone,
            refused={id_: self._reasons[f"{id_}.refused"] for id_ in with_suffix(names, ".refused")},
            feeds=frozenset(map(_member_and_attempt, with_suffix(names, ".feed"))),
            ready=frozenset(with_suffix(names, ".ready")),
            broken_numbers=frozenset(int(name) for name in with_suffix(numbers, ".broken") if name.isdecimal()),
        )

    def _learn(self, name: str, secret: Secret) -> None:
        id_, _, kind = name.rpartition(".")
        if kind in ("gone", "refused") and name not in self._reasons:
            self._reasons[name] = reason_in(self._members / name)
        elif kind == "json" and id_ not in self._known:
            member = from_document(Member, read_json(self._members / name) or {})
            if member is None:
                return
            if secret.signed(member):
                self._known[id_] = member
            else:
                self._refuse(id_, "it does not know the trainer's secret")

    def _read_generation(self, name: str, secret: Secret) -> Generation | None:
        generation = from_document(Generation, read_json(self._generations / name) or {})
        return generation if generation and secret.signed(generation) else None


def generation_name(number: int) -> str:
    """The file of this generation; in order of their names they are in order of their numbers."""
    return f"{number:08d}.json"


def reason_in(path: Path) -> str:
    """Why somebody is gone, or was turned away, as this file says."""
    return str((read_json(path) or {}).get("reason", ""))


def with_suffix(names: Iterable[str], suffix: str) -> list[str]:
    """Those that end so, without it."""
    return [name.removesuffix(suffix) for name in names if name.endswith(suffix)]


def _member_and_attempt(name: str) -> tuple[str, int]:
    member, _, attempt = name.rpartition(".")
    return member, int(attempt)
