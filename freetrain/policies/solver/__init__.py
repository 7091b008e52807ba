r"""Solvers of FreeTrain's programme: exact for one class of nodes, branch and price for several.

**The problem.** Trainer *j* gets :math:`n_{jc}` nodes of class *c*, of which there are :math:`C_c`. Nodes of a
class are interchangeable: the same hardware, the same time at which they leave. Classes are sorted by life, the
longest first, and :math:`N_{jc} = n_{j0} + \dots + n_{jc}` nodes of *j* live as long as class *c*. Wanted is

.. math:: \max \sum_j V_j(n_j) \quad\text{with}\quad \sum_j n_{jc} \le C_c \text{ for all } c,

where :math:`V_j` is worth over time less the costs of the change and of known ends (``freetrain.core.value``).

**Lagrangian bound.** With a *dual price* :math:`\lambda_c` of a node of each class the trainers do not compete:

.. math:: L(\lambda) = \sum_c \lambda_c C_c + \sum_j \max_n \bigl(V_j(n) - \lambda \cdot n\bigr)

is an upper bound on the value of every allocation. The *reduced cost* of a column, by how much
:math:`V_j(n) - \lambda \cdot n` lies below its trainer's best, says how much a plan loses by it.

**One class** (``knapsack.py``) is a multiple-choice knapsack. At the best price few sizes of few trainers have a
reduced cost below the gap between :math:`L` and a known plan; a dynamic programme over these is exact, in
milliseconds.

**Several classes** (``branch_and_price.py``):

1. *Column generation* (Dantzig and Wolfe 1960). A *column* is what a trainer gets, :math:`n_j`. The *master*
   combines the known columns as a linear programme, in HiGHS; its duals are the prices. The *pricing problem*
   finds each trainer's best column at these prices, by a dynamic programme over the classes; new columns go into
   the master until there are none. Its value then is the bound, nearly tight.
2. *Rounding*. The relaxation agrees for most trainers on what makes a decision hard: whether the trainer grows,
   and which ends it pays for. With that fixed the rest is a flow, whose vertices are integer.
3. *Reduced-cost enumeration*, where rounding is not good enough. A plan worth at least :math:`L - s` consists of
   columns with reduced costs of at most *s* in all. Where these are few, all such plans are searched.
4. *Branching* (Barnhart et al. 1998) on how many trainers grow, on ends and on sizes, with strong branching.

It stops within ``freetrain.core.decision.GOOD_ENOUGH`` of the bound. Identical trainers are one type throughout.

**The whole model** (``highs.py``) states the same in Pyomo, as docs/decides/mathematics.md does, for HiGHS as a
mixed-integer programme: the reference, and what ``--solver highs`` asks.

Files in reading order: ``knapsack.py``; ``trainer_types.py`` (the trainers as arrays, and what a branch allows
them), ``pricing_dp.py``, ``column_generation.py`` (pricing problem and master), ``rounding.py``,
``enumeration.py``, ``branch_and_price.py``; ``piecewise.py`` (values as linear pieces) and
``highs.py``; ``guests.py`` runs the solvers in processes of their own and checks their answers.
"""
