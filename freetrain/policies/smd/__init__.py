"""SMD (INFOCOM 2021): each training at its fastest size or not at all, by what completions are worth.

In come a problem, the trainings' progress and the measured steps of those with parameter servers. Out come sizes
(policy) and, whichever policy chose the sizes, how many parameter servers a training has and on which nodes.

Files in reading order:

- ``policy.py``: the inner problem: a model of a step's time, its fit, the fastest workers and servers, the number
  of servers beside a trainer's nodes, and where they run; and the policy for idle nodes.
- ``experiment.py``: the outer problem, which trainings run, a knapsack over resources, by HiGHS; and what it gains
  over other ways to choose sizes on made-up trainings.
"""
