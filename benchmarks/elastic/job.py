"""One training under measurement: its nodes, and the log of its steps."""

from __future__ import annotations

import socket
import tempfile
import time
from pathlib import Path

from benchmarks.elastic.processes import Node
from benchmarks.elastic.scripts.stamps import FOLDER_VARIABLE
from benchmarks.elastic.scripts.training import DEVICE_S_VARIABLE, OPTIMIZER_VARIABLE, PARAMETERS_VARIABLE
from benchmarks.elastic.steps import Step, parse_steps, settled
from benchmarks.elastic.systems import Place, System

_POLL_S = 0.05
_TOLD_BYTES = 2000
HUNG = "hung"
JOB_LOST = "job lost"


class Job:
    """A training run by one system on nodes that come and go.

    Args:
        system: what runs it.
        parameters: of the model.
        device_s: seconds that each step sleeps, as if an accelerator worked.
        optimizer: sgd or adam.
    """

    def __init__(self, system: System, parameters: int, device_s: float, optimizer: str = "sgd") -> None:
        self.system = system
        self.steps: list[Step] = []
        self._shared = tempfile.TemporaryDirectory(prefix="bench-elastic-", ignore_cleanup_errors=True)
        self._folder = Path(self._shared.name)
        self._port = _free_port()
        self._nodes: list[Node] = []
        self._read_bytes = 0
        self._environment = {
            **system.environment,
            FOLDER_VARIABLE: str(self._folder),
            PARAMETERS_VARIABLE: str(parameters),
            DEVICE_S_VARIABLE: str(device_s),
            OPTIMIZER_VARIABLE: optimizer,
            "OMP_NUM_THREADS": "1",
        }

    @property
    def ranks(self) -> int:
        """Size of the world that did the last step."""
        return self.steps[-1].ranks if self.steps else 0

    @property
    def trainer(self) -> Path:
        """The trainer's directory, where freetrain runs it."""
        return self._folder / "trainer"

    def start(self, count: int) -> None:
        """Start so many agents."""
        for _ in range(count):
            number = len(self._nodes)
            place = Place(self._folder, self._port, first=number == 0)
            log_path = self._folder / f"agent-{number}.log"
            self._nodes.append(Node(self.system.command(place), self._environment, log_path))

    def await_settled(self, ranks: int, steps: int, timeout_s: float) -> str:
        """Wait until a world of this size has done so many steps; why that did not come to be, or nothing."""
        until_s = time.monotonic() + timeout_s
        while True:
            alive = any(node.runs for node in self._nodes)
            self.read()
            if settled(self.steps, ranks, steps):
                return ""
            if not alive:
                return JOB_LOST
            if time.monotonic() > until_s:
                return HUNG
            time.sleep(_POLL_S)

    def read(self) -> None:
        """Read the steps done meanwhile."""
        path = self._folder / "steps"
        if not path.exists():
            return
        with path.open("rb") as log:
            log.seek(self._read_bytes)
            whole, newline, _ = log.read().rpartition(b"\n")
        self.steps += parse_steps(whole.decode())
        self._read_bytes += len(whole + newline)

    def footprints(self) -> list[str]:
        """What rank 0 said of its memory, a line in each world."""
        return (self._folder / "footprints").read_text().splitlines()

    def holder_of_store(self) -> Node | None:
        """The node without which the others cannot meet; None if it is gone already."""
        return self._nodes[0] if self.system.first_holds_store else self._node_of_rank_0()

    def newest(self) -> Node | None:
        """The last node to come that neither has rank 0 nor holds the store; None if there is none."""
        spared = (self.holder_of_store(), self._node_of_rank_0())
        return next((node for node in reversed(self._nodes) if node.runs and node not in spared), None)

    def _node_of_rank_0(self) -> Node | None:
        return next((node for node in self._nodes if node.runs and node.hosts(self.steps[-1].pid)), None)

    def last_words(self) -> dict[str, str]:
        """The end of what each agent and its worker said."""
        return {node.log_path.stem: node.log_path.read_text()[-_TOLD_BYTES:] for node in self._nodes}

    def end(self) -> None:
        """Kill all that still runs, and drop the files."""
        for node in self._nodes:
            node.kill()
        self._shared.cleanup()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
