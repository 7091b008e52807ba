from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator

import pytest

from freetrain.elastic.membership import identity
from freetrain.elastic.membership.identity import given_by_slurm, this_member, why_foreign, why_foreign_to
from freetrain.elastic.on_disk.members import Generation
from freetrain.elastic.on_disk.next_generation import View
from freetrain.errors import InputError

MEMBER = dataclasses.replace(this_member("model=1 data=2 script=3", "2.13"), id="a")
ALIKE = dataclasses.replace(MEMBER, id="b")
OTHERS = {
    "it runs torch 1.0, the others 2.13": dataclasses.replace(ALIKE, torch="1.0"),
    "another training runs there, whose model and data differ": dataclasses.replace(
        ALIKE, fingerprint="model=7 data=8 script=9"
    ),
    "its script is not the one that the others run": dataclasses.replace(
        ALIKE, fingerprint="model=1 data=2 script=9"
    ),
    "its node has 4 workers to shard the model over": dataclasses.replace(ALIKE, shards=4),
}


@pytest.fixture(autouse=True)
def _on_eth7(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(identity, "_interface_of", lambda name: "eth7")
    identity.this_address.cache_clear()
    for name in ("FREETRAIN_ADDRESS", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    yield
    identity.this_address.cache_clear()


def test_gloo_listens_where_others_look_for_this_process_and_nccl_finds_its_own_way() -> None:
    identity.use_interface_of_this_address()
    assert os.environ["GLOO_SOCKET_IFNAME"] == "eth7"
    assert "NCCL_SOCKET_IFNAME" not in os.environ


def test_nccl_meets_at_the_address_that_the_user_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREETRAIN_ADDRESS", "10.7.0.1")
    identity.use_interface_of_this_address()
    assert os.environ["NCCL_SOCKET_IFNAME"] == "=eth7"


def test_what_the_user_said_of_interfaces_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREETRAIN_ADDRESS", "10.7.0.1")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "ib0")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "^docker")
    identity.use_interface_of_this_address()
    assert (os.environ["GLOO_SOCKET_IFNAME"], os.environ["NCCL_SOCKET_IFNAME"]) == ("ib0", "^docker")


def test_of_several_interfaces_the_first_that_has_an_address_counts() -> None:
    identity.use_interface("ib9, lo")
    assert os.environ["FREETRAIN_ADDRESS"] == "127.0.0.1"


def test_an_address_that_the_user_named_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREETRAIN_ADDRESS", "10.7.0.1")
    identity.use_interface("lo")
    assert os.environ["FREETRAIN_ADDRESS"] == "10.7.0.1"


@pytest.mark.parametrize("names", ["ib9", "a-name-that-is-longer-than-any-interface", ""])
def test_an_interface_that_is_not_there_is_named_with_those_that_are(names: str) -> None:
    with pytest.raises(InputError, match=f"no network interface {names} ") as raised:
        identity.use_interface(names)
    assert "lo" in raised.value.hint


def test_what_slurm_has_given_is_told_as_far_as_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_MEM_PER_NODE", raising=False)
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "8")
    assert given_by_slurm() == {"cpus": 8}
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "16000")
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "8(x2)")
    assert given_by_slurm() == {"memory_mb": 16000}


def seen(*members: str) -> View:
    generation = Generation(1, members, "host", "address", 1, "", "start")
    return View(generation=generation, members={MEMBER.id: MEMBER})


def test_who_is_alike_fits_in() -> None:
    assert why_foreign(MEMBER, ALIKE) is None


@pytest.mark.parametrize("reason", OTHERS)
def test_who_is_not_hears_why(reason: str) -> None:
    assert (why_foreign(MEMBER, OTHERS[reason]) or "").startswith(reason)


def test_who_comes_looks_at_those_who_train_and_not_at_the_size_of_their_nodes() -> None:
    words = ("another", "4 workers")
    alien, wider = (OTHERS[next(reason for reason in OTHERS if word in reason)] for word in words)
    assert why_foreign_to(seen("a"), ALIKE) is None
    assert (why_foreign_to(seen("a"), alien) or "").startswith("another training runs there")
    assert why_foreign_to(seen(), alien) is None
    assert why_foreign_to(seen("a"), wider) is None
