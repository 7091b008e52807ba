from __future__ import annotations

from dataclasses import replace
from email import message_from_string
from pathlib import Path

import pytest

from freetrain.daemon.reports.notices import Letter, NewsKind, TemplateProblem, written

LETTER = Letter(NewsKind.REGISTERED, ["training 7 is registered"], 0, "news", "head", "spare")


def test_an_owner_gets_a_mail_with_a_header() -> None:
    mail = message_from_string(written(LETTER))
    assert (mail["To"], mail["Subject"]) == ("news", "freetrain: registered on head")
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail.get_payload().startswith("training 7 is registered.\n")


def test_admins_get_a_line_for_each_thing() -> None:
    text = written(replace(LETTER, kind=NewsKind.HARM, lines=["one", "two"], left_out=3))
    assert text == "one\ntwo\nand 3 more\n"


@pytest.mark.parametrize("kind", [kind for kind in NewsKind if kind.is_for_owners])
def test_each_kind_says_what_can_be_done(kind: NewsKind) -> None:
    assert "freetrain" in message_from_string(written(replace(LETTER, kind=kind))).get_payload()


def test_no_words_of_a_users_become_a_line_of_the_header() -> None:
    evil = "news\nBcc: everybody\r\nX: y\x1b[2J\u2028Z: z"
    mail = message_from_string(written(replace(LETTER, owner=evil, host=evil, lines=[evil])))
    assert set(mail.keys()) == {
        "To", "Subject", "Auto-Submitted", "MIME-Version", "Content-Type", "Content-Transfer-Encoding",
    }  # fmt: skip
    assert "\nBcc" not in mail.get_payload()
    assert "\x1b" not in mail.as_string()


def test_words_are_bounded() -> None:
    assert len(written(replace(LETTER, lines=["x" * 10_000]))) < 1_500


def test_a_sites_own_words_count_where_there_are_some(tmp_path: Path) -> None:
    (tmp_path / "for_owners.j2").write_text("To: {{ owner }}@example.org\n\n{{ lines[0] }} ({{ partition }})\n")
    assert written(LETTER, str(tmp_path)) == "To: news@example.org\n\ntraining 7 is registered (spare)\n"
    admins = replace(LETTER, kind=NewsKind.PAUSE)
    assert written(admins, str(tmp_path)) == written(admins)


def test_a_filter_makes_no_line_either(tmp_path: Path) -> None:
    (tmp_path / "for_owners.j2").write_text("Subject: {{ lines | join('\\n') }}\n\n")
    assert written(replace(LETTER, lines=["a", "Bcc: b"]), str(tmp_path)) == "Subject: a Bcc: b\n\n"


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{ onwer }}", "'onwer' is undefined"),
        ("{% if %}", "TemplateSyntaxError"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{% for i in range(10**9) %}x{% endfor %}", "OverflowError"),
        ("{{ lines.__class__.__mro__ }}", "SecurityError"),
    ],
)
def test_a_template_that_cannot_be_used_says_why(tmp_path: Path, template: str, says: str) -> None:
    (tmp_path / "for_owners.j2").write_text(template)
    with pytest.raises(TemplateProblem, match=says) as raised:
        written(LETTER, str(tmp_path))
    assert str(tmp_path / "for_owners.j2") in str(raised.value)


def test_one_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "for_owners.j2").mkdir()
    with pytest.raises(TemplateProblem, match="IsADirectoryError"):
        written(LETTER, str(tmp_path))
