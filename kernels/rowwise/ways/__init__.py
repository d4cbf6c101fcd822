"""Configurations of norms and reductions, best first, and the times that models give them.

schedule      a configuration of a norm, and the rounds of its threads
norm_plan, norm_columns     the configurations of a norm: along rows, and of columns
norm_model    the times of rows and columns that blocks or clusters keep, and of streams
reduce_plan, reduce_model   the configurations of a reduction, in one pass or two, and their times
"""
