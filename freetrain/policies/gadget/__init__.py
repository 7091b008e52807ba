"""GADGET (INFOCOM 2022): rings of workers by the concave utility of what trainings have done so far.

In come a problem, the trainings' progress, and, where a site knows them, the links of its switches. Out come sizes
(policy), nodes on few leaves (placer), and bandwidth that is reserved for rings in freetrain's own books.

Files in reading order:

- ``links.py``: what links carry, and the books of free places and bandwidth.
- ``policy.py``: the utilities, the policy for idle nodes, the ring placer, and both with bandwidth reserved.
"""
