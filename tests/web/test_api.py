"""The API and the users' page: who gets what, and that all of it is as described."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from freetrain.showing.ready_text import ReadyTextServer
from freetrain.web.api import ENDPOINTS, PREFIX
from freetrain.web.identity import make_key, make_token
from freetrain.web.server import PATHS, LivePage, page_server
from tests.web.site import LOOK, Site
from tests.web.test_server import ask

HOSTILE = "<script>alert(1)</script>"


@contextmanager
def serving(site: Site, is_private: bool = False) -> Iterator[ReadyTextServer]:
    site.remembers()
    stuck = replace(LOOK.trainers[0], verdict="no idle nodes", fault=HOSTILE)
    site.publishes(replace(LOOK, trainers=(stuck, *LOOK.trainers[1:])), is_private=is_private)
    server = page_server("127.0.0.1", 0, LivePage(site.config), site.identities)
    with server.running():
        yield server


def as_user(site: Site, user: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {make_token(make_key(site.directory), user, time.time() + 60)}"}


def read(server: ReadyTextServer, name: str, **headers: str) -> Any:
    status, answered, body = ask(server, path=PREFIX + name, **headers)
    assert (status, answered["Content-Type"]) == (200, "application/json")
    return json.loads(body)


def test_every_document_is_of_its_type_and_described(site: Site) -> None:
    with serving(site) as server:
        described = read(server, "openapi.json")
        for name, endpoint in ENDPOINTS.items():
            TypeAdapter(endpoint.type).validate_python(read(server, name, **as_user(site, "news")))
    assert {*described["paths"]} == {PREFIX + name for name in ENDPOINTS}
    schemas = described["components"]["schemas"]
    text = json.dumps(described)
    referred = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert referred <= schemas.keys()
    assert schemas["OwnJob"]["properties"].keys() >= {"why", "what_helps", "curve"}


def test_a_user_sees_why_their_trainings_have_no_more_and_what_helps(site: Site) -> None:
    with serving(site) as server:
        (own,) = read(server, "own-jobs", **as_user(site, "games"))["jobs"]
        (news,) = read(server, "own-jobs", **as_user(site, "news"))["jobs"]
        page = ask(server, path="/me", **as_user(site, "games"))[2].decode()
        page_of_news = ask(server, path="/me", **as_user(site, "news"))[2].decode()
    assert (own["job"]["id"], own["why"]) == ("102", "no idle nodes fit it")
    assert own["what_helps"].startswith("It starts when")
    assert news["job"]["nodes"] == ["n1", "n2", "n3"]
    assert news["curve"] == [[1, 100.0], [2, 180.0], [4, 320.0]]
    assert "no idle nodes fit it" in page
    assert "60000101" not in page
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page
    assert re.search(r"40.0.% of 1.00.million.samples, about 40.min more on 3.nodes", page_of_news)


def test_nobody_in_particular_gets_nothing_of_users_own(site: Site) -> None:
    with serving(site) as server:
        status, headers, _ = ask(server, path="/me")
        assert (status, headers["WWW-Authenticate"].split()[0]) == (401, "Basic")
        assert ask(server, path=f"{PREFIX}own-jobs")[0] == 401
        assert len(read(server, "jobs")["jobs"]) == 2


@pytest.mark.parametrize("path", PATHS)
def test_where_the_site_hides_jobs_others_are_not_named(site: Site, path: str) -> None:
    with serving(site, is_private=True) as server:
        for headers in ({}, as_user(site, "games")):
            status, _, body = ask(server, path=path, **headers)
            names_jobs = path in ("/me", f"{PREFIX}jobs", f"{PREFIX}own-jobs")
            assert status == (401 if names_jobs and not headers else 200)
            assert b"news" not in body
            assert b"60000101" not in body
        if path == f"{PREFIX}jobs":
            assert [job["id"] for job in json.loads(body)["jobs"]] == ["102"]


def test_what_is_not_believed_gets_no_page_at_all(site: Site) -> None:
    with serving(site) as server:
        wrong = {"Authorization": "Bearer games:9999999999:" + 64 * "0"}
        assert {ask(server, path=path, **wrong)[0] for path in PATHS} == {401}


def test_what_users_ask_is_made_once_until_there_is_something_new(site: Site) -> None:
    site.publishes()
    page = LivePage(site.config)
    assert page.own_page("games") is page.own_page("games")
    assert page.own_page("games") is not page.own_page("news")
