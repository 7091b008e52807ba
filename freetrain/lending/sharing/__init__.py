"""Sharing: which user's trainers get which of the offered nodes. Pure.

Offered places and competing requests come in, a deal comes out: claimant → its places, and the places that
change hands. Shares between people are settled here, before any policy is asked; a policy divides what one
user was dealt.

- ``selection.py``: who competes; ``tasks.py``: how much of a node each task takes; ``claimants.py``,
  ``claims.py``: one user's trainers with equal needs, and how the site wants nodes shared; ``past_use.py``:
  what they had before.
- ``dealing.py``: the deal, with the promises that it keeps in its docstring; ``node_stock.py`` and
  ``part_stock.py``: the nodes and parts that it deals out of, with ``part_repacking.py``, ``part_moves.py``,
  ``part_nodes.py``, ``part_rooms.py``.
- ``keeping.py``, ``one_kind.py``, ``soon_over.py``: who keeps which, nodes of one kind, tasks nearly done.
- ``parts.py``: the deal as the loop sees it; ``kinds.py``, ``finishing.py``: kinds of nodes and spare room of
  shared ones.
"""
