"""Recipes for other tools: of this version, with the requirements of setup.cfg, and such as their parsers take."""

from __future__ import annotations

import ast
import configparser
import http.server
import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

import freetrain

PROJECT = Path(__file__).parents[1]
PACKAGES, CHAT = PROJECT / "etc/packages", PROJECT / "etc/notify/chat.py"
ANSIBLE = sorted((PACKAGES / "ansible").rglob("*.yml"))


def required() -> dict[str, str]:
    """What setup.cfg asks for: name → its smallest version."""
    settings = configparser.ConfigParser()
    settings.read(PROJECT / "setup.cfg")
    lines = settings["options"]["install_requires"].splitlines()
    found = (re.match(r"([\w-]+)>=([\d.]+)", line) for line in lines)
    return {match[1].lower(): match[2] for match in found if match}


def test_conda_asks_for_what_setup_cfg_asks_for() -> None:
    recipe = yaml.safe_load((PACKAGES / "conda/meta.yaml").read_text())
    assert recipe["package"]["version"] == freetrain.__version__
    named = (re.match(r"([\w-]+) >=([\d.]+)", line) for line in recipe["requirements"]["run"])
    found = {match[1].replace("_", "-"): match[2] for match in named if match}
    assert found.pop("python") == "3.11"
    assert found == required()


def test_spack_asks_for_what_setup_cfg_asks_for() -> None:
    text = (PACKAGES / "spack/package.py").read_text()
    ast.parse(text)
    assert re.findall(r'version\("([\d.]+)"\)', text) == [freetrain.__version__]
    found = dict(re.findall(r'depends_on\("py-([\w-]+)@([\d.]+):[^"]*", type=\("build", "run"\)\)', text))
    assert found == required()


def test_the_container_is_of_this_version_and_copies_what_is_there() -> None:
    text = (PACKAGES / "Containerfile").read_text()
    assert f'image.version="{freetrain.__version__}"' in text
    words = [line.split()[0] for line in text.replace("\\\n", "").splitlines() if line and line[0] != "#"]
    assert {*words} <= {"FROM", "COPY", "RUN", "LABEL", "ARG", "ENV", "USER", "WORKDIR", "ENTRYPOINT", "CMD"}
    assert words[-1] == "CMD"


def test_the_ansible_role_names_files_and_variables_that_there_are() -> None:
    role = {path.parent.name: yaml.safe_load(path.read_text()) for path in ANSIBLE}
    tasks, handlers = role["tasks"], {handler["name"] for handler in role["handlers"]}
    text = json.dumps(tasks)
    assert {*re.findall(r"\bfreetrain_\w+", text)} <= role["defaults"].keys()
    for name in re.findall(r"\b(freetrain(?:-\w+)?\.(?:service|timer|sysusers|tmpfiles))\b", text):
        assert (PROJECT / "systemd" / name).exists()
    notified = (task.get("notify", []) for task in tasks)
    assert {name for names in notified for name in ([names] if isinstance(names, str) else names)} <= handlers
    modules = {key for task in tasks for key in task if "." in key}
    assert all(len(module.split(".")) == 3 for module in modules), "collections are named"


TAKEN: list[tuple[str, str, Any]] = []


class Chat(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        TAKEN.append((self.command, self.path, body))
        self.send_response(500 if "refused" in self.path else 200)
        self.end_headers()

    do_PUT = do_POST  # noqa: N815 (the library's name)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def tell(chat: str, path: str, tmp_path: Path, text: str) -> subprocess.CompletedProcess[str]:
    server = http.server.HTTPServer(("127.0.0.1", 0), Chat)
    threading.Thread(target=server.handle_request, daemon=True).start()
    address = tmp_path / "chat.url"
    address.write_text(f"http://127.0.0.1:{server.server_port}{path}\n")
    command = [sys.executable, CHAT, chat, address]
    environment = {"FREETRAIN_KIND": "harm", "FREETRAIN_HOST": "ctl"}
    try:
        return subprocess.run(command, input=text, env=environment, capture_output=True, text=True, timeout=60)
    finally:
        server.server_close()


@pytest.mark.parametrize("chat", ["slack", "teams", "matrix"])
def test_a_notice_comes_to_a_chat_as_plain_text(chat: str, tmp_path: Path) -> None:
    TAKEN.clear()
    told = tell(
        chat, "/hook?token=secret", tmp_path, "job 7 started 90 s later <!channel> [x](http://evil)\n" * 90
    )
    assert told.returncode == 0, told.stderr
    ((method, path, body),) = TAKEN
    text = json.dumps(body)
    assert "freetrain, ctl: harm" in text
    assert len(text) < 4000
    kind = {"slack": "plain_text", "teams": "TextRun", "matrix": "m.notice"}[chat]
    assert kind in text
    assert "mrkdwn" not in text
    assert (method, path.startswith("/hook/")) == (("PUT", True) if chat == "matrix" else ("POST", False))


def test_a_chat_that_refuses_is_a_sentence_without_the_secret_address(tmp_path: Path) -> None:
    told = tell("slack", "/refused?token=secret", tmp_path, "x")
    assert told.returncode == 1
    assert told.stderr == "slack did not take it: Internal Server Error\n"
