"""freetrain from Python: what its commands do, as functions with types.

``freetrain.Client`` submits trainings and fillers, lists them, explains them and waits for them. The commands
call the same functions, so that there is one way of doing each thing; errors are those that the commands print.

- ``client.py``: the client.
- ``submitting.py``: tags and sbatch commands, checked.
- ``trainings.py``: the rows of ``freetrain jobs``.
- ``explaining.py``: the sentences of ``freetrain explain``, on nodes, trainings and decisions.
- ``daemons_ledger.py``: the daemon's database, for accounts that may read it.
"""

from freetrain.client.client import Client
from freetrain.client.submitting import TagValues
from freetrain.client.trainings import ListedTraining

__all__ = ["Client", "ListedTraining", "TagValues"]
