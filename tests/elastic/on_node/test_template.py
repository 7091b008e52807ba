from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from freetrain.elastic.on_node.template import imported_by, with_runner
from freetrain.elastic.on_node.workers import ForkedProcess, Template
from freetrain.errors import InputError

PATIENCE_S = 60.0
RUNNER = ["-m", "runner"]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["python", "train.py", "--lr", "1"], ["python", *RUNNER, "train.py", "--lr", "1"]),
        (["/env/bin/python3.12", "-u", "train.py"], ["/env/bin/python3.12", "-u", *RUNNER, "train.py"]),
        (["python3", "-m", "training", "-v"], ["python3", *RUNNER, "-m", "training", "-v"]),
    ],
)
def test_the_runner_comes_before_the_script(command: list[str], expected: list[str]) -> None:
    assert with_runner(command, "runner") == expected


@pytest.mark.parametrize(
    "command", [["bash", "train.sh"], ["python"], ["./train.py", "-v"], ["python", "-c", "print(1)"]]
)
def test_a_command_that_is_no_script_of_pythons_is_refused(command: list[str]) -> None:
    with pytest.raises(InputError, match="no script"):
        with_runner(command, "runner")


@pytest.fixture
def template(tmp_path: Path) -> Iterator[Callable[[str], Template]]:
    """Makes templates of scripts, ready to fork, which end with the test."""
    made: list[Template] = []

    def of(text: str) -> Template:
        script = tmp_path / "train.py"
        script.write_text(text)
        made.append(template := Template([sys.executable, str(script), "--lr", "1"]))
        while template.runs and not template.is_ready:
            template.look(PATIENCE_S)
        return template

    yield of
    for one in made:
        one.end()


def status_of(process: ForkedProcess | None) -> int:
    assert process is not None
    until_s = time.monotonic() + PATIENCE_S
    while (status := process.poll()) is None:
        assert time.monotonic() < until_s
        time.sleep(0.01)
    return status


def test_a_forked_worker_is_the_script_in_the_environment_that_it_is_given(
    tmp_path: Path, template: Callable[[str], Template]
) -> None:
    forks = template(
        "import os, sys\nprint(os.environ['RANK'], sys.argv[1:], sys.path[0], __name__)\n"
        "sys.exit(int(os.environ['RANK']))\n"
    )
    for rank in "34":
        log = tmp_path / rank
        assert status_of(forks.fork({"RANK": rank}, log)) == int(rank)
        assert log.read_text() == f"{rank} ['--lr', '1'] {tmp_path} __main__\n"


def test_forked_workers_draw_random_numbers_of_their_own(
    tmp_path: Path, template: Callable[[str], Template]
) -> None:
    pytest.importorskip("numpy")
    forks = template("import random, numpy\nprint(random.random())\nprint(numpy.random.rand())\n")
    logs = [tmp_path / name for name in "ab"]
    assert [status_of(forks.fork({}, log)) for log in logs] == [0, 0]
    assert len({line for log in logs for line in log.read_text().splitlines()}) == 4


def test_workers_end_with_their_template(tmp_path: Path, template: Callable[[str], Template]) -> None:
    forks = template("import time\nprint('there', flush=True)\ntime.sleep(1000)\n")
    worker = forks.fork({}, tmp_path / "log")
    assert worker is not None
    assert worker.poll() is None
    forks.end()
    assert worker.poll() == -signal.SIGKILL
    assert forks.fork({}, None) is None


def test_no_worker_is_forked_where_an_import_started_a_thread(
    tmp_path: Path, template: Callable[[str], Template], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "starts_thread.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=[9], daemon=True).start()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(installed), prepend=os.pathsep)
    forks = template("import starts_thread\n")
    assert not forks.is_ready
    assert forks.fork({}, None) is None


def test_what_a_script_and_its_own_modules_import_at_their_tops_is_found(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import a.b, c\nfrom d.e import f\nfrom . import g\nimport own\ndef later():\n    import h\n"
    )
    (tmp_path / "own.py").write_text("import train, i\n")
    assert set(imported_by(script, tmp_path)) == {("a.b", ()), ("c", ()), ("d.e", ("f",)), ("i", ())}
    assert not list(imported_by(tmp_path / "none.py", tmp_path))
