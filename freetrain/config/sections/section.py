"""What all tables of the settings file have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class SettingsTogetherError(ValueError):
    """Settings of one table that exclude each other.

    Args:
        what: why, as the end of a sentence.
        mend: the line of the table that mends it.
    """

    def __init__(self, what: str, mend: str) -> None:
        super().__init__(what)
        self.mend = mend


class Section(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
