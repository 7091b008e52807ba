"""Solvers that policies share: an exact knapsack for one class of nodes, HiGHS for the general problem."""
