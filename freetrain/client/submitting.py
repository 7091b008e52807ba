"""Submission: the code that ``freetrain submit`` and ``register``, :class:`Client` and submitit's executor share.

1. ``check_tag`` makes a tag of its owner's values.
2. ``prepare`` makes the sbatch command of a script and a tag.
3. ``hand_in`` gives it to Slurm, and returns the id of the job.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from freetrain.config import ConfigError, Slurm, load_config
from freetrain.errors import InputError, explained
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmRefusedError, SlurmUnreachableError
from freetrain.slurm.opening import OpenedWhenAsked
from freetrain.slurm.registration import submit
from freetrain.slurm.tags import ArrayKind, Tag, WrongTag, check_values, format_tag, read_range_of_nodes

# Longer than sbatch itself tries, a minute without a configuration: what it says in the end is clearer.
_PATIENCE_S = 90.0
_TOO_LARGE = "No trainer can have more nodes than MaxArraySize of 'scontrol show config' allows."
_KEY_OF = {"task_nodes": "nodes"}
"""Name → key of the tag, where they differ: ``nodes`` are those of all tasks together."""

TagValue = str | float | bool | os.PathLike[str] | None


class TagValues(TypedDict, total=False):
    """Values of the tag of a training or a filler, by its owner; None: not given (meanings: docs/users/tag.md).

    Durations are in seconds.
    """

    task_nodes: str | int | None
    name: str | None
    dir: str | os.PathLike[str] | None
    weight: str | float | None
    target: str | float | None
    grow: float | None
    shrink: float | None
    start: float | None
    curve: str | None
    kind: str | None
    shortest: float | None
    save: float | None
    boot: float | None
    notice: str | bool | None
    freeze: str | None
    speed: str | None
    servers: str | int | None
    step: str | None
    cache: str | float | None
    gradients: str | None
    mixed: str | bool | None
    deadline: str | None


@dataclass(frozen=True, slots=True)
class CheckedTag:
    """A tag that can be handed to Slurm, and the comment that holds it."""

    tag: Tag
    comment: str

    @property
    def most_nodes(self) -> int:
        """Largest number of nodes that the training can use."""
        return self.tag.max_nodes or 1

    @property
    def min_tasks(self) -> int:
        """Least number of tasks that an array must have for so many nodes."""
        return 1 if self.tag.is_moldable else self.most_nodes


@dataclass(frozen=True, slots=True)
class Prepared:
    """A submission that only has to be given to Slurm; its command prints the job's id."""

    command: Command
    tag: CheckedTag
    slurm: Slurm


def check_tag(nodes: str | int | None, values: TagValues) -> CheckedTag:
    """The tag with these values; raises InputError if it would be wrong.

    ``nodes`` are the minimum and the maximum of all tasks together, as ``2-16``; a single number is the maximum.
    """
    is_filler = values.get("kind") == ArrayKind.TASKS
    if nodes is None and not is_filler:
        raise InputError("How many nodes can it use?", "Say --nodes 2-16; docs/users/tag.md explains it.")
    texts = _bounds(str(nodes or ""), is_filler)
    given: Mapping[str, TagValue] = values  # type: ignore[assignment]  # a TypedDict is a Mapping of object
    texts |= {_KEY_OF.get(name, name): _text(value) for name, value in given.items() if value is not None}
    if texts.get("dir"):
        texts["dir"] = os.path.abspath(texts["dir"])  # noqa: PTH100 (Path.resolve would follow links)
    tag = check_values(texts)
    if isinstance(tag, WrongTag):
        raise InputError(f"{tag.why}.", "docs/users/tag.md lists what a tag can say.")
    return CheckedTag(tag, format_tag(texts))


def _bounds(nodes: str, is_filler: bool) -> dict[str, str]:
    if not nodes:
        return {} if is_filler else {"min": "1"}
    try:
        least, most = read_range_of_nodes(nodes)
    except ValueError as error:
        raise InputError(f"--nodes {nodes} {error}.", "Say --nodes 2-16; one number is the maximum.") from None
    if "-" in nodes:
        return {"min": f"{least}", "max": f"{most}"}
    return {"max": f"{most}"} if is_filler else {"min": "1", "max": f"{most}"}


def _text(value: TagValue) -> str:
    """Value as a tag has it; durations in seconds."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def read_slurm(config_path: Path | None, partition: str | None, warn: Callable[[str], object]) -> Slurm:
    """Settings of Slurm as configured; ``partition``, if given, replaces the configured one.

    An ordinary user may be unable to read the site's configuration, and is warned then. A configuration that the
    user names must be readable.
    """
    try:
        slurm = load_config(config_path).config.slurm
    except (ConfigError, OSError) as error:
        if config_path is not None:
            raise
        slurm = Slurm()
        if not partition:
            warn(f"{error} So the partition is taken to be {slurm.partition}.")
    return slurm.model_copy(update={"partition": partition}) if partition else slurm


def prepare(
    slurm: Slurm,
    script: str | os.PathLike[str],
    arguments: Sequence[str],
    values: TagValues,
    *,
    nodes: str | int | None = None,
    array: str | None = None,
    part: bool = False,
    sbatch: Sequence[str] = (),
) -> Prepared:
    """Check a submission, and make its command, of the arguments of :meth:`Client.submit`; raises InputError."""
    if array is not None:
        _check_array(array)
        values = {**values, "kind": values.get("kind") or ArrayKind.TASKS}
    checked = check_tag(nodes, values)
    if checked.tag.is_filler != bool(array):
        raise InputError("A filler has --array and --kind tasks.", "docs/users/fillers.md shows one.")
    if part and checked.tag.is_moldable:
        raise InputError("Tasks of several nodes have whole ones.", "Leave out --part or --task-nodes.")
    for option in sbatch:
        if not option.startswith("-") or option in ("-", "--"):
            raise InputError(
                f"--sbatch {option!r} is no option of sbatch.", "Write it in one word: --sbatch=--time=8:00:00."
            )
    what = (str(_check_script(Path(script))), *arguments)
    tasks = array or f"0-{checked.most_nodes - 1}"
    command = submit(what, checked.comment, tasks, slurm.queue, checked.tag.name, sbatch, is_whole=not part)
    return Prepared(command, checked, slurm)


def hand_in(prepared: Prepared) -> str:
    """Submit it; the id of the job.

    Raises:
        SlurmRefusedError: Slurm will not.
        SlurmUnreachableError: Slurm does not answer, and may have taken it nevertheless.
    """
    # Nothing is added to the environment: sbatch hands it on to the job, and reads times in its time zone.
    gateway = OpenedWhenAsked(prepared.slurm.backend, _PATIENCE_S, environment={})
    try:
        printed = gateway.perform(prepared.command)
    except SlurmRefusedError as error:
        is_size = "array specification" in error.what
        raise SlurmRefusedError(error.what, _TOO_LARGE if is_size else error.hint) from error
    except SlurmUnreachableError as error:
        hint = "It may have been taken nevertheless: look with 'squeue --me' before you submit again."
        raise SlurmUnreachableError(error.what, hint) from error
    found = re.search(r"[0-9]+", printed)
    if found is None:
        raise SlurmRefusedError("sbatch named no job.", "Look with 'squeue --me' whether there is one.")
    return found[0]


def _check_script(script: Path) -> Path:
    """Absolute path of a batch script, which no sbatch takes for an option or looks for elsewhere."""
    absolute = Path(os.path.abspath(script))  # noqa: PTH100 (Path.resolve would follow links)
    with explained(f"cannot read the script {script}"), absolute.open("rb") as file:
        beginning = file.read(2)
    if beginning != b"#!":
        raise InputError(
            f"{script} does not begin with #!, so it is no batch script.", "Let its first line be #!/bin/bash."
        )
    return absolute


def _check_array(array: str) -> None:
    """Check that sbatch takes the array: numbers and ranges of them, and the number that may run at once."""
    tasks = re.fullmatch(r"(\d+(?:-\d+(?::\d+)?)?(?:,\d+(?:-\d+(?::\d+)?)?)*)(?:%\d+)?", array)
    ranges = re.findall(r"(\d+)-(\d+)", tasks[1]) if tasks else []
    if tasks is None or any(int(first) > int(last) for first, last in ranges):
        raise InputError(
            f"--array {array!r} names no tasks.", "Write 0-199, 0-9,20, 0-99:2 or 0-199%8, as for sbatch."
        )
