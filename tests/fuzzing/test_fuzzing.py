"""A few of the trials that ``python -m tests.fuzzing`` runs by the hundred thousand, and what it found before."""

from __future__ import annotations

import json
import random
import time
import zlib
from pathlib import Path

import pytest

from freetrain.config.sections import State
from freetrain.config.settings import find_mistakes
from freetrain.core.job import Job, JobState
from freetrain.daemon.admission.sole_lender import find_marks
from freetrain.daemon.controls.site_orders import OrdersReader
from freetrain.elastic.on_disk.files import read_json
from freetrain.errors import StateError
from freetrain.slurm.asking import parse_asks
from freetrain.slurm.parsing import (
    expand_nodes,
    fold_nodes,
    parse_amount,
    parse_jobs,
    parse_runs,
    parse_topology,
)
from freetrain.slurm.parsing.jobs import waiting_tasks
from freetrain.slurm.queries import QOS_FIELDS
from freetrain.slurm.settings import settings_of
from freetrain.slurm.site.facts import parse_qos
from freetrain.slurm.site.terms import parse_rate_limit
from freetrain.store.packing import compressed, decompressed
from tests.fuzzing.__main__ import main
from tests.fuzzing.running import MOST_S, Parser, Record, run_here
from tests.slurm.test_answers import QUEUE
from tests.slurm.test_parsing import recorded

DEEP = "[" * 100_000
LONG = "9" * 5000


@pytest.mark.parametrize("group", ["slurm", "users", "site"])
def test_no_damaged_text_crashes_its_parser_or_costs_much(
    group: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--trials", "30", "--folder", str(tmp_path), "--json", group]) == 0
    records = {name: Record(**record) for name, record in json.loads(capsys.readouterr().out).items()}
    assert len(records) >= 5
    assert all(record.trials == 30 and record.slowest_s < MOST_S for record in records.values())
    assert sum(record.refused for record in records.values()) > 30


def test_a_parser_that_crashes_is_told_with_the_seed_that_crashes_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fragile(random: random.Random, folder: Path) -> None:
        if random.random() < 0.5:
            raise KeyError("a field")
        raise ValueError("refused")

    monkeypatch.setattr("tests.fuzzing.site_files.PARSERS", {"site fragile": Parser(fragile, (ValueError,))})
    record = run_here("site fragile", range(40), tmp_path)
    assert record.refused + len(record.crashes) > 20
    seed, error = record.crashes[0]
    assert error == "KeyError: 'a field'"
    again = run_here("site fragile", [int(seed.rpartition(" ")[2])], tmp_path)
    assert again.crashes == [(seed, error)]


def test_digits_that_are_no_number_and_numbers_without_end_are_no_answer_of_slurms() -> None:
    (run,), _ = parse_runs(f"7|COMPLETED|\u00b2|{LONG}\n")
    assert (run.start_s, run.end_s) == (None, None)
    settings = settings_of(
        {"DefMemPerCPU": LONG, "KillWait": "\u00b2", "SchedulerParameters": f"bf_interval={LONG}"}
    )
    assert (settings.default_memory_mb, settings.kill_wait_s, settings.backfill_interval_s) == (0, 0.0, 30.0)
    assert parse_rate_limit(f"rl_enable,rl_refill_rate=\u00b2,rl_bucket_size={LONG}") == parse_rate_limit(
        "rl_enable"
    )


def test_a_comment_that_looks_like_a_daemons_mark_with_a_number_without_end_ends_no_look() -> None:
    comment = f"freetrain-daemon:host=h,pid={LONG},at=1,state=/x"
    assert find_marks([Job("7", "7", "mallory", "freetrain", JobState.PENDING, comment=comment)], QUEUE) == []


def test_an_array_with_more_tasks_than_slurm_has_is_not_counted_out() -> None:
    for last in ("999999999", "9" * 30):
        text = recorded("squeue").replace("1_[0-1,3]", f"1_[0-{last}]")
        jobs, rejected = parse_jobs(text, "MARK", "freetrain:")
        assert "1_0" not in {job.id for job in jobs}
        assert any("no tasks of an array" in problem for problem in rejected)
        assert waiting_tasks(f"1_[0-{last}]") == 1


@pytest.mark.parametrize("text", ["c[" * 200_000, f"c[{'1' * 200_000}]", f"c[{'1-' * 200_000}]", "n300[1-20000]"])
def test_a_long_list_of_nodes_is_refused_before_a_regular_expression_takes_minutes(text: str) -> None:
    began_s = time.process_time()
    with pytest.raises(ValueError, match="nodes"):
        expand_nodes(text)
    assert time.process_time() - began_s < MOST_S


@pytest.mark.parametrize(
    "text", ["c[1,2]" * 40, "c[1-2,4]" * 20 + ",d1", "a[1-20000],b[100]\n" * 4, "9999999[-3]"]
)
def test_brackets_that_multiply_each_other_are_refused_before_they_take_all_memory(text: str) -> None:
    began_s = time.process_time()
    with pytest.raises(ValueError, match="nodes"):
        expand_nodes(text)
    assert time.process_time() - began_s < MOST_S


@pytest.mark.parametrize("text", ["c1, c2", " c1,\n  c2 ", "c[ 1, 2 ]", "c[1-2]"])
def test_blanks_beside_commas_are_no_part_of_a_name(text: str) -> None:
    assert expand_nodes(text) == {"c1", "c2"}


def test_a_range_of_nodes_without_end_is_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match="no list of nodes"):
        expand_nodes(f"c[{LONG}]")


@pytest.mark.parametrize("name", ["c01]", "c01\nc02", "9" * 5000, "n[1-99999999999", "!c01", "c01&", "c^1"])
def test_what_cannot_be_the_name_of_a_node_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no list of nodes"):
        expand_nodes(name)


def test_a_name_with_more_digits_than_are_counted_is_listed_as_it_is() -> None:
    name = "c" + "9" * 200
    assert fold_nodes(expand_nodes(name)) == name


def test_more_memory_than_a_number_holds_is_no_amount() -> None:
    with pytest.raises(ValueError, match="is no amount"):
        parse_amount(f"mem={LONG}M")
    asked = recorded("needs")
    assert parse_asks(asked.replace("mem=100M", f"mem={'9' * 400}M")).keys() == parse_asks(asked).keys()


def test_a_word_without_end_in_the_topology_takes_no_seconds() -> None:
    began_s = time.process_time()
    assert parse_topology("x" * 300_000)[1] == []
    assert time.process_time() - began_s < MOST_S


def test_a_switch_that_is_named_twice_is_named_among_what_is_not_understood() -> None:
    lines = [f"SwitchName={name} Level={level} Nodes=n[1-2]" for name, level in (("b1", 0), ("s1", 1), ("b1", 2))]
    topology, rejected = parse_topology("\n".join(lines))
    assert topology.way_up("b1")[0] == "b1"
    assert [line.endswith("it is named twice") for line in rejected] == [True]


def test_a_qos_whose_longest_time_is_none_is_not_understood() -> None:
    line = recorded("qos").splitlines()[0].split("|")
    line[QOS_FIELDS.index("MaxWall")] = "01:00:"
    known, rejected = parse_qos("|".join(line))
    assert (known, len(rejected)) == ({}, 1)


@pytest.mark.parametrize("until_s", ["1e300", "-1e300", "1e12"])
def test_a_time_that_no_calendar_has_leaves_pause_and_drains_as_they_were(tmp_path: Path, until_s: str) -> None:
    (tmp_path / "pause.json").write_text(f'{{"by":"root","reason":"","since_s":1,"until_s":{until_s}}}')
    (tmp_path / "drains.json").write_text(f'{{"drains":[{{"nodes":["c1"],"until_s":{until_s}}}]}}')
    orders = OrdersReader().read(State(directory=str(tmp_path)), 1.79e9)
    assert (orders.paused, orders.kept_off["drained"]) == ("", {})


def test_what_is_nested_without_end_is_refused_like_all_that_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text(DEEP)
    assert read_json(tmp_path / "record.json") is None
    (tmp_path / "freetrain.toml").write_text(f"[lend]\nmode = {DEEP}")
    (mistake,) = find_mistakes(tmp_path / "freetrain.toml")
    assert "it is nested too deep" in mistake.what
    (tmp_path / "freetrain.toml").write_text(f"[lend]\nmax_running = {LONG}")
    (mistake,) = find_mistakes(tmp_path / "freetrain.toml")
    assert "is not TOML" in mistake.what
    with pytest.raises(StateError, match="is damaged"):
        decompressed(compressed({})[:1] + zlib.compress(DEEP.encode()))


def test_a_table_of_settings_in_another_section_is_a_mistake_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "freetrain.toml"
    path.write_text('[lend.gadget]\nutility = "linear"\n')
    (mistake,) = find_mistakes(path)
    assert "there is no setting lend.gadget" in mistake.what
    assert mistake.hint.startswith("It belongs into [")
