"""Choice of the door to Slurm, its commands or pyslurm, as the site has set it. No other module has to know."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import cached_property
from typing import Literal

from freetrain.core.cluster import Snapshot
from freetrain.core.job import Job
from freetrain.slurm import commands, queries
from freetrain.slurm.command_line import CommandLine
from freetrain.slurm.commands import Command
from freetrain.slurm.errors import PyslurmUnusableError, SlurmError, SlurmMissingError, SlurmUnreachableError
from freetrain.slurm.gateway import Gateway
from freetrain.slurm.pyslurm_client import PyslurmClient

log = logging.getLogger(__name__)

# Something that costs Slurm little: whether it answers pyslurm.
_SMALL = "Partitions"

Backend = Literal["auto", "cli", "pyslurm"]


def _check_configuration() -> None:
    # Slurm's commands take a minute to complain about a configuration that is not there.
    named = os.environ.get("SLURM_CONF", "")
    if named and not os.access(named, os.R_OK):
        raise SlurmMissingError(
            f"SLURM_CONF names {named}, which cannot be read.",
            "Set SLURM_CONF to Slurm's configuration, or unset it.",
        )


def open_gateway(backend: Backend, timeout_s: float, in_parts: bool = False) -> Gateway:
    """The gateway that the site asked for; with ``auto``, pyslurm where it imports and Slurm answers it.

    Raises:
        SlurmMissingError: there is no Slurm to ask.
        PyslurmUnusableError: pyslurm was asked for and cannot be used here.
    """
    _check_configuration()
    # How much of their generic resources nodes have left is known from Slurm's commands only.
    if backend == "cli" or in_parts:
        return CommandLine(timeout_s, in_parts=in_parts)
    client = PyslurmClient(timeout_s)
    return _insist_on(client) if backend == "pyslurm" else _prefer(client, timeout_s)


class OpenedWhenAsked(CommandLine):
    """A gateway that chooses its door at the first snapshot: see :class:`freetrain.slurm.gateway.Gateway`.

    All but the cluster is asked for, and orders are given, through Slurm's commands whatever the site has chosen,
    so that a command which only gives one does not wait for pyslurm to start.
    """

    def __init__(
        self,
        backend: Backend,
        timeout_s: float,
        environment: Mapping[str, str] = commands.ENVIRONMENT,
        in_parts: bool = False,
    ) -> None:
        super().__init__(timeout_s, environment=environment)
        self._how = (backend, timeout_s, in_parts)

    def snapshot(self) -> Snapshot:
        """See :class:`freetrain.slurm.gateway.Gateway`; PyslurmUnusableError: pyslurm cannot be used here."""
        return self._door.snapshot()

    def job(self, id_: str) -> list[Job]:
        """See :class:`freetrain.slurm.gateway.Gateway`; PyslurmUnusableError: pyslurm cannot be used here."""
        return self._door.job(id_)

    def perform(self, command: Command, stdin: str = "") -> str:
        """See :class:`freetrain.slurm.gateway.Gateway`."""
        _check_configuration()
        return super().perform(command, stdin)

    @cached_property
    def _door(self) -> Gateway:
        return open_gateway(*self._how)


def _prefer(client: PyslurmClient, timeout_s: float) -> Gateway:
    try:
        client.pyslurm.ask(_SMALL)
    except SlurmError as error:
        client.pyslurm.close()
        log.info("Slurm is asked through its commands, since pyslurm cannot be used here: %s", error.what)
        return CommandLine(timeout_s)
    log.info("Slurm is asked through pyslurm %s.", client.pyslurm.version)
    return client


def _insist_on(client: PyslurmClient) -> Gateway:
    pyslurm = client.pyslurm
    try:
        pyslurm.start()
    except PyslurmUnusableError as error:
        pyslurm.close()
        raise PyslurmUnusableError(
            f"slurm.backend is 'pyslurm', which cannot be used here: {error.what}", error.hint
        ) from error
    except SlurmError as error:
        # Slurm's configuration is not there yet, or is to come from a controller that is down.
        pyslurm.close()
        error.hint = error.hint or "If it goes on, set slurm.backend to 'auto' or 'cli'."
        raise
    try:
        pyslurm.ask(_SMALL)
    except SlurmUnreachableError as error:
        if _answers_commands(client):
            pyslurm.close()
            raise PyslurmUnusableError(
                f"Slurm answers its commands, but not pyslurm {pyslurm.version}: {error.what}",
                "Install the pyslurm of Slurm's own version, or set slurm.backend to 'auto' or 'cli'.",
            ) from error
        log.warning("Slurm is asked through pyslurm %s, and does not answer yet: %s", pyslurm.version, error.what)
    else:
        log.info("Slurm is asked through pyslurm %s.", pyslurm.version)
    return client


def _answers_commands(client: PyslurmClient) -> bool:
    # Slurm hangs up on a client that is newer than itself, so that only pyslurm may get no answer.
    try:
        return "is UP" in client.perform(queries.PING)
    except SlurmError:
        return False
