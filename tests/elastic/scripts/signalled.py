"""A worker that sends a signal to itself, and then to a process that it forks.

SIGNAL [exits]: with the second argument the script has a handler of its own, which ends it with 7.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from freetrain.elastic.membership.session import leave_signals_to_agent

number = signal.Signals[sys.argv[1]]
if "exits" in sys.argv[2:]:
    signal.signal(number, lambda *_: sys.exit(7))
leave_signals_to_agent()
os.kill(os.getpid(), number)
print("goes on", flush=True)
reading, writing = os.pipe()
child = os.fork()
if not child:
    os.write(writing, b"here")
    while True:  # a signal just before one long sleep would be seen only after it
        time.sleep(0.05)
os.read(reading, 4)
os.kill(child, number)
print(-os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
