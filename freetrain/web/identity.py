"""Users of requests: a trusted proxy names them, or they send a token.

1. A token says for which user it is, and until when, sealed with a key that the daemon's account alone can read.
   ``freetrain web token`` makes them; the removal of the key ends all of them.
2. Browsers send it as the password of HTTP's basic authentication, programs as ``Authorization: Bearer``.
3. The header of a proxy counts if the connection comes from one of ``web.proxies``. From any other address it is
   refused and not ignored, so that a proxy that is not trusted is noticed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from freetrain.config import WebSettings
from freetrain.config.values import parse_networks
from freetrain.elastic.on_disk.files import create_exclusively
from freetrain.errors import ExitCode, FreetrainError
from freetrain.showing.ready_text import HttpRequest

KEY_NAME = "web.key"
_KEY_BYTES = 32
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")
_TOKEN = re.compile(r"(?P<user>[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}):(?P<until_s>[0-9]{1,12}):(?P<seal>[0-9a-f]{64})")


class UnknownUserError(Exception):
    """Error of a request that names its user in a way that is not believed; the message is a sentence for them."""


def make_token(key: bytes, user: str, until_s: float) -> str:
    """Token of this user that counts until a time in UTC epoch seconds, sealed with the site's key.

    Raises:
        ValueError: there can be no such account.
    """
    if not _USER.fullmatch(user):
        raise ValueError(f"{user!r} cannot be the name of an account")
    claim = f"{user}:{until_s:.0f}"
    return f"{claim}:{_seal(key, claim)}"


def user_of_token(key: bytes, token: str, now_s: float) -> str:
    """The user whose token this is.

    Raises:
        UnknownUserError: it is not one of this site's, or it is too old.
    """
    found = _TOKEN.fullmatch(token)
    if found is None or not hmac.compare_digest(_seal(key, f"{found['user']}:{found['until_s']}"), found["seal"]):
        raise UnknownUserError("This token was not made here.")
    if int(found["until_s"]) < now_s:
        raise UnknownUserError("This token has expired; 'freetrain web token' makes a new one.")
    return found["user"]


def _seal(key: bytes, claim: str) -> str:
    return hmac.new(key, f"freetrain web token 1:{claim}".encode(), hashlib.sha256).hexdigest()


def make_key(directory: Path) -> bytes:
    """The key in the daemon's directory, made if there is none.

    Raises:
        FreetrainError: it cannot be made or read, or others may read it.
    """
    with suppress(FreetrainError):
        # The first that comes makes it: no token is sealed with a key that is replaced at once.
        create_exclusively(directory / KEY_NAME, secrets.token_bytes(_KEY_BYTES))
    key = read_key(directory)
    if key is None:
        raise _not_allowed(f"{directory / KEY_NAME} cannot be written.")
    return key


def read_key(directory: Path) -> bytes | None:
    """The key in the daemon's directory; None: there is none.

    Raises:
        FreetrainError: it cannot be read, or is not private, so that anybody may have made any token.
    """
    path = directory / KEY_NAME
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            facts = os.fstat(file.fileno())
            key = file.read(_KEY_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _not_allowed(f"cannot read {path}: {error.strerror}.") from error
    # Group and others may not read it, nor may anybody but root or this account have written it.
    is_private = not stat.S_IMODE(facts.st_mode) & 0o077 and facts.st_uid in (0, os.geteuid())
    if not is_private or len(key) != _KEY_BYTES or not stat.S_ISREG(facts.st_mode):
        raise FreetrainError(
            f"{path} is not a private key: others may read it, own it, or have written it.",
            "Remove it: all tokens end with it, and 'freetrain web token' makes another.",
            ExitCode.NOT_ALLOWED,
        )
    return key


def _not_allowed(what: str) -> FreetrainError:
    hint = "Run this as the daemon's account: sudo -u freetrain freetrain web token."
    return FreetrainError(what, hint, ExitCode.NOT_ALLOWED)


class Identities:
    """Finder of the user of a request, by the header of a trusted proxy or by a token."""

    def __init__(self, settings: WebSettings, directory: Path) -> None:
        self._header = settings.user_header.lower()
        self._proxies = parse_networks(settings.proxies)
        self._directory = directory

    def user_of(self, request: HttpRequest, now_s: float) -> str:
        """User of a request; empty: it names none.

        Raises:
            UnknownUserError: the user that it names is not believed.
        """
        if self._header and self._header in request.headers:
            if request.peer not in self._proxies:
                raise UnknownUserError(f"{request.peer} is not one of web.proxies, and may not say who you are.")
            user = request.headers[self._header]
            if not _USER.fullmatch(user):
                raise UnknownUserError("The proxy names no account of Slurm's.")
            return user
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        match scheme.lower():
            case "":
                return ""
            case "bearer":
                return self._with_token(credentials.strip(), now_s)
            case "basic":
                user, token = _basic(credentials)
                if user not in ("", self._with_token(token, now_s)):
                    raise UnknownUserError("This token is another user's.")
                return self._with_token(token, now_s)
        raise UnknownUserError("Send a token as the password, or as 'Authorization: Bearer TOKEN'.")

    def _with_token(self, token: str, now_s: float) -> str:
        try:
            key = read_key(self._directory)
        except FreetrainError as error:
            raise UnknownUserError(f"Tokens do not count here: {error.what}") from error
        if key is None:
            raise UnknownUserError("No token was ever made here: 'freetrain web token' makes one.")
        return user_of_token(key, token, now_s)


def _basic(credentials: str) -> tuple[str, str]:
    """Name and password; as browsers send them the name has no colon."""
    try:
        user, _, password = base64.b64decode(credentials.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise UnknownUserError("What your browser sent as a password cannot be read.") from error
    return user, password
