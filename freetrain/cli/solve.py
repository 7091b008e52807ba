"""``freetrain solve``: decision problems in, results out."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import click

from freetrain.cli.helping import command
from freetrain.cli.options import store_option
from freetrain.cli.policy_options import place_option, policy_option, solver_option, time_limit_option
from freetrain.core.decision import decision_to_dict
from freetrain.core.problem import Problem, problem_from_json
from freetrain.errors import InputError
from freetrain.loop.deciding import decide
from freetrain.policies import UNKNOWN_LINKS, find_placer, find_policy, with_links
from freetrain.store import Store, default_store_path


@command("solve")
@click.argument("file", type=click.File("rb"), required=False)
@click.option("--decision", metavar="[RUN:]N", help="Solve decision N of a recorded run again.")
@policy_option
@place_option
@solver_option
@time_limit_option
@click.option(
    "--machine",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="TOML file that describes the machine, whose switches --place is to know, and whose links --policy.",
)
@store_option
def solve_command(
    file: BinaryIO | None,
    decision: str | None,
    policy: str,
    place: str,
    solver: str,
    time_limit_s: float,
    machine: Path | None,
    store_path: Path | None,
) -> None:
    """Solve one decision problem (JSON) or many (JSON lines) and print a result line for each.

    FILE may be - for standard input. The formats freetrain-problem/1 and freetrain-result/1 are described in
    docs/reference/formats.md.
    """
    if (file is None) == (decision is None):
        raise click.UsageError("Give either a FILE or --decision RUN:N.")
    chosen = find_policy(policy, solver, time_limit_s)
    links = UNKNOWN_LINKS
    if machine is not None:
        from freetrain.replay.logs.machine import read_machine  # with it come readers that nobody else needs here

        described = read_machine(machine)
        links = described.links(described.node_names)
    placer = find_placer(place, links.topology)
    problems = _problems(file.read()) if file is not None else iter([_recorded(decision or "", store_path)])
    for problem in problems:
        decides, places = with_links(chosen, placer, links, ((problem.nodes, problem.trainers),))
        answer = decide(decides, problem, time.perf_counter, places)
        for note in answer.notes:
            click.echo(f"freetrain: {note}", err=True)
        click.echo(json.dumps(decision_to_dict(answer)))


def _problems(content: bytes) -> Iterator[Problem]:
    lines = [(number, line) for number, line in enumerate(content.splitlines(), 1) if line.strip()]
    if not lines:
        raise InputError("The file is empty.", "docs/reference/formats.md shows what a problem looks like.")
    if len(lines) == 1 or not _is_json(lines[0][1]):
        yield problem_from_json(content)
        return
    for number, line in lines:
        try:
            yield problem_from_json(line)
        except InputError as error:
            raise InputError(f"Line {number}: {error.what}", error.hint) from error


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _recorded(reference: str, store_path: Path | None) -> Problem:
    run, colon, number = reference.rpartition(":")
    if not number.isdecimal() or (colon and not run.isdecimal()):
        raise InputError(
            f"{reference!r} names no decision.",
            "Give the run and the decision's number, such as --decision 3:120; 120 alone is the newest run's.",
        )
    store = Store.open_existing(store_path or default_store_path())
    newest = store.runs()[:1]
    problem, _ = store.decision(int(run) if run else newest[0].id if newest else 0, int(number))
    return problem
