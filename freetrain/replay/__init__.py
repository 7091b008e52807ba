"""Replay: what a site's idle nodes would have trained, by its own log.

In come the files of a log and trainers; out come the figures of an outcome, each with its definition, and a
report. What the daemon would have got is replayed by the daemon's own judge and loop.

``logs/``             from files to holes: every idle interval of every node
``trainers.py``       the trainers that want the nodes
``trainer_run.py``    one of them as it runs: progress, and what each change of size costs
``nodes.py``          the holes as a sequence of instants at which nodes come and go, and who has which
``foresight.py``      what a decision knows of the time to come, and how good that was
``course.py``         the record of how a replay goes
``driver.py``         a replay as the holes allow: its clock, and the machine on which ``loop.run_cycle`` acts
``as_daemon/``        the same as the daemon would have gone
``yardsticks.py``     what a replay is measured by
``outcome.py``        the figures, and those of parts of nodes; ``worth.py``: energy and money
``study.py``          one log, one set of trainers, one way to decide: the figures of all that together
``estimate.py``       the daemon's figures of a long log, from some hours of it
``report/``           the HTML page
``sweep.py``          many replays of one file; ``comparison.py`` puts runs side by side
"""
