"""The shadow schedule: what Slurm would do with the site's waiting jobs if no fragment existed. Pure.

``starts.py`` goes through the queue, ``machine.py`` knows where a job could run, and ``schedule.py`` finds out
when: ``running.py`` says when running jobs are over, ``reserved.py`` which nodes somebody has been planned on, and
``node_sets.py`` counts with sets of nodes.
"""

from freetrain.lending.shadow.schedule import BackfillRules
from freetrain.lending.shadow.starts import PlannedStart, PlansCompared, Shadow, compare_plans, find_shadow

__all__ = ["BackfillRules", "PlannedStart", "PlansCompared", "Shadow", "compare_plans", "find_shadow"]
