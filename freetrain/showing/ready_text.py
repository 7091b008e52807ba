"""An HTTP server that answers GET and HEAD from text that is ready, and that no client can hold.

One thread serves all connections, so a client costs a socket and never a thread. A connection has eight seconds
for its request and its answer together, and 8 kB for the head of its request. Where a peer, or all peers together,
have as many connections as there is room for, the oldest is dropped for the new one, and not the new one refused:
a request that comes at once is answered in milliseconds, however many others send their bytes slowly.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

log = logging.getLogger(__name__)

MAX_CONNECTIONS, MAX_OF_A_PEER = 64, 32
WHOLE_REQUEST_S = 8.0
_MAX_HEAD_BYTES = 8192
_PART_BYTES = 65536
"""Bytes of an answer that the kernel gets at once, so that a slow reader costs little memory."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """The head of a request.

    Attributes:
        path: path of the URL, without the query.
        headers: by name in small letters.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    peer: str


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer of HTTP, whose length is a header in any case; its body is not sent to HEAD."""

    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    status: HTTPStatus = HTTPStatus.OK


def sentence(status: HTTPStatus, text: str) -> HttpAnswer:
    """An answer of one sentence."""
    return HttpAnswer(f"{text}\n".encode(), {"Content-Type": "text/plain; charset=utf-8"}, status)


class ReadyTextServer:
    """A socket that listens; connections are served while it is :meth:`running`.

    Args:
        host: address of this machine.
        port: its port; 0: any that is free.
        answer: called for each request in the server's thread, so it must not wait for anything.

    Attributes:
        dropped: connections that were closed without a whole answer so far.

    Raises:
        OSError: the address cannot be used.
    """

    def __init__(self, host: str, port: int, answer: Callable[[HttpRequest], HttpAnswer]) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=MAX_CONNECTIONS)
        self._host = f"[{host}]" if ":" in host else host
        self._answer = answer
        self._open: dict[asyncio.Task[None], str] = {}
        self.dropped = 0

    @property
    def address(self) -> tuple[str, int]:
        """Address and port on which it listens."""
        host, port = self._socket.getsockname()[:2]
        return host, port

    @property
    def url(self) -> str:
        """URL at which the server answers."""
        return f"http://{self._host}:{self.address[1]}/"

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Answer requests while the block runs, in a thread; the socket is closed at the end."""
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda _, context: log.debug("%s", context))
        stop = asyncio.Event()
        thread = threading.Thread(target=self._run, args=(loop, stop), name="answers", daemon=True)
        thread.start()
        try:
            yield
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join()

    def _run(self, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._serve(stop))

    async def _serve(self, stop: asyncio.Event) -> None:
        # Where no more files may be opened, asyncio accepts nothing for a second, and goes on.
        server = await asyncio.start_server(self._connected, sock=self._socket, limit=_MAX_HEAD_BYTES)
        await stop.wait()
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection. Nothing that goes wrong with it is news: it is counted."""
        task, peer = asyncio.current_task(), str((writer.get_extra_info("peername") or ("",))[0])
        assert task is not None
        self._make_room(peer)
        self._open[task] = peer
        try:
            async with asyncio.timeout(WHOLE_REQUEST_S):
                await self._exchange(reader, writer, peer)
        except (Exception, asyncio.CancelledError) as error:
            self.dropped += 1
            log.debug("a connection of %s was dropped: %r", peer, error)
        finally:
            self._open.pop(task, None)
            writer.transport.abort()

    def _make_room(self, peer: str) -> None:
        of_peer = [task for task, other in self._open.items() if other == peer]
        oldest = next(iter(of_peer if len(of_peer) >= MAX_OF_A_PEER else self._open), None)
        if oldest is not None and (len(of_peer) >= MAX_OF_A_PEER or len(self._open) >= MAX_CONNECTIONS):
            del self._open[oldest]
            oldest.cancel()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: str) -> None:
        request = parse_head(await reader.readuntil(b"\r\n\r\n"), peer)
        if request.method in ("GET", "HEAD"):
            answer = self._answer(request)
        else:
            answer = sentence(HTTPStatus.METHOD_NOT_ALLOWED, "GET and HEAD are answered here.")
        headers = {**answer.headers, "Content-Length": str(len(answer.body)), "Connection": "close"}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n{lines}\r\n".encode("latin-1"))
        body = memoryview(answer.body if request.method != "HEAD" else b"")
        for start in range(0, len(body), _PART_BYTES):
            writer.write(body[start : start + _PART_BYTES])
            await writer.drain()
        writer.close()
        await writer.wait_closed()


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_head(head: bytes, peer: str) -> HttpRequest:
    """The head of a request.

    Raises:
        ValueError: it is not one of HTTP/1.
    """
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, version = first.split(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError(f"{version!r} is not HTTP/1")
    fields = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    return HttpRequest(method, target.partition("?")[0], headers, peer)
