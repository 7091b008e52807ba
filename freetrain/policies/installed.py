"""What packages beside freetrain bring: their policies and placers, by the entry points that they name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from freetrain.errors import InputError


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of thing that packages can bring.

    Attributes:
        word: what one is called.
        method: what it must be able to do.
        own: freetrain's own names; no other may have one of these.
    """

    word: str
    method: str
    own: Sequence[str]

    @property
    def group(self) -> str:
        """The entry points that name them."""
        return f"freetrain.{'policies' if self.word == 'policy' else f'{self.word}s'}"

    def names(self, but: str = "") -> tuple[str, ...]:
        """Those that there are, freetrain's own first."""
        installed = {entry.name for entry in entry_points(group=self.group)}.difference(self.own, {but})
        return (*self.own, *sorted(installed))

    def make(self, name: str, *arguments: object) -> object:
        """The one of this name, called with the arguments.

        Raises:
            InputError: there is no such one, or it cannot be loaded.
        """
        found = tuple(entry_points(group=self.group, name=name))
        if not found:
            choices = ", ".join(self.names())
            hint = f"Choose one of {choices}, or install the package that has it."
            raise InputError(f"There is no {self.word} {name!r}.", hint)
        if len(found) > 1:
            places = ", ".join(sorted(entry.value for entry in found))
            raise InputError(
                f"Several packages have a {self.word} {name!r}: {places}.", "Uninstall all but one of them."
            )
        made = self._made(found[0], arguments)
        if not callable(getattr(made, self.method, None)):
            what = f"The {self.word} {name!r} ({found[0].value}) has no method {self.method!r}"
            raise InputError(
                f"{what}: its type is {type(made).__name__}.", "docs/policies.md shows a whole policy."
            )
        return made

    def _made(self, entry: EntryPoint, arguments: Sequence[object]) -> object:
        try:
            return entry.load()(*arguments)
        except (Exception, SystemExit) as error:  # a package of somebody else's may raise anything
            failed = f"{type(error).__name__}: {error}"
            choices = ", ".join(self.names(entry.name))
            raise InputError(
                f"The {self.word} {entry.name!r} ({entry.value}) cannot be loaded: {failed}.",
                f"Install its package again with what it needs, or choose one of {choices}.",
            ) from error
