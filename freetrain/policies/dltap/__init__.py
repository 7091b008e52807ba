"""DLTAP (ITM Web of Conferences 2017): tasks of a training near each other, by a score of nodes.

In come the nodes that are there and how many a trainer gets, out comes which; and, for the experiment, tasks with
their CPUs and memory, out come their hosts.

Files in reading order:

- ``placer.py``: the scores of Kubernetes 1.2 and DLTAP, the placement of tasks by them, and the placer of whole
  nodes.
- ``experiment.py``: how much traffic crosses nodes and leaves, with and without it.
"""
