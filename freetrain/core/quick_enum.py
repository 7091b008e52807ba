"""Enumerations whose members are found as quickly as any other attribute of a class."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

EnumT = TypeVar("EnumT", bound=Enum)


def quick(enum: type[EnumT]) -> type[EnumT]:
    """Let the members of a class be plain attributes of it.

    Python 3.11 calls a function of Python's wherever a member is named, which takes eight times as long; a look
    compares the states of all nodes, jobs and fragments several times. Later versions do so by themselves.
    """
    for name, member in enum.__members__.items():
        type.__setattr__(enum, name, member)
    return enum
