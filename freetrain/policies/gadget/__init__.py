"""GADGET (INFOCOM 2022): rings of workers by the concave utility of what trainings have done so far.

In come a problem, the trainings' progress, and, where a site knows them, the links of its switches. Out come sizes
(policy), nodes on few leaves (placer), and bandwidth that is reserved for rings in freetrain's own books.

Files in reading order:

- ``policy.py``: the utilities, and the policy for idle nodes.
- ``links.py``: what links carry, and the books of free places and bandwidth.
- ``reserving.py``: the ring placer, and the policy with bandwidth reserved.
- ``slot.py``: the published algorithm, which fills one slot of time with rings.
- ``experiment.py``: what it gains over fixed and equal rings on made-up trainings.
"""
