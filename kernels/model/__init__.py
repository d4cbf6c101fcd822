"""The model of time: the work that a way of computing states, and the numbers of the board that it is on.

work       Work, and its time; bytes that are read and written
accesses   what is expected of a launch; the clock of the accesses of programs
fit        the numbers of a board that fit times
boards     Machine, the numbers of a board: from its file, or from its data sheet
"""

from __future__ import annotations

from layoutalg.kernels.model.accesses import Clock, Expected, accesses_clock
from layoutalg.kernels.model.boards import Machine, Sheet, chip_of, machine_of, read_machine, stated_machine
from layoutalg.kernels.model.fit import fitted, least_squares, machine_text
from layoutalg.kernels.model.work import ISSUED, Work, moved_bytes, p_norm, stream_us, time_us
