"""Policies by themselves, without a log and a daemon.

``freetrain policies`` lists them, ``solve`` solves single problems.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

import click

from freetrain.cli.helping import command
from freetrain.cli.listing import print_json, print_table
from freetrain.cli.options import argument, config_option, json_option, option, shared_option, store_option
from freetrain.cli.policy_options import place_option, policy_option, solver_option, time_limit_option
from freetrain.config import Config, load_config
from freetrain.core.decision import decision_to_dict
from freetrain.core.problem import Problem, problem_from_json
from freetrain.daemon.trainers.needs import needs_of, say_missing_in_queue
from freetrain.errors import FreetrainError, InputError
from freetrain.loop.deciding import decide
from freetrain.policies import UNKNOWN_LINKS, find_placer, find_policy, with_links
from freetrain.policies.measured import MEASURED
from freetrain.policies.registry import POLICIES, catalogue
from freetrain.showing.words import NOTHING, show_value
from freetrain.slurm.opening import open_gateway
from freetrain.slurm.submissions import find_submissions

FORMAT = "freetrain-policies/1"
_MEASURED = ("policy", "trace", "work, node-h", "completed", "mean h to complete", "longest wait, h")


@command("policies")
def policies_command(config_path: Path | None = shared_option(config_option), as_json: bool = json_option) -> None:
    """List the policies, placers and finishers that there are, each with what it needs to know, and what it heeds.

    A policy (--policy, decide.policy) says how many nodes each trainer gets, a placer (--place, decide.place)
    which; any policy goes with any placer, and with any objective (--objective, decide.objective) as far as it
    heeds that. A finisher (decide.finish) says what new tasks get of shared nodes beyond what they ask for.
    Where there are settings of a daemon, the trainings in Slurm's queue that lack what a policy needs are counted.
    docs/evidence/policies.md shows what each policy costs, docs/developers/policy.md how to add one.
    """
    loaded = load_config(config_path)
    missing = dict(_missing(loaded.config)) if loaded.sources else {}
    if as_json:
        measured = [dict(zip(_MEASURED, row, strict=True)) for row in MEASURED]
        listed = [asdict(about) for about in catalogue()]
        print_json({"format": FORMAT, "policies": listed, "measured": measured, "missing": missing})
        return
    columns = ["stage", "name", "how it decides", "maximises", "options", "needs", "heeds of the objective"]
    rows = [
        (about.stage, about.name, about.how, about.maximises or NOTHING, " ".join(about.options) or NOTHING,
         about.needs, about.heeds or NOTHING)
        for about in catalogue()
    ]  # fmt: skip
    print_table(columns, rows)
    click.echo("\nWhat each came to on three replayed traces (docs/evidence/policies.md):")
    print_table(_MEASURED, [tuple(map(show_value, row)) for row in MEASURED], _MEASURED[2:])
    for policy, sentences in missing.items():
        for sentence in sentences:
            click.echo(f"{policy}: {sentence}")


def _missing(config: Config) -> Iterator[tuple[str, list[str]]]:
    try:
        jobs = open_gateway(config.slurm.backend, config.slurm.timeout).snapshot().jobs
    except FreetrainError:
        return
    submissions = find_submissions(jobs, config.slurm.queue).values()
    for policy in POLICIES:
        if sentences := list(say_missing_in_queue(needs_of(config, policy), submissions)):
            yield policy, sentences


_READ = click.File("rb")


@command("solve")
def solve_command(
    file: BinaryIO | None = argument(type=_READ, required=False),
    decision: str | None = option("--decision", "Solve decision N of a recorded run again.", metavar="[RUN:]N"),
    policy: str = shared_option(policy_option),
    place: str = shared_option(place_option),
    solver: str = shared_option(solver_option),
    time_limit_s: float = shared_option(time_limit_option),
    machine: Path | None = option(
        "--machine",
        "TOML file that describes the machine, whose switches --place is to know, and whose links --policy.",
    ),
    store_path: Path | None = shared_option(store_option),
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
    # Here, since SQLAlchemy takes a while.
    from freetrain.store import Store, default_store_path

    store = Store.open_existing(store_path or default_store_path())
    newest = store.runs()[:1]
    problem, _ = store.decision(int(run) if run else newest[0].id if newest else 0, int(number))
    return problem
