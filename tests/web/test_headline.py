from __future__ import annotations

from freetrain.daemon.reports.standing import find_standing
from freetrain.web.page import headline_of
from freetrain.web.server import LivePage
from tests.web.site import Site


def test_what_may_not_be_read_is_unknown_rather_than_gone(site: Site) -> None:
    (site.directory / "status.json").write_text("not yet whole")
    told = headline_of(find_standing(site.config), is_hidden=True)
    assert (told.word, told.sentence) == ("unknown", "How the daemon stands is not known here")
    (line,) = told.lines
    assert line.endswith("is not a status of this freetrain's.")
    assert b"How the daemon stands is not known here" in LivePage(site.config).now().html


def test_a_word_and_its_tone_are_enough_to_know_whether_to_look_closer(site: Site) -> None:
    site.publishes()
    assert headline_of(find_standing(site.config), is_hidden=False).tone == "good"
    (site.directory / "STOP").touch()
    told = headline_of(find_standing(site.config), is_hidden=False)
    assert (told.word, told.tone) == ("stopped", "warning")
