"""``freetrain run`` whose workers are forked, not executed: children like any other, which have torch already."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import sys
import time
from types import SimpleNamespace

from freetrain.cli.main import main
from freetrain.elastic.on_node import workers


class ForkedWorker:
    """What an agent uses of Popen; the command is a Python and its script."""

    def __init__(self, command, env, stdout, stderr, start_new_session, preexec_fn, pass_fds):
        assert start_new_session
        assert stdout is stderr
        facts = {"command": command, "environment": env, "log": stdout, "prepare": preexec_fn}
        self._process = multiprocessing.get_context("fork").Process(target=become, kwargs=facts)
        self._process.start()
        self.pid = self._process.pid
        while os.getpgid(self.pid) != self.pid:  # or a signal to its group would not reach it
            time.sleep(0.001)

    def poll(self):
        return self._process.exitcode

    def kill(self):
        self._process.kill()

    def wait(self):
        self._process.join()


def become(command, environment, log, prepare):
    """Go on as a Python that was executed would."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)
    prepare()
    os.setsid()
    if log is not None:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = command[1:]
    try:
        if sys.argv[0] == "-m":
            del sys.argv[0]
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(sys.argv[0], run_name="__main__")
    except Exception:
        sys.excepthook(*sys.exc_info())
        sys.exit(1)


workers.subprocess = SimpleNamespace(Popen=ForkedWorker)
main()
