"""Second opinions on a sample of the daemon's decisions: a journal that has some of what it keeps solved again.

Nothing of it delays or ends a look: a look only leaves a decision for a thread, which waits for a process of its
own; while that one works, the next decisions of the sample are left out.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Full, Queue

from freetrain.core.decision import Decision
from freetrain.core.problem import Problem, problem_to_dict
from freetrain.daemon.background import do_beside
from freetrain.guest.channel import QuestionEnd
from freetrain.guest.guest import Guest
from freetrain.loop.cycle import Journal
from freetrain.policies.solver.guests import Agreement, SecondOpinion, has_claim

log = logging.getLogger(__name__)

LEISURE_S = 60.0
"""Wall seconds that HiGHS may take for one decision."""
MOST_CASES = 20
"""Problems that are kept at most: a defect shows in each decision of its kind."""
_MODULE = "freetrain.policies.solver.highs"
# Importing Pyomo with the lowest priority may take minutes on a busy machine.
_START_S = 600.0


class SecondOpinions:
    """Journal in front of another one, with a sample of the decisions solved again.

    Attributes:
        one_in: of so many decisions one is solved again; 0: none is.
    """

    def __init__(
        self,
        journal: Journal,
        directory: Path,
        function: str = f"{_MODULE}:solve_again",
        guest: Guest | None = None,
    ) -> None:
        self._journal = journal
        self._directory = directory
        self._function = function
        self._guest = guest or Guest((_MODULE,), start_s=_START_S, niceness=19)
        self._claims = 0
        self._sample: Queue[tuple[str, Problem, Decision]] = Queue(maxsize=1)
        self._is_working = False
        self.one_in = 0
        self.counts: Counter[Agreement] = Counter()

    def next_decision(self) -> str:
        """The name of the decision that is recorded next."""
        return self._journal.next_decision()

    def record(self, problem: Problem, decision: Decision) -> None:
        """Keep one decision with its problem, and have it solved again if it is its turn."""
        # Before it is recorded: afterwards this is the name of the next one.
        name = self._journal.next_decision()
        self._journal.record(problem, decision)
        if not self.one_in or not has_claim(problem, decision):
            return
        self._claims += 1
        if self._claims % self.one_in == 0:
            # The thread still has the one before, or this machine cannot start a thread.
            with suppress(Full, RuntimeError):
                if not self._is_working:
                    do_beside(self._work)
                    self._is_working = True
                self._sample.put_nowait((name, problem, decision))

    def _work(self) -> None:
        while True:
            name, problem, decision = self._sample.get()
            try:
                self._review(name, problem, decision)
            except Exception:
                # For example a site's own objective that cannot be pickled: the next decision may have another
                # one.
                log.exception("there is no second opinion on decision %s", name)
            # With Pyomo and HiGHS it holds memory, and the next question is far away.
            self._guest.close()

    def _review(self, name: str, problem: Problem, decision: Decision) -> None:
        # Without what the problem has computed for itself, which would be sent with it.
        problem = replace(problem, nodes=tuple(problem.nodes))
        report = self._guest.ask(self._function, problem, decision, time_s=LEISURE_S)
        opinion = SecondOpinion(Agreement.OPEN, report.message)
        if report.ending is QuestionEnd.ANSWERED:
            opinion = report.answer
        self.counts[opinion.agreement] += 1
        if opinion.agreement is Agreement.DIFFERS:
            log.error("two solvers differ on decision %s: %s; %s", name, opinion.why, self._keep(name, problem))

    def _keep(self, name: str, problem: Problem) -> str:
        path = self._directory / f"{name.replace(':', '-')}.json"
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            if len(list(self._directory.iterdir())) >= MOST_CASES:
                return f"{self._directory} holds {MOST_CASES} such problems, so this one is not kept"
            path.write_text(json.dumps(problem_to_dict(problem)) + "\n")
        except OSError as error:
            return f"the problem could not be kept: {error}"
        return f"the problem is kept in {path}: report it to freetrain's developers"
