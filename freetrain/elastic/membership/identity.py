"""This process as a member: its name, its address, and the members that it fits in with."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import time
import uuid
from functools import lru_cache

from freetrain.elastic.on_disk.members import Member, start_ticks, this_host
from freetrain.elastic.on_disk.next_generation import View
from freetrain.errors import InputError

MEMBER_VARIABLE = "FREETRAIN_MEMBER"
AGENT_VARIABLE = "FREETRAIN_AGENT"
REPLICA_VARIABLE = "FREETRAIN_REPLICA"
SERVER_VARIABLE = "FREETRAIN_SERVER"
"""Environment variable of a process that is to add up the gradients of the others."""

MAIN_VARIABLE = "FREETRAIN_MAIN"
"""Environment variable of a worker whose adopted script is rank 0 for as long as it lives."""

ADDRESS_VARIABLE = "FREETRAIN_ADDRESS"
# Slurm tells every task the switches above its node.
_SWITCHES_VARIABLE = "SLURM_TOPOLOGY_ADDR"
_NODE_VARIABLE = "SLURMD_NODENAME"
# Slurm tells every task when its job's time limit ends, and so, of a fragment, the hole that it lies in.
_END_VARIABLE = "SLURM_JOB_END_TIME"
# The job's share of its node, by Slurm; memory only where the job asks for it by node.
_GIVEN_VARIABLES = {"cpus": "SLURM_CPUS_ON_NODE", "memory_mb": "SLURM_MEM_PER_NODE"}
# From linux/sockios.h: Python has no call for the address of an interface.
_SIOCGIFADDR = 0x8915
# IFNAMSIZ of linux/if.h, without the zero at the end.
_MAX_INTERFACE_BYTES = 15
FOREIGN_HINT = (
    "Give each trainer a directory of its own (--trainer), and all its members the same script and torch."
)


def new_id() -> str:
    """A name that is unique for ever, and that shows people the host."""
    return f"{socket.gethostname().partition('.')[0]}-{uuid.uuid4().hex[:8]}"


def given_by_slurm() -> dict[str, int]:
    """CPUs and memory of the node that this process may use, as far as Slurm has set them."""
    given = {name: _number_in(variable) for name, variable in _GIVEN_VARIABLES.items()}
    return {name: number for name, number in given.items() if number is not None}


def _number_in(variable: str) -> int | None:
    value = os.environ.get(variable, "")
    # isdigit() alone also holds for "²", of which int() makes nothing.
    return int(value) if value.isascii() and value.isdigit() else None


@lru_cache(maxsize=1)
def this_address() -> str:
    """Address by which other hosts reach this one: the environment's, else its name, else that of its way out."""
    named = os.environ.get(ADDRESS_VARIABLE) or socket.gethostname()
    # On many machines the own name leads to the loopback interface, which others cannot reach.
    if _interface_of(named) is None:
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            # Nothing is sent: connecting a datagram socket, here to an address for documentation (RFC 5737), only
            # picks the way out.
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
    return named


def use_interface_of_this_address() -> None:
    """Let gloo listen where the others look for this process, unless the user named an interface."""
    interface = _interface_of(this_address())
    if interface is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
        # NCCL finds its own way, often a faster one, but where the user named an address.
        if os.environ.get(ADDRESS_VARIABLE):
            # With "=" NCCL takes this interface, without it any whose name begins so.
            os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={interface}")


def use_interface(names: str) -> None:
    """Be reached by the first of these interfaces that has an address here, unless an address was named.

    Names are separated by commas: not all nodes need to have the same. Raises InputError if none has an address.
    """
    if os.environ.get(ADDRESS_VARIABLE):
        return
    address = next(filter(None, (_address_of(name.strip()) for name in names.split(","))), None)
    if address is None:
        there = ", ".join(sorted(name for _, name in socket.if_nameindex() if _address_of(name)))
        raise InputError(f"this node has no network interface {names} with an IPv4 address.", f"It has {there}.")
    os.environ[ADDRESS_VARIABLE] = address


def _interface_of(name: str) -> str | None:
    """The network interface that has this address, loopback apart."""
    try:
        address = socket.gethostbyname(name)
    except OSError:
        return None
    if address.startswith("127."):
        return None
    return next((name for _, name in socket.if_nameindex() if _address_of(name) == address), None)


def _address_of(interface: str) -> str | None:
    """The IPv4 address of a network interface of this machine."""
    request = struct.pack("256s", interface.encode()[:_MAX_INTERFACE_BYTES])
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        # struct ifreq: 16 bytes of name, then a sockaddr_in, whose address follows family and port.
        return socket.inet_ntoa(fcntl.ioctl(asked, _SIOCGIFADDR, request)[20:24])
    return None


def this_member(fingerprint: str, torch_version: str, slots: int = 1) -> Member:
    """This process as a member, with a replica of its own."""
    return Member(
        id=os.environ.get(MEMBER_VARIABLE) or new_id(),
        agent=os.environ.get(AGENT_VARIABLE, ""),
        host=this_host(),
        address=this_address(),
        pid=os.getpid(),
        started_ticks=start_ticks(os.getpid()),
        torch=torch_version,
        fingerprint=fingerprint,
        joined_s=time.time(),
        slots=slots,
        switches=os.environ.get(_SWITCHES_VARIABLE) or os.environ.get(_NODE_VARIABLE, ""),
        is_server=is_server(),
        is_main=bool(os.environ.get(MAIN_VARIABLE)),
        ends_s=float(_number_in(_END_VARIABLE) or 0),
    )


def is_server() -> bool:
    """Whether this process is to add up the gradients of the others, by its agent's word."""
    return bool(os.environ.get(SERVER_VARIABLE))


def why_foreign(member: Member, newcomer: Member) -> str | None:
    """Reason why this newcomer does not fit in with a member; None if it does."""
    difference = _difference(member, newcomer)
    if difference or newcomer.shards == member.shards:
        return difference
    # Only members that are alive object to it: a training may go on from its checkpoint with other nodes.
    return (
        f"its node has {newcomer.shards} workers to shard the model over, and those of the others have "
        f"{member.shards}: all nodes of a sharded training need the same number (--nproc)"
    )


def why_foreign_to(view: View, member: Member) -> str | None:
    """Reason why this member does not fit in with the members that are there; None if it does."""
    reasons = (_difference(view.members[id_], member) for id_ in view.present if id_ in view.ranks)
    return next(filter(None, reasons), None)


def _difference(member: Member, newcomer: Member) -> str | None:
    if newcomer.torch != member.torch:
        return f"it runs torch {newcomer.torch}, the others {member.torch}"
    mine, theirs = (
        dict(part.partition("=")[::2] for part in record.fingerprint.split()) for record in (member, newcomer)
    )
    differing = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
    if differing == ["script"]:
        return "its script is not the one that the others run: it has been edited since, or is another one"
    if differing:
        named = " and ".join(name for name in differing if name != "script")
        return f"another training runs there, whose {named} differ, and two cannot share a directory"
    return None
