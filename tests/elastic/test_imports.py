from __future__ import annotations

import json
import subprocess
import sys

import pytest

DAEMON_ONLY = {
    "alembic", "click", "ClusterShell", "highspy", "jinja2", "polars", "prometheus_client",
    "pydantic", "pyomo", "rich", "sqlalchemy", "matplotlib",
}  # fmt: skip


def modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("what", ["import freetrain.elastic", "from freetrain.elastic import Run, FixedBatch"])
def test_the_runtime_imports_nothing_of_the_daemon(what: str) -> None:
    modules = modules_after(what)
    assert not {name for name in modules if name.partition(".")[0] in DAEMON_ONLY}
    ours = {name for name in modules if name.startswith("freetrain.")}
    assert all(name == "freetrain.errors" or name.startswith("freetrain.elastic") for name in ours)


@pytest.mark.parametrize(
    "what",
    [
        "import freetrain.elastic, freetrain.elastic.on_node.agent, freetrain.elastic.on_node.restart",
        "import freetrain.cli.run",
    ],
)
def test_the_agent_does_without_torch(what: str) -> None:
    modules = modules_after(what)
    assert "torch" not in modules
    assert "numpy" not in modules
