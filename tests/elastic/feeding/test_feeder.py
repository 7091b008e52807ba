from __future__ import annotations

import mmap
import queue
import socket
import threading
import weakref

import torch

from freetrain.elastic.data.batching import Sampler
from freetrain.elastic.feeding.feeder import Feed
from freetrain.elastic.feeding.link import Link
from freetrain.elastic.training.state import TrainingState


def test_who_has_fed_a_newcomer_does_not_wait_until_the_memory_is_free() -> None:
    model = torch.nn.Linear(4, 4)
    state = TrainingState(model, [torch.optim.SGD(model.parameters(), lr=0.1)], Sampler(8, 1), {})
    with socket.create_server(("127.0.0.1", 0)) as server:
        source, newcomer = socket.create_connection(server.getsockname()), server.accept()[0]
    with newcomer:
        memory = mmap.mmap(-1, 1 << 20)
        freed_by = queue.SimpleQueue[str]()
        watched = weakref.ref(memory, lambda _: freed_by.put(threading.current_thread().name))
        feed = Feed(state, Link(source, memory, lambda: False, is_seen=True), memory)
        del memory
        feed.send_state()
        feed.end()
        assert freed_by.get(timeout=60).startswith("freetrain-")
        assert watched() is None
