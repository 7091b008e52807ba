"""The jobs of JSON documents, one by one, so that a large one need not be there as a whole."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from freetrain.errors import InputError

_BEGINNING = re.compile(r"^[ \t]*(?=[\[{])", re.MULTILINE)
_BLANKS = re.compile(r"[ \t\n\r]*")
_BETWEEN = re.compile(r"[\s,\x1e]*")
"""What may stand between documents."""
_LONGEST_MARK = 16
"""No word, number or escape that was cut off is reported farther from the end of the text than that."""


def jobs_of_json(pieces: Iterable[bytes], name: str) -> Iterator[Any]:
    """The jobs of all documents of a text: of lists, of objects with a list ``jobs``, and jobs that stand alone.

    Args:
        pieces: the text; messages may stand before the first document.
        name: the file's name in messages.

    Raises:
        InputError: it is not JSON, or has no list of jobs; what came before may be used up by then.
    """
    text = _Text(pieces, name)
    text.find_beginning()
    while opening := text.next_mark(_BETWEEN):
        if opening == "[":
            yield from text.elements()
        elif opening == "{":
            yield from _of_object(text, name)
        else:
            text.value()
            raise _no_jobs(name)


def _of_object(text: _Text, name: str) -> Iterator[Any]:
    record, has_jobs = dict[str, Any](), False
    for key in text.members():
        if key == "jobs" and text.next_mark() == "[":
            yield from text.elements()
            has_jobs = True
        else:
            record[key] = text.value()
    if has_jobs:
        return
    if "job_id" not in record:
        raise _no_jobs(name)
    yield record


class _Text:
    """A text that is gone through once; what has been read of it is let go of.

    Args:
        pieces: the text, cut anywhere.
        name: the file's name in messages.
    """

    def __init__(self, pieces: Iterable[bytes], name: str) -> None:
        self._pieces, self._name = iter(pieces), name
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        self._decoder = json.JSONDecoder()
        self._text, self._at, self._lines_before = "", 0, 0
        self._more()

    def find_beginning(self) -> None:
        """Go to where the first document begins, if that is in the first piece."""
        found = _BEGINNING.search(self._text)
        self._at = found.end() if found else 0

    def next_mark(self, blanks: re.Pattern[str] = _BLANKS) -> str:
        """The next character that is not blank, which is not read yet; empty at the end of the text."""
        while True:
            self._at = blanks.match(self._text, self._at).end()  # type: ignore[union-attr]  # matches nothing, too
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def value(self) -> Any:
        """Read a value."""
        self.next_mark()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if not self._may_be_cut_off(error) or not self._more():
                    raise self._damaged(error.pos) from None
                continue
            except (ValueError, RecursionError):
                raise self._damaged(self._at) from None
            if not self._may_go_on(end) or not self._more():
                self._at = end
                return value

    def elements(self) -> Iterator[Any]:
        """Read a list, value by value."""
        self._read("[")
        if self.next_mark() == "]":
            self._read("]")
            return
        yield self.value()
        while self._read(",]") == ",":
            yield self.value()

    def members(self) -> Iterator[str]:
        """Read an object key by key; whoever asks reads each key's value."""
        self._read("{")
        if self.next_mark() == "}":
            self._read("}")
            return
        yield self._key()
        while self._read(",}") == ",":
            yield self._key()

    def _key(self) -> str:
        if self.next_mark() != '"':
            raise self._damaged(self._at)
        key: str = self.value()
        self._read(":")
        return key

    def _read(self, marks: str) -> str:
        mark = self.next_mark()
        if not mark or mark not in marks:
            raise self._damaged(self._at)
        self._at += 1
        return mark

    def _more(self) -> bool:
        """Get the next piece; False if there is none."""
        piece = next(self._pieces, None)
        if piece is None:
            return False
        self._lines_before += self._text.count("\n", 0, self._at)
        self._text, self._at = self._text[self._at :] + self._decode(piece), 0
        return True

    def _may_go_on(self, end: int) -> bool:
        """Whether the value that ends there may be the beginning of a longer number, whose rest is to come."""
        is_closed = self._text[end - 1] in '}]"'
        is_at_end = len(self._text) - end < _LONGEST_MARK
        return not is_closed and is_at_end and self._text[end : end + 1] in ("", *".eE+-")

    def _may_be_cut_off(self, error: json.JSONDecodeError) -> bool:
        is_at_end = error.pos >= len(self._text) - _LONGEST_MARK
        return is_at_end or error.msg.startswith("Unterminated string")

    def _damaged(self, at: int) -> InputError:
        line = self._lines_before + self._text.count("\n", 0, at) + 1
        return InputError(
            f"{self._name} is JSON that is damaged or cut off at line {line:,}; nothing was read from it.",
            "Make it again, and look whether the disk was full.",
        )


def _no_jobs(name: str) -> InputError:
    return InputError(
        f"{name} is JSON, but has no list of jobs.", "Give the output of `sacct --json` or `sacct -P`."
    )
