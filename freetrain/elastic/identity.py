"""Who this process is to the others, and the environment in which an agent tells it."""

from __future__ import annotations

import os
import socket
import time
import uuid

from freetrain.elastic.records import Member, start_ticks, this_host

MEMBER_VARIABLE = "FREETRAIN_MEMBER"
AGENT_VARIABLE = "FREETRAIN_AGENT"
ADDRESS_VARIABLE = "FREETRAIN_ADDRESS"


def new_id() -> str:
    """A name that nobody had before, and that tells the host to people."""
    return f"{socket.gethostname().partition('.')[0]}-{uuid.uuid4().hex[:8]}"


def this_address() -> str:
    """How other hosts reach this one."""
    return os.environ.get(ADDRESS_VARIABLE) or socket.gethostname()


def this_member(fingerprint: str, torch_version: str, slots: int = 1) -> Member:
    """This process as a member."""
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
    )
