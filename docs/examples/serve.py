"""A server that leaves its node when it is asked to: python serve.py DIRECTORY [SECONDS OF WORK PER REQUEST]."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WORK_S = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
# Who has read the address just before it is withdrawn still connects; what is not accepted at the end is reset.
LAST_CALL_S = 1.0


class Handler(BaseHTTPRequestHandler):
    """Answers what it is asked; a model would compute here."""

    def do_GET(self) -> None:
        time.sleep(WORK_S)
        body = f"answer to {self.path}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing for each request."""


class Server(ThreadingHTTPServer):
    """Waits at its end for the requests that it has accepted."""

    daemon_threads = False


directory = Path(sys.argv[1])
directory.mkdir(parents=True, exist_ok=True)
server = Server(("", 0), Handler)
mine = directory / f"{os.environ.get('SLURM_JOB_ID', os.getpid())}"
threading.Thread(target=server.serve_forever).start()
told_to_leave = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: told_to_leave.set())
new = mine.with_suffix(".new")
new.write_text(f"{socket.gethostname()}:{server.server_port}\n")
new.replace(mine)
# Not without a time: a signal that another thread of the process gets does not wake this one.
while not told_to_leave.wait(1.0):
    pass
mine.unlink(missing_ok=True)
time.sleep(LAST_CALL_S)
server.shutdown()
server.server_close()
