"""The fit of a board's numbers to times of launches, by least squares.

    fitted(machine, clocks, us)      the numbers by which the clocks are nearest to the times
    least_squares(errors, x)         the x for which the sum of the squares of some errors is least

All numbers in NUMBERS are fitted at once, in their logarithms, which keeps them positive.  What counts is the
relative error of a time, up to about CLOSE: past it an error counts little more, so that launches of which
the model leaves something out do not move the numbers of the others.  A number that no time depends on stays.

Source: Marquardt, "An algorithm for least-squares estimation of nonlinear parameters" (1963).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from layoutalg.answers import fields_of
from layoutalg.kernels.model.boards import FORMAT, Machine

NUMBERS = (
    "launch_us", "halving_us", "next_launch_us", "dependent_us", "start_us", "bytes_per_us", "cycles_per_us",
    "load_us", "byte_us", "load_bytes",
)  # fmt: skip
"""The numbers of a board that are fitted; the others are the driver's."""

CLOSE = 0.2
"""The relative error past which one counts little more."""

STEPS, LEAST_GAIN, LONGEST, NUDGE = 200, 1e-7, 0.5, 1e-5
"""Steps of a fit at most, what one gains at least, the most that a number changes in one, and the change by
which slopes are taken."""

DAMPED, LEAST_DAMPED, MOST_DAMPED, TURN = 1e-3, 1e-9, 1e9, 4
"""Marquardt's damping: the first, the least, the most and the factor between two."""


def least_squares(errors: Callable[[Any], Any], x: Any, steps: int = STEPS) -> Any:
    """The numbers for which the sum of the squares of `errors` is least, from the first ones on, by so many
    steps at most.

    >>> import numpy as np
    >>> rate = np.array([3.0, 7.0])
    >>> found = least_squares(lambda x: np.array([[1.0, 1.0], [1.0, 2.0], [3.0, 1.0]]) @ (x - rate), rate * 0)
    >>> [round(float(x), 3) for x in found]
    [3.0, 7.0]
    """
    import numpy as np

    error, damped = errors(x), DAMPED
    for _ in range(steps):
        slopes = np.stack([(errors(x + NUDGE * unit) - error) / NUDGE for unit in np.eye(len(x))])
        square, toward = slopes @ slopes.T, slopes @ error
        gain = 0.0
        while damped < MOST_DAMPED:
            step = np.linalg.solve(square + damped * np.diag(np.diag(square) + LEAST_DAMPED), -toward)
            step = np.clip(step, -LONGEST, LONGEST)
            found = errors(x + step)
            gain = 1 - (found**2).sum() / (error**2).sum() if error.any() else 0.0
            if gain > 0:
                x, error, damped = x + step, found, max(damped / TURN, LEAST_DAMPED)
                break
            damped *= TURN
        if gain < LEAST_GAIN:
            break
    return x


def fitted(m: Machine, clocks: Sequence[Callable[[Machine], float]], us: Sequence[float]) -> Machine:
    """The board whose numbers fit some times best, from those of `m` on.

    >>> from layoutalg.kernels.model import Work, machine_of, time_us
    >>> m = machine_of("sm_90")
    >>> works = [Work(10.0**n, blocks=10**n / 1e4, block_us=1.0) for n in range(4, 10)]
    >>> clocks = [lambda m, w=w: time_us(w, m) for w in works]
    >>> other = replace(m, launch_us=4.0, bytes_per_us=1e6)
    >>> found = fitted(m, clocks, [clock(other) for clock in clocks])
    >>> round(found.launch_us, 2), round(found.bytes_per_us / 1e6, 2), found.load_us
    (4.0, 1.0, 0.65)
    """
    import numpy as np

    def board(x: Any) -> Machine:
        numbers: dict[str, Any] = dict(zip(NUMBERS, map(float, np.exp(x)), strict=True))
        return replace(m, **numbers)

    def errors(x: Any) -> Any:
        own = board(x)
        return np.tanh(np.log([clock(own) / t for clock, t in zip(clocks, us, strict=True)]) / CLOSE)

    return board(least_squares(errors, np.log([getattr(m, name) for name in NUMBERS])))


def machine_text(m: Machine) -> str:
    """The numbers of a board as JSON, four digits each of those that were fitted.

    >>> from layoutalg.kernels.model import machine_of
    >>> json.loads(machine_text(machine_of("sm_90")))["board"]
    'H200-SXM'
    """
    rounded = {name: float(f"{getattr(m, name):.4g}") for name in NUMBERS}
    return json.dumps({**FORMAT.head, **fields_of(m), **rounded}, indent=1) + "\n"
