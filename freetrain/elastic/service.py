"""A store on a service host, for sites whose nodes may not open ports to each other for it.

    python -m freetrain.elastic.service 29400          on the service host
    export FREETRAIN_SERVICE=thathost:29400            for the members

Any number of trainers can share one; it holds no secrets, only the addresses by which members find each other.
Where it does not answer, members open stores themselves as they do without it.
"""

from __future__ import annotations

import contextlib
import signal
import sys

from freetrain.elastic.worlds.guarded_store import StoreServer


def main(arguments: list[str]) -> int:
    """Serve until a signal."""
    if len(arguments) != 1 or not arguments[0].isdigit():
        print("usage: python -m freetrain.elastic.service PORT", file=sys.stderr)
        return 2
    try:
        store = StoreServer(int(arguments[0]))
    except OSError as error:
        print(f"cannot listen on port {arguments[0]}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"serving on port {store.port}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
