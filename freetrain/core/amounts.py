"""Amounts: how much of a node a job or a part has, asks for, or leaves. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

Gres = tuple[tuple[str, int], ...]
"""Generic resources of Slurm's, GPUs above all: names with types, as ``gpu:a100``, and how many; sorted."""

GPU = "gpu"
GPU_PARTS = ("shard", "mps")
"""Generic resources that are parts of GPUs."""


@dataclass(frozen=True, slots=True)
class Amount:
    """CPUs (threads), memory and generic resources, as Slurm names them, with types, MIG profiles and shards."""

    cpus: int = 0
    memory_mb: int = 0
    gres: Gres = ()

    @property
    def gpus(self) -> int:
        """GPUs of all types."""
        return count_gres(self.gres, GPU)

    def fits(self, room: Amount) -> bool:
        """Whether there is as much in ``room``."""
        return left_of(room, self) is not None

    def __add__(self, other: Amount) -> Amount:
        gres = dict(self.gres)
        for name, count in other.gres:
            gres[name] = gres.get(name, 0) + count
        return Amount(self.cpus + other.cpus, self.memory_mb + other.memory_mb, tuple(sorted(gres.items())))

    def without(self, taken: Amount) -> Amount:
        """Amount that is left after taking; 0 of what was taken in excess."""
        cpus, memory_mb = max(0, self.cpus - taken.cpus), max(0, self.memory_mb - taken.memory_mb)
        return Amount(cpus, memory_mb, _gres_left(self.gres, taken.gres)[0])

    def part_of(self, whole: Amount) -> float:
        """The largest of its parts of the CPUs, the memory and the GPUs of ``whole``, at most 1."""
        return max(self.parts_of(whole)) if whole.cpus or whole.memory_mb or whole.gpus else 1.0

    def parts_of(self, whole: Amount) -> tuple[float, float, float]:
        """Shares of the CPUs, the memory and the GPUs of ``whole``, each at most 1; 0 where that has none."""
        pairs = ((self.cpus, whole.cpus), (self.memory_mb, whole.memory_mb), (self.gpus, whole.gpus))
        cpus, memory, gpus = (min(1.0, amount / of) if of else 0.0 for amount, of in pairs)
        return cpus, memory, gpus

    def __str__(self) -> str:
        """The amount in words, as ``2 × gpu:a100, 8 CPUs, 16000 MB``."""
        words = [f"{count} × {name}" for name, count in self.gres if count]
        return ", ".join([*words, f"{self.cpus} CPUs", f"{self.memory_mb} MB"])


# Nodes and tasks come in few sizes, and each look asks for all of them again.
@lru_cache(maxsize=16384)
def left_of(room: Amount, taken: Amount) -> Amount | None:
    """The rest of ``room``; None: there is not as much in it."""
    gres, missing = _gres_left(room.gres, taken.gres)
    if missing or taken.cpus > room.cpus or taken.memory_mb > room.memory_mb:
        return None
    return Amount(room.cpus - taken.cpus, room.memory_mb - taken.memory_mb, gres)


@lru_cache(maxsize=16384)
def times_in(room: Amount, each: Amount) -> int:
    """Number of times that ``each`` fits into ``room`` at once; at most the CPUs of ``room``."""
    # What asks for nothing would fit without end, hence the CPUs as a limit.
    count, rest = 0, left_of(room, each)
    while rest is not None and count < room.cpus:
        count, rest = count + 1, left_of(rest, each)
    return count


def count_gres(gres: Gres, name: str) -> int:
    """Number of generic resources of this name; without a type, of all types."""
    return sum(count for kind, count in gres if is_of(kind, name))


def in_both_forms(taken: Amount, total: Amount) -> Amount:
    """Amount taken of a node, GPUs also as their parts and parts also as GPUs: a GPU is used in one form alone."""
    parts_of_a_gpu = {name: count_gres(total.gres, name) // max(1, total.gpus) for name in GPU_PARTS}
    divided = {name: parts for name, parts in parts_of_a_gpu.items() if parts}
    if not divided:
        return taken
    as_parts = tuple((name, taken.gpus * parts) for name, parts in divided.items())
    # Rounded up: a GPU of which any part is taken is no whole GPU any more.
    as_gpus = sum(-(-count_gres(taken.gres, name) // parts) for name, parts in divided.items())
    return taken + Amount(gres=(*as_parts, (GPU, as_gpus)))


def is_of(kind: str, name: str) -> bool:
    """Whether this kind is of this name, as ``gpu:a100`` is of ``gpu``."""
    return kind == name or kind.startswith(f"{name}:")


def _gres_left(there: Gres, taken: Gres) -> tuple[Gres, bool]:
    """The rest, and whether something is missing; without a type the type is taken of which most is left."""
    if not taken:
        return there, False
    left, missing = dict(there), False
    # Those with a type first: one without could take what a later one asks for by its type.
    for name, count in sorted(taken, key=lambda pair: -pair[0].count(":")):
        kinds = sorted(
            (kind for kind in left if is_of(kind, name) or is_of(name, kind)), key=lambda kind: -left[kind]
        )
        for kind in kinds:
            got = min(count, left[kind])
            left[kind], count = left[kind] - got, count - got
        missing = missing or count > 0
    return tuple((name, count) for name, count in sorted(left.items()) if count), missing
