"""Sharing: which user's trainers get which of the offered nodes. Pure.

Offered places and competing requests come in, a deal comes out: claimant → its places, and the places that
change hands. Shares between people are settled here, before any policy is asked; a policy divides what one
user was dealt.

- ``selection.py``: which trainers compete; ``tasks.py``: how much of a node each task takes.
- ``claims.py``: claimants, one user's trainers with equal needs, and which places they keep; ``claimants.py``:
  how requests become claimants; ``one_kind.py``, ``kinds.py``: kinds of nodes; ``past_use.py``: what users had.
- ``dealing.py``: the deal, with the promises that it keeps in its docstring; ``node_stock.py``: the whole nodes
  that it deals out of; ``part_stock.py``: the parts, with ``part_nodes.py`` (what lies on each node, and can be
  undone) and ``part_packing.py`` (how places lie beside each other).
- ``allotment.py``: the deal as the loop sees it, from demand to spare room of shared nodes.
"""
