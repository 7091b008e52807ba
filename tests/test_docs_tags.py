"""The documented tag is the one that is read."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from freetrain.slurm.tags import KEYS, ArrayKind, Tag, WrongTag, parse_tag
from tests.test_docs import block

PAGE = Path(__file__).parents[1] / "docs/users/tag.md"
FILLERS, SUBMIT = PAGE.with_name("fillers.md"), PAGE.with_name("submit.md")


def test_the_table_of_keys_is_that_of_the_grammar() -> None:
    table = re.findall(r"^\| `(\w+)` \| (\w*) ?\| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert table == [(name, key.only or "", key.meaning) for name, key in KEYS.items()]


def test_the_documented_sbatch_line_is_a_trainer() -> None:
    (line,) = re.findall(r"^    (sbatch --hold .*)$", SUBMIT.read_text(), re.MULTILINE)
    (comment,) = (word for word in shlex.split(line) if word.startswith("--comment="))
    assert parse_tag(comment.removeprefix("--comment=")) == Tag(min_nodes=2, max_nodes=16)


def test_the_documented_script_is_a_batch_script() -> None:
    script = block("docs/users/submit.md", "bash", "freetrain run")
    assert script.startswith("#!/bin/bash\n")
    assert "\nsrun " in script


def test_the_documented_filler_is_one() -> None:
    comments = re.findall(r"--comment=(\S+?)(?: |`)", FILLERS.read_text())
    filler = Tag(kind=ArrayKind.TASKS, save_s=300)
    moldable = Tag(kind=ArrayKind.TASKS, task_nodes=(2, 8), save_s=300)
    assert [parse_tag(comment) for comment in comments] == [filler, filler, moldable]
    assert block("docs/users/fillers.md", "bash", "SLURM_ARRAY_TASK_ID").startswith("#!/bin/bash\n")


def test_the_keys_of_fillers_are_those_of_the_grammar() -> None:
    table = dict(re.findall(r"^\| `(\w+)=([\w:/-]+)` \|", FILLERS.read_text(), re.MULTILINE))
    its_own = {name for name, key in KEYS.items() if key.only is ArrayKind.TASKS}
    assert its_own == {"nodes", "shortest", "freeze"}
    assert table.keys() == its_own | {"curve", "save", "start", "boot", "notice"}
    assert not isinstance(parse_tag("freetrain:kind=tasks," + ",".join(map("=".join, table.items()))), WrongTag)
