"""Every beginning of every answer that was recorded is refused, or says what the whole answer says.

Where nothing says which row of a table is the last, a beginning that ends between two rows is a shorter table: it
holds whole rows, each as it is in the whole answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.slurm import queries
from freetrain.slurm.answers import SETTINGS_READ, whole_answer
from freetrain.slurm.asking import parse_asks
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import SlurmUnclearError
from freetrain.slurm.parsing import (
    parse_jobs,
    parse_nodes,
    parse_partitions,
    parse_reservations,
    parse_runs,
    parse_topology,
)
from freetrain.slurm.queries import JOB_FIELDS, NEED_FIELDS, SEPARATOR
from freetrain.slurm.settings import parse_last_plan_s, parse_settings
from freetrain.slurm.site.facts import parse_associations, parse_qos

FOLDER = Path(__file__).parent
QUEUE = FragmentQueue("freetrain")
JOBS_HEADER = SEPARATOR.join(("MARK", *(field.removeprefix("%") for field in JOB_FIELDS))) + "\n"
NEEDS_HEADER = "".join(f"{name:<{size}}{SEPARATOR}" for name, size in NEED_FIELDS.items()) + "\n"
QOS_HEADER = "|".join(queries.QOS_FIELDS) + "\n"
ASSOCIATIONS_HEADER = "|".join(queries.ASSOCIATION_FIELDS) + "\n"
RUNS_HEADER = "JobID|State|Start|End\n"
EXCLUDED_HEADER = f"ARRAY_JOB_ID{SEPARATOR}EXC_NODES\n"

Parse = Callable[[str], object]
SETTINGS: tuple[Command, str, Parse] = (queries.ASK_SETTINGS, "", parse_settings)
STATISTICS: tuple[Command, str, Parse] = (queries.ASK_STATISTICS, "", parse_last_plan_s)
WITH_AN_END = {"config": SETTINGS, "sdiag": STATISTICS}
TABLES: dict[str, tuple[Command, str, Parse]] = {
    "assoc": (queries.ask_associations("lab"), ASSOCIATIONS_HEADER, parse_associations),
    "exclusive_needs": (queries.ask_needs_of(["4", "5", "6"]), NEEDS_HEADER, parse_asks),
    "excluded": (queries.ask_excluded_nodes(QUEUE), EXCLUDED_HEADER, str.splitlines),
    "gpu_node": (queries.ask_nodes(), "", parse_nodes),
    "job": (queries.show_job("1"), "", str.splitlines),
    "layout": (queries.ASK_PARTITIONS, "", parse_partitions),
    "needs": (queries.ask_needs(QUEUE), NEEDS_HEADER, parse_asks),
    "nodes": (queries.ask_nodes(), "", parse_nodes),
    "nodes_with_mps": (queries.ask_nodes(in_parts=True), "", parse_nodes),
    "nodes_without_gres": (queries.ask_nodes(in_parts=True), "", parse_nodes),
    "nodes_in_parts": (queries.ask_nodes(in_parts=True), "", parse_nodes),
    "partition": (queries.ASK_PARTITIONS, "", parse_partitions),
    "qos": (queries.ASK_QOS, QOS_HEADER, parse_qos),
    "reservation": (queries.ASK_RESERVATIONS, "", parse_reservations),
    "sacct": (queries.ask_runs(["1"]), RUNS_HEADER, parse_runs),
    "squeue": (queries.ask_jobs("MARK"), JOBS_HEADER, lambda text: parse_jobs(text, "MARK", "freetrain:")),
    "topology_block": (queries.ASK_TOPOLOGY, "", parse_topology),
    "topology_tree": (queries.ASK_TOPOLOGY, "", parse_topology),
    "waiting_needs": (queries.ask_needs_of(["14"]), NEEDS_HEADER, parse_asks),
}
NO_ANSWERS = {
    "README.md": "says how the answers were recorded",
    "preemption_22.05.txt": "a few lines of an answer",
    "ping_25.11.txt": "says whether the controller is up in its first line, which is looked for",
    "pyslurm_25.11.json": "JSON, of which no beginning can be read",
}


def recorded(names: Sequence[str]) -> list[Path]:
    """The answers of these kinds, of each release, and of those that were written after Slurm's source."""
    files = sorted((FOLDER / "recorded").iterdir()) + sorted((FOLDER / "written").iterdir())
    return [file for file in files if file.stem.rpartition("_")[0] in names]


def test_no_recorded_answer_is_left_out() -> None:
    tried = {file.name for file in recorded([*WITH_AN_END, *TABLES])}
    assert {file.name for file in (FOLDER / "recorded").iterdir()} - tried == NO_ANSWERS.keys()


@pytest.mark.parametrize("file", recorded([*WITH_AN_END]), ids=lambda file: file.stem)
def test_every_beginning_of_an_answer_is_refused_or_says_all_of_it(file: Path) -> None:
    command, header, parse = WITH_AN_END[file.stem.rpartition("_")[0]]
    whole = header + file.read_text()
    facts = parse(whole_answer(command, whole))
    for cut in range(len(whole)):
        try:
            beginning = whole_answer(command, whole[:cut])
        except SlurmUnclearError:
            continue
        assert parse(beginning) == facts, whole[:cut][-80:]


@pytest.mark.parametrize("file", recorded([*TABLES]), ids=lambda file: file.stem)
def test_every_beginning_of_a_table_is_refused_or_ends_with_a_whole_row(file: Path) -> None:
    command, header, parse = TABLES[file.stem.rpartition("_")[0]]
    whole = header + file.read_text(errors="replace")
    parse(whole_answer(command, whole))
    for cut in range(len(whole)):
        try:
            whole_answer(command, whole[:cut])
        except SlurmUnclearError:
            continue
        assert cut == 0 or whole[cut - 1] == "\n", whole[:cut][-80:]
        assert cut or not header, "an empty text is not an empty table"


@pytest.mark.parametrize("missing", SETTINGS_READ)
def test_settings_of_which_a_line_is_missing_are_refused(missing: str) -> None:
    lines = (FOLDER / "recorded" / "config_25.11.txt").read_text().splitlines(keepends=True)
    text = "".join(line for line in lines if line.split(" ")[0] != missing)
    with pytest.raises(SlurmUnclearError, match=f"it names no {missing} "):
        whole_answer(queries.ASK_SETTINGS, text)


@pytest.mark.parametrize(
    ("command", "header"),
    [
        (queries.ask_rights("news"), "Admin|Coord Accounts"),
        (queries.ASK_QOS, "|".join(queries.QOS_FIELDS)),
        (queries.ASK_USERS, "User"),
        (queries.ask_who_cancelled("7"), "State"),
    ],
)
def test_a_table_without_rows_is_an_answer_and_nothing_is_none(command: Command, header: str) -> None:
    assert whole_answer(command, f"{header}\n") == ""
    assert whole_answer(command, f"a word of the site's wrapper\n{header}\nNone|ml\n") == "None|ml\n"
    for text in ("", header, f"{header}\nOper", "slurmdbd: hm\n"):
        with pytest.raises(SlurmUnclearError, match=f"answer to {command[0]} cannot be understood"):
            whole_answer(command, text)


def test_the_number_of_a_job_that_is_cut_short_is_not_that_of_another_job() -> None:
    assert whole_answer(("sbatch", "--parsable"), "4711\n") == "4711\n"
    with pytest.raises(SlurmUnclearError, match="it is cut short"):
        whole_answer(("sbatch", "--parsable"), "47")


def test_what_an_order_prints_is_handed_on() -> None:
    assert whole_answer(("scontrol", "release", "7"), "done") == "done"
