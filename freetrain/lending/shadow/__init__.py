"""The shadow schedule: Slurm's plan of the site's waiting jobs if no fragment existed. Pure.

``starts.py`` goes through the queue, and keeps what was found for each job until something changes it.
``machine.py`` knows where a job could run and what running jobs leave of each node, and ``schedule.py`` finds
when, beside the jobs that are planned already, by the ends of running ones. ``node_sets.py`` has sets of nodes as
bits of an integer. If jobs share nodes, ``free_capacity.py`` says which lent parts are given back for a job that
starts now.
"""

from freetrain.lending.shadow.free_capacity import LentPart
from freetrain.lending.shadow.schedule import BackfillRules
from freetrain.lending.shadow.starts import (
    NO_SHADOW,
    PlannedStart,
    PlansCompared,
    Shadow,
    compare_plans,
    find_shadow,
)

__all__ = [
    "NO_SHADOW",
    "BackfillRules",
    "LentPart",
    "PlannedStart",
    "PlansCompared",
    "Shadow",
    "compare_plans",
    "find_shadow",
]
