"""The trainer's secret: who can read it belongs to the trainer."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import os
import secrets
from pathlib import Path

from freetrain.elastic.errors import DirectoryError
from freetrain.elastic.on_disk.files import create_exclusively, why_distrusted
from freetrain.elastic.on_disk.members import Record, to_document

SECRET_VARIABLE = "FREETRAIN_SECRET"


class Secret:
    """Signs and checks records; 32 random bytes in a file that only the owner reads."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def of(cls, path: Path) -> Secret:
        """The secret in this file, made if there is none; the environment's takes precedence."""
        if os.environ.get(SECRET_VARIABLE):
            return cls(os.environ[SECRET_VARIABLE].encode())
        if not path.exists():
            create_exclusively(path, secrets.token_hex(32).encode() + b"\n")
        try:
            distrust = why_distrusted(path)
            key = path.read_bytes().strip()
        except OSError as error:
            raise DirectoryError(
                f"cannot read the trainer's secret {path}: {error.strerror}; so this process cannot join.",
                "Only the user who started the trainer can join it.",
            ) from error
        if distrust is not None:
            raise DirectoryError(
                f"{distrust}; so the trainer's secret may not be one.",
                f"Look who wrote it; 'chmod 600 {path}' if all is well.",
            )
        return cls(key)

    def sign(self, record: Record) -> Record:
        """The record with its proof."""
        return dataclasses.replace(record, proof=self._digest(record))

    def signed(self, record: Record) -> bool:
        """Whether the record was signed with this secret."""
        return hmac.compare_digest(record.proof, self._digest(record))

    def derive(self, text: str) -> str:
        """A key for one purpose."""
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()[:32]

    def _digest(self, record: Record) -> str:
        facts = {name: value for name, value in to_document(record).items() if name != "proof"}
        return hmac.new(self._key, json.dumps(facts, sort_keys=True).encode(), hashlib.sha256).hexdigest()
