"""A headless Chromium, steered through a pipe: its DevTools protocol needs no port and no library then."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_PATIENCE_S = 60.0


class Chromium:
    """A browser with one tab. ``chromium`` makes it.

    Attributes:
        complaints: what the page did that it may not: errors of its script, and what its policy forbids.
    """

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._numbers = itertools.count(1)
        self._rest = b""
        self._session = ""
        self._events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    @property
    def complaints(self) -> list[str]:
        kinds = ("Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self._events if event["method"] in kinds]

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Have a method of the protocol done."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def show(self, url: str, width: int = 1200, height: int = 900, scheme: str = "light") -> None:
        """Open a page and wait until it is loaded; what is as narrow as a telephone is one."""
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.call("Emulation.setDeviceMetricsOverride", **screen)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self._events.clear()
        self.call("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")

    def wait_for(self, method: str) -> None:
        """Wait for an event."""
        while not any(event["method"] == method for event in self._events):
            self._next()

    def evaluate(self, script: str) -> Any:
        """What a script comes to in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key and let it go."""
        codes = {"Tab": 9, "Enter": 13}
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key])

    def picture(self, path: Path, whole: bool = False) -> None:
        """Keep what is seen, or the whole page, as PNG."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _next(self) -> dict[str, Any]:
        """The next message; events are kept."""
        until_s = time.monotonic() + _PATIENCE_S
        while b"\0" not in self._rest:
            left_s = until_s - time.monotonic()
            assert left_s > 0, "Chromium does not answer"
            if select.select([self._from], [], [], left_s)[0]:
                self._rest += os.read(self._from, 1 << 20)
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self._events.append(message)
        return message


@contextmanager
def chromium(profile: Path) -> Iterator[Chromium]:
    """A browser that keeps what it keeps in a directory, and ends afterwards."""
    program = next(found for name in PROGRAMS if (found := shutil.which(name)))
    theirs_in, to_browser = os.pipe()
    from_browser, theirs_out = os.pipe()
    command = [
        program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--hide-scrollbars", f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank",
    ]  # fmt: skip
    # The browser reads from descriptor 3 and writes to 4.
    script = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
    process = subprocess.Popen(
        ["bash", "-c", script, "bash", *command],
        pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Chromium(to_browser, from_browser)
    finally:
        os.close(to_browser)
        os.close(from_browser)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()
