"""A Pyomo model as HiGHS takes it, handed over whole: one variable at a time takes longer than all the rest."""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np
import pyomo.environ as pyo
from pyomo.repn import generate_standard_repn


def lp_of(model: pyo.ConcreteModel) -> tuple[highspy.HighsLp, dict[int, int]]:
    """The model, whose objective is maximised, and the column of each variable by the variable's id()."""
    variables = list(model.component_data_objects(pyo.Var))
    column = {id(variable): place for place, variable in enumerate(variables)}
    lp = highspy.HighsLp()
    lp.num_col_ = len(variables)
    lp.col_lower_ = np.array([_or_inf(variable.lb, -1) for variable in variables])
    lp.col_upper_ = np.array([_or_inf(variable.ub, 1) for variable in variables])
    types = highspy.HighsVarType
    lp.integrality_ = [types.kContinuous if each.is_continuous() else types.kInteger for each in variables]
    _set_objective(lp, model, column)
    _set_rows(lp, model, column)
    return lp, column


def _set_objective(lp: highspy.HighsLp, model: Any, column: dict[int, int]) -> None:
    (objective,) = model.component_data_objects(pyo.Objective, active=True)
    linear = generate_standard_repn(objective.expr, quadratic=False)
    costs = np.zeros(len(column))
    for variable, coefficient in zip(linear.linear_vars, linear.linear_coefs, strict=True):
        costs[column[id(variable)]] = coefficient
    lp.sense_, lp.col_cost_, lp.offset_ = highspy.ObjSense.kMaximize, costs, float(linear.constant)


def _set_rows(lp: highspy.HighsLp, model: Any, column: dict[int, int]) -> None:
    lower, upper = list[float](), list[float]()
    starts, index, value = [0], list[int](), list[float]()
    for row in model.component_data_objects(pyo.Constraint, active=True):
        least, body, most = row.to_bounded_expression(evaluate_bounds=True)
        linear = generate_standard_repn(body, quadratic=False)
        lower.append(_or_inf(least, -1) - linear.constant)
        upper.append(_or_inf(most, 1) - linear.constant)
        index += [column[id(variable)] for variable in linear.linear_vars]
        value += linear.linear_coefs
        starts.append(len(index))
    lp.num_row_, lp.row_lower_, lp.row_upper_ = len(lower), np.array(lower), np.array(upper)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = np.array(starts), np.array(index)
    lp.a_matrix_.value_ = np.array(value, dtype=np.float64)


def _or_inf(bound: float | None, sign: int) -> float:
    return sign * highspy.kHighsInf if bound is None else float(bound)
