"""The job scripts of docs/users/environment.md, with stand-ins for what is not installed.

A stand-in for Apptainer starts what it is given as its child, hands signals on, and ends when that ends; one for
srun starts it in a session of its own, to all of which SIGTERM is sent, as Slurm sends it to all of a step.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from freetrain.elastic.on_disk.directory import TrainerDirectory

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/users/environment.md").read_text()
SCRIPTS = {name: text for text, name in re.findall(r"```bash\n(#!/bin/bash\n# (\S+)\n.*?)```", PAGE, re.DOTALL)}
JOBS = sorted(SCRIPTS.keys() - {"task_prolog.sh", "try.sh"})
PATIENCE_S = 120.0

STAND_INS = {
    "srun": """#!/bin/sh
while [ "${1#--}" != "$1" ]; do echo "$1" >> "$HERE/srun-options"; shift; done
echo $$ > "$HERE/step"
exec setsid "$@"
""",
    "apptainer": f"#!{sys.executable}"
    """
import signal, subprocess, sys
words = sys.argv[1:]
assert words[0] == "exec", words
image = next(number for number, word in enumerate(words) if word.endswith(".sif"))
child = subprocess.Popen(words[image + 1 :])
for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
    signal.signal(number, lambda sent, _: child.send_signal(sent))
status = child.wait()
sys.exit(status if status >= 0 else 128 - status)
""",
    "freetrain": f"""#!/bin/sh
exec {sys.executable} -m freetrain "$@"
""",
    "python": f"""#!/bin/sh
exec {sys.executable} "$@"
""",
}
FUNCTIONS = """
module() { echo "module $*" >> "$HERE/modules"; }
export -f module
"""


class Place:
    """A machine as the scripts expect it, below a directory."""

    def __init__(self, here: Path) -> None:
        self.here = here
        self.root = here / "scratch/me/bert"
        for name in ("bin", "out", "scratch/me/data", "shared/venvs/train/bin", "shared/miniforge3/etc/profile.d"):
            (here / name).mkdir(parents=True)
        for name, text in STAND_INS.items():
            (here / "bin" / name).write_text(text)
            (here / "bin" / name).chmod(0o755)
        (here / "functions").write_text(FUNCTIONS)
        (here / "shared/venvs/train/bin/activate").write_text("export VIRTUAL_ENV=train\n")
        conda = 'conda() { echo "conda $*" >> "$HERE/modules"; }\n'
        (here / "shared/miniforge3/etc/profile.d/conda.sh").write_text(conda)
        (here / "scratch/me/data/samples").write_text("1 2 3\n")
        (here / "out/pace").touch()
        shutil.copy(ROOT / "tests/elastic/scripts/counting.py", here / "train.py")

    def run(self, name: str, *arguments: str) -> subprocess.Popen[str]:
        text = (
            SCRIPTS[name].replace("/shared/", f"{self.here}/shared/").replace("/scratch", f"{self.here}/scratch")
        )
        (self.here / name).write_text(text)
        environment = os.environ | {
            "PATH": f"{self.here}/bin:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "BASH_ENV": str(self.here / "functions"),
            "HERE": str(self.here),
            "OUT": str(self.here / "out"),
            "TMPDIR": str(self.here),
            "USER": "me",
            "OMP_NUM_THREADS": "1",
        }
        return subprocess.Popen(
            ["bash", name, *arguments], cwd=self.here, env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def has(self, name: str, script: str) -> None:
        """A program that does this."""
        (self.here / "bin" / name).write_text(f"#!/bin/bash\n{script}\n")
        (self.here / "bin" / name).chmod(0o755)

    def trains(self) -> bool:
        return self.root.exists() and bool(TrainerDirectory.open(self.root).view().current)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def await_so(fine: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not fine():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < until_s
        time.sleep(0.1)


@pytest.mark.parametrize("name", ["apptainer.sh", "staging.sh"])
def test_the_node_leaves_in_good_order_when_slurm_asks_for_it(place: Place, name: str) -> None:
    process = place.run(name)
    try:
        await_so(place.trains, process)
        os.killpg(int((place.here / "step").read_text()), signal.SIGTERM)
        said, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 0, said
    assert list((place.root / "checkpoints").iterdir()), "it was the last one, and saved"


@pytest.mark.parametrize("name", JOBS)
def test_the_agent_is_the_step_itself_and_has_what_the_script_prepared(place: Place, name: str) -> None:
    place.has("freetrain", 'echo $$ "$@"; echo "$VIRTUAL_ENV, $DATA"')
    said, _ = place.run(name).communicate(timeout=PATIENCE_S)
    words = said.splitlines()[0].split()
    assert words[1:] == ["run", "--trainer", str(place.root), "--", "python", "train.py"]
    is_step = words[0] == (place.here / "step").read_text().strip()
    assert is_step is (name != "apptainer.sh"), "else what stands between them must wait for it, as Apptainer does"


def test_each_script_prepares_what_its_heading_says(place: Place) -> None:
    place.has("freetrain", 'echo "$VIRTUAL_ENV, $DATA"')

    def prepared(name: str) -> str:
        return place.run(name).communicate(timeout=PATIENCE_S)[0].strip()

    assert prepared("modules.sh").startswith("train,")
    prepared("conda.sh")
    assert (place.here / "modules").read_text().splitlines() == [
        "module purge", "module load python cuda", "conda activate train",
    ]  # fmt: skip
    (place.here / "srun-options").unlink()
    prepared("pyxis.sh")
    options = (place.here / "srun-options").read_text()
    assert f"--container-image={place.here}/shared/train.sqsh" in options
    data = Path(prepared("staging.sh").partition(", ")[2])
    assert (data / "samples").read_text() == "1 2 3\n"


def test_what_the_scripts_ask_for_is_there(place: Place) -> None:
    texts = "".join(SCRIPTS[name] for name in JOBS)
    assert texts.count("--open-mode=append") == texts.count("--output=") == len(JOBS)


def test_a_task_prolog_names_the_interface(place: Place) -> None:
    assert place.run("task_prolog.sh").communicate()[0] == "export FREETRAIN_INTERFACE=ib0\n"


@pytest.mark.parametrize(("heeds", "status"), [(True, 0), (False, 143)])
def test_one_can_try_it_by_hand(place: Place, heeds: bool, status: int) -> None:
    place.root.mkdir(parents=True)
    trap = "trap 'exit 0' TERM; " if heeds else ""
    place.has("train", f"{trap}echo 1 > {place.root}/progress.jsonl; while :; do sleep 0.05; done")
    said, _ = place.run("try.sh", "train").communicate(timeout=PATIENCE_S)
    assert said.splitlines()[-1] == f"it ended with status {status}"
