"""What the pages show to be typed into a shell: lines of code, and commands within sentences."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def place(page: Path) -> str:
    """A page's path within the project."""
    return str(page.relative_to(ROOT))


NOT_SHELL = (
    "- ",
    "observe ──►",
    "PreemptType=",
    "PartitionName=",
    "[slurm]",
    "[notify]",
    "[web]",
    "# slurm.conf",
    "The daemon (process",
    "t,node,idle",
    "rows read =",
    "sizes that are possible",
)
"""With what other indented blocks begin: items of a list, settings, files, what is printed."""

STARTERS = ("apptainer", "exec", "setpriv", "srun", "sudo")
"""What follows them and their options is a command, too."""

_BETWEEN_COMMANDS = {";", "&", "&&", "|", "||", "(", ")"}
_HERE = re.compile(r"<<'?(\w+)'?")


@dataclass(frozen=True)
class Line:
    """A line of a page's code, with the lines that go on with it."""

    page: str
    heading: str
    number: int
    text: str

    @property
    def commands(self) -> list[Command]:
        """What it runs: each of its commands, and what these start."""
        return [command for text in (self.text, *_SUBSTITUTED.findall(self.text)) for command in self._of(text)]

    def _of(self, text: str) -> Iterator[Command]:
        for words in _simple(text):
            command = Command(self, tuple(words))
            yield command
            if started := command.started:
                yield Command(self, started)


@dataclass(frozen=True)
class Command:
    """One command of a line, without what is before and behind it."""

    line: Line
    words: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.words)

    @property
    def program(self) -> str:
        """What runs; of a path in the project the path."""
        return self.words[0]

    @property
    def started(self) -> tuple[str, ...]:
        """The freetrain command that it starts; empty: none."""
        if self.program not in STARTERS or "freetrain" not in self.words:
            return ()
        last = len(self.words) - 1 - self.words[::-1].index("freetrain")
        return self.words[last:]


_SUBSTITUTED = re.compile(r"\$\(([^()]+)\)")


def _simple(text: str) -> Iterator[list[str]]:
    """The words of each command of a line, without assignments, targets and comments."""
    text = re.sub(r"<(\w+)>", r"\1", re.sub(r"(^|\s)#\s.*", "", text))
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|<>")
    lexer.commenters = ""
    lexer.whitespace_split = True
    words: list[str] = []
    tokens = iter([*lexer, ";"])
    for token in tokens:
        if token in _BETWEEN_COMMANDS:
            if words:
                yield words
            words = []
        elif set(token) <= {"<", ">"}:
            next(tokens)
        elif words or not re.match(r"\w+=", token):
            words.append(token)


def lines(page: Path) -> list[Line]:
    """The lines of a page's blocks of code that are for a shell."""
    found: list[Line] = []
    for block in _blocks(page):
        if not block[0].text.startswith(NOT_SHELL):
            found += _joined(block)
    return found


def scripts(page: Path) -> list[str]:
    """A page's whole shell scripts."""
    return re.findall(r"^```bash\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def freetrain_commands(page: Path) -> Iterator[str]:
    """What a page shows of freetrain itself, in its blocks and scripts, without the program's name."""
    texts = [Line(place(page), "", 0, text) for script in scripts(page) for text in _logical(script)]
    for command in [each for line in (*lines(page), *texts) for each in line.commands]:
        if command.program.rpartition("/")[2] == "freetrain":
            yield shlex.join(command.words[1:])


def _logical(script: str) -> Iterator[str]:
    """Its lines, and those of a quoted script in it."""
    for text in re.sub(r"\\\n *", "", script).splitlines():
        with suppress(ValueError):
            shlex.split(text)
            yield text.strip()


def mentioned(page: Path, *programs: str) -> list[Command]:
    """The commands of these programs that a page names within its sentences."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    prose = "\n".join("" if line.startswith("    ") else line for line in text.splitlines())
    spans = [re.sub(r"\s+", " ", span) for span in re.findall(r"`([^`]+)`", prose)]
    began = re.compile(rf"(?:export \w+=\$\(|\w+=\S+ )*(?:{'|'.join(programs)}) ")
    found = [Line(place(page), "", 0, span).commands for span in spans if began.match(span)]
    return [command for commands in found for command in commands if command.program in programs]


def _blocks(page: Path) -> Iterator[list[Line]]:
    """The indented blocks, an empty line between two parts of which counts as their end."""
    is_fenced, heading = False, ""
    block: list[Line] = []
    for number, text in enumerate([*page.read_text().splitlines(), ""], 1):
        if text.startswith("```"):
            is_fenced = not is_fenced
        elif not is_fenced and text.startswith("    "):
            block.append(Line(place(page), heading, number, text[4:]))
            continue
        elif not is_fenced and text.startswith("#"):
            heading = text.lstrip("# ")
        if block:
            yield block
        block = []


def _joined(block: list[Line]) -> Iterator[Line]:
    """Lines with those that continue them, and without the files that they contain."""
    rest = iter(block)
    for line in rest:
        text = line.text
        while text.endswith("\\"):
            text = text[:-1] + next(rest).text.lstrip()
        if here := _HERE.search(text):
            text = text[: here.start()]
            while next(rest).text != here[1]:
                pass
        yield Line(line.page, line.heading, line.number, text)
