"""Why a newcomer is fed no more; it then gets the state by broadcast."""

from __future__ import annotations


class FeedError(Exception):
    """Something cannot be fed; the text says what."""


class LinkLostError(FeedError):
    """The connection has ended; with another member it may go better."""
