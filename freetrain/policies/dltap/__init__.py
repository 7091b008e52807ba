"""DLTAP (ITM Web of Conferences 2017): tasks of a training near each other, by a score of nodes.

In come the nodes that are there and how many a trainer gets, out comes which; and, for the experiment, tasks with
their CPUs and memory, out come their hosts.

Files in reading order:

- ``tasks.py``: the scores of Kubernetes 1.2 and DLTAP, and the placement of tasks by them.
- ``placer.py``: the score as a placer for whole nodes, of leaves instead of nodes.
- ``experiment.py``: how much traffic crosses nodes and leaves, with and without it.
"""
