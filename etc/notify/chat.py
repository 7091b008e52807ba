#!/usr/bin/env python3
"""Posts freetrain's notices to Slack, Microsoft Teams or Matrix: a program for notify.command.

    command = "/usr/share/doc/freetrain/notify/chat.py slack"

The address of the channel stands in /etc/freetrain/chat.url, or in the file that is the second argument, readable
by freetrain's account alone: a webhook's for Slack and Teams, and for Matrix
https://SERVER/_matrix/client/v3/rooms/ROOM/send/m.room.message?access_token=TOKEN. Needs Python 3.9 only.
Part of the text is what users wrote, so it is sent as plain text: it mentions nobody and has no links.
"""

import json
import os
import pathlib
import sys
import urllib.error
import urllib.request
import uuid

MOST_CHARACTERS = 2900  # of a block of Slack's, the shortest of the three
TIMEOUT_S = 20


def slack(text):
    return {"blocks": [{"type": "section", "text": {"type": "plain_text", "text": text, "emoji": False}}]}


def teams(text):
    run = {"type": "TextRun", "text": text}
    card = {"type": "AdaptiveCard", "version": "1.4", "body": [{"type": "RichTextBlock", "inlines": [run]}]}
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [attachment]}


def matrix(text):
    return {"msgtype": "m.notice", "body": text, "m.mentions": {}}


CHATS = {"slack": slack, "teams": teams, "matrix": matrix}


def request_of(chat, url, text):
    """What is sent; a message of Matrix has a number, so that one sent twice is shown once."""
    if chat == "matrix":
        path, _, query = url.partition("?")
        url = f"{path}/{uuid.uuid4()}?{query}"
    body = json.dumps(CHATS[chat](text[:MOST_CHARACTERS])).encode()
    method = "PUT" if chat == "matrix" else "POST"
    return urllib.request.Request(url, body, {"Content-Type": "application/json"}, method=method)


def main(chat, url_file="/etc/freetrain/chat.url"):
    url = pathlib.Path(url_file).read_text().strip()
    if not url.startswith(("https://", "http://127.0.0.1:")):
        sys.exit(f"{url_file} has no address that begins with https://")
    head = "freetrain, {}: {}".format(os.environ.get("FREETRAIN_HOST", ""), os.environ.get("FREETRAIN_KIND", ""))
    try:
        urllib.request.urlopen(request_of(chat, url, f"{head}\n{sys.stdin.read()}"), timeout=TIMEOUT_S).close()
    except urllib.error.URLError as error:
        sys.exit(f"{chat} did not take it: {error.reason}")  # never the address: it is a secret


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in CHATS:
        sys.exit(f"usage: chat.py {'|'.join(CHATS)} [FILE]")
    main(*sys.argv[1:])
