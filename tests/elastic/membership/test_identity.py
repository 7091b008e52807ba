from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from freetrain.elastic.membership import identity
from freetrain.elastic.membership.identity import given_by_slurm
from freetrain.errors import InputError


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
