"""The accounts that play parts in a lab; all of them exist already, so that /etc/passwd stays as it is."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from freetrain.errors import InputError

_SERVICE = "slurm"
_ROLES = {"alice": "news", "bob": "games", "daemon": "backup"}


@dataclass(frozen=True)
class People:
    """Who runs what in a lab.

    Args:
        service: account of all daemons but the slurmds (SlurmUser).
        nodes: account of the slurmds (SlurmdUser); jobs of others need root.
        roles: accounts of the people: alice and bob, and daemon, which is freetrain's.
    """

    service: str
    nodes: str
    roles: Mapping[str, str]

    @classmethod
    def of_this_process(cls) -> People:
        """As root several people; otherwise whoever runs this plays all of them."""
        if os.geteuid() == 0:
            people = cls(_SERVICE, "root", _ROLES)
            people._require_accounts()
            return people
        me = pwd.getpwuid(os.geteuid()).pw_name
        return cls(me, me, dict.fromkeys(_ROLES, me))

    def _require_accounts(self) -> None:
        known = {entry.pw_name for entry in pwd.getpwall()}
        missing = [account for account in (self.service, *self.roles.values()) if account not in known]
        if missing:
            raise InputError(f"A lab needs the system's accounts {', '.join(missing)}, which are not there.")

    @property
    def service_ids(self) -> tuple[int, int]:
        """User and group of the service account."""
        entry = pwd.getpwnam(self.service)
        return entry.pw_uid, entry.pw_gid

    @property
    def as_service(self) -> dict[str, Any]:
        """Arguments that let subprocess run a command as the service account."""
        if os.geteuid() != 0:
            return {}
        user, group = self.service_ids
        return {"user": user, "group": group, "extra_groups": []}
