"""Who asks, and what they try: another's token, an old one, one of their own making, a header from anywhere."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from freetrain.errors import FreetrainError
from freetrain.showing.ready_text import HttpRequest
from freetrain.web.identity import KEY_NAME, UnknownUserError, make_key, make_token, read_key
from tests.web.site import Site

NOW_S = 1.8e9
PROXY, ELSEWHERE = "10.1.0.5", "10.1.0.6"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, user_header="X-Remote-User", proxies=PROXY)


def who_asks(site: Site, peer: str = ELSEWHERE, **headers: str) -> str:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return site.identities.user_of(HttpRequest("GET", "/me", named, peer), NOW_S)


def basic(user: str, token: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{token}'.encode()).decode()}"


def test_a_user_is_known_by_a_token_or_by_a_trusted_proxy_and_else_by_nothing(site: Site) -> None:
    token = make_token(make_key(site.directory), "alice", NOW_S + 60)
    assert who_asks(site, authorization=f"Bearer {token}") == "alice"
    assert who_asks(site, authorization=basic("alice", token)) == "alice"
    assert who_asks(site, authorization=basic("", token)) == "alice"
    assert who_asks(site, PROXY, x_remote_user="alice") == "alice"
    assert who_asks(site, f"::ffff:{PROXY}", x_remote_user="alice") == "alice"
    assert who_asks(site) == ""


FORGED: dict[str, Callable[[bytes], str]] = {
    "made with another key": lambda key: "Bearer " + make_token(bytes(32), "alice", NOW_S + 60),
    "made longer": lambda key: "Bearer " + make_token(key, "alice", NOW_S).replace(":18", ":19"),
    "made another's": lambda key: "Bearer " + make_token(key, "mallory", NOW_S + 60).replace("mallory", "alice"),
    "another user's": lambda key: basic("alice", make_token(key, "mallory", NOW_S + 60)),
    "expired": lambda key: "Bearer " + make_token(key, "alice", NOW_S - 1),
    "cut off": lambda key: "Bearer " + make_token(key, "alice", NOW_S + 60)[:-1],
    "no seal": lambda key: f"Bearer alice:{NOW_S + 60:.0f}:",
    "nothing": lambda key: "Bearer ",
    "not base64": lambda key: "Basic alice:secret",
    "not UTF-8": lambda key: "Basic " + base64.b64encode(b"\xff\xfe:\xff").decode(),
    "another scheme": lambda key: "Negotiate YII=",
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_what_is_not_a_token_of_that_user_is_refused(site: Site, forged: Callable[[bytes], str]) -> None:
    with pytest.raises(UnknownUserError):
        who_asks(site, authorization=forged(make_key(site.directory)))


@pytest.mark.parametrize("peer", [ELSEWHERE, "127.0.0.1", "::1", ""])
def test_a_header_from_an_address_that_is_not_trusted_is_refused_beside_a_token_too(site: Site, peer: str) -> None:
    token = make_token(make_key(site.directory), "mallory", NOW_S + 60)
    with pytest.raises(UnknownUserError, match="may not say who you are"):
        who_asks(site, peer, x_remote_user="alice", authorization=f"Bearer {token}")


@pytest.mark.parametrize("user", ["", "alice,bob", "../alice", "alice\tbob", "a" * 65])
def test_a_name_that_is_no_account_is_refused(site: Site, user: str) -> None:
    with pytest.raises(UnknownUserError, match="no account"):
        who_asks(site, PROXY, x_remote_user=user)
    with pytest.raises(ValueError, match="cannot be the name"):
        make_token(bytes(32), user, NOW_S)


def test_without_a_proxy_its_header_says_nothing(tmp_path: Path) -> None:
    assert who_asks(Site(tmp_path), PROXY, x_remote_user="alice") == ""


def test_the_key_is_private_made_once_and_its_removal_ends_all_tokens(site: Site) -> None:
    key = make_key(site.directory)
    assert make_key(site.directory) == key
    path = site.directory / KEY_NAME
    assert path.stat().st_mode & 0o777 == 0o600
    token = make_token(key, "alice", time.time() + 60)
    path.unlink()
    with pytest.raises(UnknownUserError, match="No token was ever made here"):
        who_asks(site, authorization=f"Bearer {token}")
    assert make_key(site.directory) != key


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o660])
def test_a_key_that_others_may_read_or_write_makes_and_checks_no_token(site: Site, mode: int) -> None:
    token = make_token(make_key(site.directory), "alice", NOW_S + 60)
    (site.directory / KEY_NAME).chmod(mode)
    with pytest.raises(FreetrainError, match="is not a private key"):
        make_key(site.directory)
    with pytest.raises(UnknownUserError, match="Tokens do not count here"):
        who_asks(site, authorization=f"Bearer {token}")


def test_a_key_that_is_a_link_is_not_followed(site: Site, tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    planted.write_bytes(bytes(32))
    planted.chmod(0o600)
    (site.directory / KEY_NAME).symlink_to(planted)
    with pytest.raises(FreetrainError):
        read_key(site.directory)
