"""Configurations of norms and reductions, best first, and the times that models give them.

schedule      a configuration of a norm, and the rounds of its threads
norm_plan, norm_columns     the configurations of a norm: along rows, and of columns
norm_model    the times of rows and columns that blocks or clusters keep, and of streams
reduce_plan, reduce_model   the configurations of a reduction, in one pass or two, and their times
"""

from __future__ import annotations

from layoutalg.kernels.rowwise.ways.norm_model import (
    KEPT_SHARE,
    MOST_JOINING,
    neighbours,
    norm_us,
    read_again,
)
from layoutalg.kernels.rowwise.ways.norm_plan import cannot_hold, form_of, norm_candidates, norm_configs
from layoutalg.kernels.rowwise.ways.reduce_model import plan_us
from layoutalg.kernels.rowwise.ways.reduce_plan import (
    Pass,
    ReduceConfig,
    ReducePlan,
    plan_with,
    plans,
    refusals,
)
from layoutalg.kernels.rowwise.ways.schedule import (
    Hold,
    NormConfig,
    Ring,
    Schedule,
    Ways,
    can_cluster,
    checked_walk,
    stream_with,
    walk_of,
)
