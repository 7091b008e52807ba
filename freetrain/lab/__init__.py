"""A real Slurm on one machine, below one directory: for trying freetrain, developing it, and for its tests.

:class:`LabOptions` come in; :meth:`Lab.up` makes the directory, writes the configuration, starts munged,
slurmctld and a slurmd for each node (with accounting slurmdbd and MariaDB, too), and returns when all nodes are
idle. A lab can then lose nodes and its controller at will. Nothing outside its directory changes, and no pid
file is trusted: which processes are the lab's is read from the process table.

Files, in reading order:

- ``options.py``: what a lab is to be, and which accounts play parts in it.
- ``layout.py``: where its files lie, its directory made and emptied of an earlier lab, and the texts of its
  configuration files.
- ``programs.py``: programs that it needs and runs, and the processes that belong to it.
- ``lab.py``: :class:`Lab`, what commands and tests use, and its daemons, started and stopped.
"""

from freetrain.lab.lab import Lab, LabStatus
from freetrain.lab.options import LabOptions

__all__ = ["Lab", "LabOptions", "LabStatus"]
