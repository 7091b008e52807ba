"""The tag's grammar in job_submit.lua is that of tags.py: the same tags, the same values, the same sentences."""

from __future__ import annotations

import re
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freetrain.slurm.tags import KEYS, ArrayKind, Tag, WrongTag, parse_tag
from tests.slurm.lua import INTERPRETERS, JOB_SUBMIT

# By the function of tags.py that reads them, without its read_.
VALUES = {
    "nodes": [
        *(
            "1",
            "16",
            "007",
            "100000",
            "100001",
            "0",
            "-1",
            "1000000",
            "0000001",
            "1.0",
            "1e2",
            "x",
            "\u0663",
            " 4",
            "",
        ),
    ],
    "number": [
        *("0", "0.0", "0e5", "1", "2.5", "1e6", "1.5e10", "1e99", "1e100", "1.", ".5", "1.1234567", "1.123456"),
        *("123456789012345", "1234567890123456", "nan", "inf", "-1", "+1", "1E5", "1e", "1e+5", "1_0", "0x10"),
        *("0.01", "0.009999", "100", "100.000001", "1e2", "1e9", "1000000001", "1e18", "1.1e18", "1e19"),
    ],
    "name": [
        *("bert", "a.b-c_D9", "x" * 64, "x" * 65, "é", "a b", "$(reboot)", "`id`", 'a"b', "a'b", "a\\b", "%s%n"),
        *("..", "a|b", "a\n"),
    ],
    "path": [
        *("/a/b", "/", "/a/../b", "/..", "/a/..b", "/a..", "//a", "a/b", "/a b", "/" + "x" * 400, "/" + "x" * 401),
        *("/a/../../etc/passwd", "/é", "/a+b@c:d-e_f.g", "/a\x00b", "/$HOME", "/a%20b", "/a=b", "~/t"),
    ],
    "curve": [
        *("1:100", "1:100/2:190/4:350", "2:1/1:5", "1:1/1:1", "3:1/2:1/4:1", "one", "1", "1:", ":1", "1:0", "0:1"),
        *("1:1/", "/1:1", "1:1//2:2", "1:2:3", "1:1e3/2:2.5e3", "1:-1", "1:nan", "100001:1", "1:1/2"),
    ],
}
VALUES["kind"] = ["training", "tasks", "Tasks", "", "task"]
VALUES["yes"] = ["yes", "no", "1", "YES", ""]
VALUES["speeds"] = [
    *("a100:1", "a100:1/v100:0.4", "a100:0.01/b:100", "a100:0.001", "a100:101", "a100", ":1", "a100:", "a100:1/"),
    *("a100:1/a100:2", "a b:1", "é:1", "a:1:2", "twice:1", "a:x", "/a:1"),
]
VALUES["range_of_nodes"] = [
    *("2-8", "4", "1-1", "8-2", "0-2", "2-0", "2-", "-8", "-", "2-8-9", "2--8", "2 - 8", "x-8", "2-x", "2-100001"),
    *("2-8,max=1", "2-8,max=2", "4,max=3", "2-8,curve=1:1/2:2", "2-8,min=2"),
]
VALUES["servers"] = ["1", "16", "016", "0", "17", "0001", "1.0", "-1", "x", ""]
VALUES["step"] = [
    *("1/0/0.02/0.02/0.04", "1/2/3/4", "1/2/3/4/5/6", "1/2/3/4/", "////", "1e6/0/0/0/0", "1000001/0/0/0/0"),
    *("1/x/3/4/5", "0.0000001/0/0/0/0", "1e7/x/0/0/0", "-1/0/0/0/0", "1"),
]
VALUES["megabytes"] = ["1", "64000", "0", "00", "99999999", "100000000", "1.5", "-1", "1e3", ""]
VALUES["gradients"] = [
    *("98/192", "0.5/1", "1/3", "1e9/1", "1e9/0.999999", "1.1e9/1", "98", "98/", "/192", "/", "0/1", "1/0"),
    *("98/192/1", "x/1", "1/x", "-1/2", "1e99/1", "1/1e99", ""),
]
VALUES["time"] = [
    *("2026-12-01T08:00", "2028-02-29T23:59", "2026-02-29T08:00", "2100-02-29T00:00", "2026-13-01T00:00"),
    *("2026-00-10T00:00", "2026-04-31T00:00", "2026-04-00T00:00", "2026-12-01T24:00", "2026-12-01T08:60"),
    *("2026-12-01", "2026-12-01T08:00:00", "2026-12-01 08:00", "1999-12-01T08:00", "2026-12-01T08:00Z", "x"),
    *("12h", "90m", "3d", "99999d", "100000d", "0h", "012h", "12", "12H", "1.5h", "-1h", "12h ", "1-12", ""),
]
WHOLE = [
    *("", ",", ",,,", "min", "min=", "=", "=5", "=min", "min==2", "min=2=3", "min=2,min=3", "min=2,,max=4"),
    *("min=8,max=4", "max=4,min=8", "max=1,min=1", "min=2 ,max=3", " min=2", "min=2 ", "\tmin=2\r\n"),
    *("\u00a0min=2", "min=2\x0b", "min=2\nmax=3", "min=2\n", "min=2 | paused", "min=2| paused", "min=2 |paused"),
    *(" | min=0", "zz | y", "a | b | c", "MIN=2", "Min=2", "mim=2", "mni=2", "mx=3", "nodes=3", "weigth=1"),
    *("wieght=1", "taget=1", "strat=1", "stat=1", "direct=/a", "nam=x", "curves=1:1", "shrnk=1", "growth=2"),
    *(
        "xaxm=1",
        "inm=1",
        "m=1",
        "ma=1",
        "mi=1",
        "minmax=1",
        "é=1",
        "日本語=1",
        "mïn=1",
        "%=1",
        "%s%d%n=1",
        "`x`=1",
    ),
    *(
        "'=1",
        '"=1',
        "\\=1",
        "\x1b[31mred=1",
        "\x7f=1",
        "\x01=1",
        "x" * 39 + "=1",
        "x" * 40 + "=1",
        "x" * 41 + "=1",
    ),
    *("é" * 41 + "=1", "min" * 400, "min=" + "1" * 4000, "min=2," * 400, " " * 4000 + "min=2", "\u202emin=2"),
    *("min=\u0662", "a\u2028b=1", "😀=1", "name=😀" * 30),
]
NUMBERS = {"seconds", "period", "samples", "weight"}


def reader(key: str) -> str:
    """Which of VALUES are for a key."""
    name = KEYS[key].read.__name__.removeprefix("read_")
    return "number" if name in NUMBERS else name


SINGLE = [f"{key}={value}" for key in KEYS for value in VALUES[reader(key)]]
PAIRS = [
    f"{a},{b}"
    for a, b in product(["min=2", "min=9", "name=x", "curve=1:1/2:2", "q=1"], ["max=4", "weight=0", "x"])
]
DEADLINES = [f"target=1e6,deadline={value}" for value in VALUES["time"]]
FILLERS = [f"kind=tasks,{key}={VALUES[reader(key)][0]}" for key in KEYS]
FILLERS += [f"kind=tasks,nodes={value}" for value in VALUES["range_of_nodes"]]
FILLERS += ["kind=tasks,shortest=9,save=3,boot=2,notice=yes,max=4", "save=3,min=1,kind=tasks", "notice=no"]
TAGS = [f"freetrain:{text}" for text in (*WHOLE, *SINGLE, *PAIRS, *FILLERS, *DEADLINES)]


def lua_results(interpreter: str, tags: list[str], directory: Path) -> list[tuple[str, str]]:
    """What job_submit.lua makes of these: right and its values, or wrong and its sentence."""
    path = directory / "tags"
    path.write_text("".join(f"{tag.encode().hex()}\n" for tag in tags))
    command = [interpreter, str(Path(__file__).with_name("tags.lua")), str(JOB_SUBMIT), str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env={"LC_ALL": "C"})
    lines = [line.partition(" ") for line in ran.stdout.splitlines()]
    assert len(lines) == len(tags)
    return [(verdict, bytes.fromhex(said).decode()) for verdict, _, said in lines]


def read_back(said: str) -> Tag:
    """The tag of the values that Lua has read."""
    values: dict[str, Any] = {}
    for line in said.splitlines():
        name, _, text = line.partition("=")
        values[KEYS[name].field] = {
            "nodes": int,
            "range_of_nodes": lambda text: tuple(map(int, text.split("/"))),
            "servers": int,
            "megabytes": int,
            "step": lambda text: tuple(map(float, text.split("/"))),
            "number": float,
            "gradients": float,
            "kind": ArrayKind,
            "yes": lambda text: text == "yes",
            "curve": lambda text: tuple(
                (int(n), float(r)) for n, _, r in (p.partition(":") for p in text.split("/"))
            ),
            "speeds": lambda text: tuple(
                (name, float(speed)) for name, _, speed in (p.partition(":") for p in text.split("/"))
            ),
        }.get(reader(name), str)(text)
    return Tag(**values)


def read_differently(interpreter: str, tags: list[str], directory: Path) -> list[tuple[str, str, str]]:
    """Tags that Lua reads otherwise than Python does, with its verdict and its answer."""
    results = zip(tags, lua_results(interpreter, tags, directory), strict=True)
    return [(tag, *result) for tag, result in results if not is_same(result, parse_tag(tag))]


def is_same(result: tuple[str, str], expected: Tag | WrongTag | None) -> bool:
    verdict, answer = result
    if isinstance(expected, WrongTag):
        # Python shows letters of all scripts to their writer, Lua only what it can tell to be harmless.
        return (verdict, answer) == ("wrong", re.sub("[^ -~…]", "?", expected.why))
    return verdict == "right" and read_back(answer) == expected


def test_there_are_enough_of_both() -> None:
    wrong = sum(isinstance(parse_tag(tag), WrongTag) for tag in TAGS)
    assert wrong > 150
    assert len(TAGS) - wrong > 70


@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_lua_and_python_read_the_same_tags(interpreter: str, tmp_path: Path) -> None:
    assert read_differently(interpreter, TAGS, tmp_path) == []


# The sentences' own … is the one letter beyond ASCII that both show.
letters = st.characters(exclude_categories=["Cs"], exclude_characters="…")
words = st.sampled_from([*KEYS, "mim", "x", ""])
values = st.one_of(
    st.sampled_from([value for some in VALUES.values() for value in some]),
    st.from_regex(r"[0-9]{1,7}(\.[0-9]{1,7})?(e[0-9]{1,3})?", fullmatch=True),
    st.text(letters, max_size=50),
    st.text("/.a:1-9 ", max_size=12),
)
items = st.one_of(st.builds("{}={}".format, words, values), st.text(letters))
tag_texts = st.lists(items, max_size=4).map(lambda some: "freetrain:" + ",".join(some))


@pytest.mark.parametrize("interpreter", INTERPRETERS)
@given(tags=st.lists(tag_texts, min_size=50, max_size=100))
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
)
def test_any_text_means_the_same_to_both(interpreter: str, tags: list[str], tmp_path: Path) -> None:
    assert read_differently(interpreter, tags, tmp_path) == []
