from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from freetrain.elastic.worlds.world import Connections
from tests.elastic.harness import printed_by


def test_who_could_not_form_a_world_forms_the_next_one_with_a_newcomer(tmp_path: Path) -> None:
    facts = json.loads(printed_by("half_formed.py", in_folder=tmp_path))
    assert facts == {"abandoned": True, "total": [2.0], "hook_is_the_scripts": True}


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def test_a_cut_ends_what_came_up_with_the_world_and_nothing_older(listener: socket.socket) -> None:
    with socket.create_connection(listener.getsockname()):
        wires = Connections(stores=tuple)
        with listener.accept()[0] as newer:
            assert wires.cut() == 1
            assert newer.recv(1) == b""
    assert wires.cut() == 0


def test_a_cut_spares_those_who_meet_at_a_store_of_this_process(listener: socket.socket) -> None:
    """They may be forming the next world already."""
    with socket.create_connection(listener.getsockname()) as other:
        wires = Connections(stores=lambda: [port_of(listener)])
        with listener.accept()[0] as met:
            assert wires.cut() == 0
            met.sendall(b"go")
            assert other.recv(2) == b"go"


def test_what_comes_up_after_the_world_has_formed_is_not_cut(listener: socket.socket) -> None:
    with socket.create_connection(listener.getsockname()) as other:
        wires = Connections(stores=tuple)
        wires.formed()
        with listener.accept()[0] as late:
            assert wires.cut() == 0
            late.sendall(b"on")
            assert other.recv(2) == b"on"
