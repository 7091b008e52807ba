"""Sharing: division of the offered nodes among the users' trainers. Pure.

Offered places and competing requests come in, a deal comes out: claimant → its places, and the places that
change hands. Shares between people are settled here, before any policy is asked; a policy divides what one
user was dealt.

- ``claims.py``: claimants, one user's trainers with equal needs, and which places they keep; ``claimants.py``:
  which trainers compete, how they become claimants, what each of their tasks takes, and what users had;
  ``kinds.py``: kinds of nodes.
- ``dealing.py``: the deal of whole nodes, with the promises that it keeps in its docstring; ``part_stock.py``: the
  parts that it deals, which can be undone, and ``bin_packing.py``: how they lie beside each other.
- ``allotment.py``: the deal as the loop sees it, from demand to spare room of shared nodes.
"""
