"""Options of the commands that decide by a policy; the policies are imported by these commands alone."""

from __future__ import annotations

import click

from freetrain.cli.options import DurationType
from freetrain.policies import PLACERS, POLICIES, Solver

policy_option = click.option(
    "--policy",
    metavar="NAME",
    default=POLICIES[0],
    help=f"Who decides: {', '.join(POLICIES)}, or a package that you installed (docs/decides/policies.md).",
)
place_option = click.option(
    "--place",
    metavar="NAME",
    default=PLACERS[0],
    help=f"Which nodes they are: {', '.join(PLACERS)}, or one of a package that you installed.",
)
solver_option = click.option(
    "--solver",
    type=click.Choice([solver.value for solver in Solver]),
    default=Solver.AUTO.value,
    help="auto: an exact dynamic programme where all nodes are alike, column generation otherwise; highs: the "
    "whole model in HiGHS, from the plan of auto.",
)
time_limit_option = click.option(
    "--time-limit",
    "time_limit_s",
    type=DurationType(least_s=0.001),
    default="10s",
    help="Longest that HiGHS may take for one decision; its best answer until then is used. "
    "Where it does not stop by itself, it is ended half a second later.",
)
