"""The shadow schedule: what Slurm would do with the site's waiting jobs if no fragment existed. Pure.

``starts.py`` goes through the queue, ``machine.py`` knows where a job could run and when running jobs end,
``schedule.py`` keeps what has been planned so far, and ``node_sets.py`` counts with sets of nodes.
"""

from freetrain.lending.shadow.schedule import BackfillRules
from freetrain.lending.shadow.starts import PlannedStart, PlansCompared, Shadow, compare_plans, find_shadow

__all__ = ["BackfillRules", "PlannedStart", "PlansCompared", "Shadow", "compare_plans", "find_shadow"]
