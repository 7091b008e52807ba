"""The next generation: its members and its proposer, decided purely from what the directory shows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from freetrain.elastic.on_disk.members import Generation, Member


@dataclass(frozen=True)
class View:
    """A picture of the trainer's directory at one look."""

    generation: Generation | None = None  # the latest one, or None before the first
    members: Mapping[str, Member] = field(default_factory=dict)  # all that joined and can prove that they may
    leaving: frozenset[str] = frozenset()  # want to leave at the next step boundary, or others of their replica do
    gone: Mapping[str, str] = field(default_factory=dict)  # left or were lost, for this reason
    refused: Mapping[str, str] = field(default_factory=dict)  # turned away, with this sentence
    broken_numbers: frozenset[int] = frozenset()  # generations whose world does not work, as a member reported
    stopped: frozenset[str] = frozenset()  # agents in restart mode whose workers of earlier worlds have ended
    feeds: frozenset[tuple[str, int]] = frozenset()  # newcomers that can be fed, and their attempts before this
    ready: frozenset[str] = frozenset()  # newcomers that need not, or cannot, be fed any more

    @property
    def number(self) -> int:
        """The latest generation's number; 0 before the first."""
        return self.generation.number if self.generation else 0

    @property
    def broken(self) -> bool:
        """Whether the latest generation's world was reported not to work."""
        return self.number in self.broken_numbers

    @property
    def current(self) -> tuple[str, ...]:
        """The latest generation's workers that are not gone, in order of rank."""
        return tuple(id_ for id_ in self.ranks if id_ not in self.gone)

    @property
    def staying(self) -> tuple[str, ...]:
        """Current workers that do not leave, in order of rank."""
        return tuple(id_ for id_ in self.current if id_ not in self.leaving)

    @property
    def ranks(self) -> tuple[str, ...]:
        """The latest generation's workers."""
        return self.generation.members if self.generation else ()

    @property
    def everyone(self) -> tuple[str, ...]:
        """The latest generation's workers and servers."""
        return self.generation.everyone if self.generation else ()

    @property
    def present(self) -> tuple[str, ...]:
        """Members that joined and are not gone."""
        return tuple(id_ for id_ in self.members if id_ not in self.gone)

    @property
    def outside(self) -> tuple[str, ...]:
        """Workers that joined and are in no generation yet, in the order in which they came."""
        out = {*self.ranks, *self.leaving, *self.gone, *self.refused}
        return in_order_of_coming(
            member for id_, member in self.members.items() if id_ not in out and not member.is_server
        )

    @property
    def servers(self) -> tuple[str, ...]:
        """Servers (they add up gradients) that are there and stay, in the order in which they came."""
        out = {*self.leaving, *self.gone, *self.refused}
        return in_order_of_coming(
            member for id_, member in self.members.items() if member.is_server and id_ not in out
        )

    @property
    def waiting(self) -> tuple[str, ...]:
        """Workers outside that only wait for a world.

        A worker that has to be fed first does not, while a member can feed it; nor does one whose replica is not
        complete.
        """
        outside = self.outside
        if self.current:
            outside = tuple(id_ for id_ in outside if id_ in self.ready or not self.members[id_].is_fed)
        here = Counter(self.members[id_].replica for id_ in outside)
        return tuple(id_ for id_ in outside if self.members[id_].shards in (1, here[self.members[id_].replica]))


@dataclass(frozen=True)
class Proposal:
    """A generation that ought to follow."""

    number: int
    members: tuple[str, ...]
    proposer: str
    cause: str
    servers: tuple[str, ...] = ()


def next_generation(view: View, min_members: int = 1) -> Proposal | None:
    """The generation that should follow the latest one; None while all is as it should be.

    The first survivor is rank 0, at a start the first that came, unless another worker's script has to be rank 0.
    The first survivor proposes; if no worker remains, the first member that is still there does. The others follow
    in ring order. A trainer starts from nothing only with ``min_members``. Servers that are there are in it; they
    neither make a world nor keep it up.
    """
    candidates = view.staying + view.waiting
    # Those whose replicas are as large as the first one's; a member that is not known counts as alone.
    sizes = [view.members[id_].shards if id_ in view.members else 1 for id_ in candidates]
    alike = [id_ for id_, size in zip(candidates, sizes, strict=True) if size == sizes[0]]
    ring = ring_order(alike, view.members)
    # A stable sort: but for the one that goes first all stay in the ring's order.
    wanted = tuple(sorted(ring, key=lambda id_: id_ not in view.members or not view.members[id_].is_main))
    if not view.current and len(wanted) < max(min_members, 1):
        return None
    servers = view.servers if wanted else ()
    # As sets: for another order alone no world is formed again.
    if {*wanted, *servers} == set(view.everyone) and not view.broken:
        return None
    proposer = next(iter(ring or view.current), "")
    return Proposal(view.number + 1, wanted, proposer, _cause(view), servers) if proposer else None


def ring_order(ids: Sequence[str], members: Mapping[str, Member]) -> tuple[str, ...]:
    """The same members, so that a ring through them enters and leaves every switch, and every node, once.

    The ring begins with the first of them; where nobody knows the switches, all stay where they are.
    """
    in_order = sorted(ids, key=lambda id_: members[id_].switches.split(".") if id_ in members else [])
    first = in_order.index(ids[0]) if ids else 0
    return (*in_order[first:], *in_order[:first])


def members_missing(view: View, min_members: int) -> int:
    """The number of members that a start from nothing still waits for; 0 where there is nothing to wait for."""
    return 0 if view.current or not view.waiting else max(0, min_members - len(view.waiting))


def _cause(view: View) -> str:
    """Cause of the world's change: start, loss, leave, join, or broken, which is a world with nobody missing."""
    if not view.current:
        return "start"
    if any(id_ in view.gone for id_ in view.everyone):
        return "loss"
    if len(view.staying) < len(view.ranks) or any(id_ in view.leaving for id_ in view.everyone):
        return "leave"
    return "join" if view.waiting or set(view.servers) - set(view.everyone) else "broken"


def watched_by(member: str, view: View) -> tuple[str, ...]:
    """The members whose heartbeats this member has to look at.

    Rank 0 looks at all, the others at rank 0 and at the rank after them: few files to read in a large world, and
    yet nobody can vanish unseen. A member outside the world looks at all of it, since it may have to start again.
    """
    others = tuple(id_ for id_ in view.present if id_ != member)
    if member not in view.current or view.current[0] == member:
        return others
    after = view.current[(view.current.index(member) + 1) % len(view.current)]
    return tuple(dict.fromkeys(id_ for id_ in (view.current[0], after) if id_ != member))


def spread(
    members: Mapping[str, Member], leaving: frozenset[str], gone: Mapping[str, str]
) -> tuple[frozenset[str], Mapping[str, str]]:
    """Members that leave and that are gone, with the others of their replicas, which cannot go on without them.

    Where a member left on request, the others are leaving.
    """
    bound = [member for member in members.values() if member.replica]
    if not bound:
        return leaving, gone
    leaves = {member.replica for member in bound if member.id in leaving}
    lost = {member.replica: member.id for member in bound if member.id in gone and member.id not in leaving}
    too = {member.id: f"its replica lost {lost[member.replica]}" for member in bound if member.replica in lost}
    # A member's own reason goes before that of its replica.
    return leaving | {member.id for member in bound if member.replica in leaves}, {**too, **gone}


def in_order_of_coming(members: Iterable[Member]) -> tuple[str, ...]:
    """Members of a replica side by side, by shard; a replica has come when its last member has."""
    replicas: defaultdict[str, list[Member]] = defaultdict(list)
    for member in members:
        replicas[member.replica or member.id].append(member)
    came_s = {name: max(member.joined_s for member in replica) for name, replica in replicas.items()}
    in_order = sorted(replicas, key=lambda name: (came_s[name], name))
    return tuple(
        member.id for name in in_order for member in sorted(replicas[name], key=lambda member: member.shard)
    )
