"""Commands about a kernel: its text, its proof, its machine code, and what it holds of the machine.

options     which kernel is meant
generate    the CUDA text of a kernel
verify      run a kernel and compare it with its definition
sass        what the machine code of a kernel is made of
occupancy   how many blocks a multiprocessor holds at once
pipeline    what stages and registers of a main loop hold, step by step
registers   reductions over tiles in registers, and their conversions
l2_order    l2: panels from DRAM by the order of blocks
"""

from __future__ import annotations

from layoutalg.cli.commands.kernels.generate import generate_command
from layoutalg.cli.commands.kernels.l2_order import l2_command
from layoutalg.cli.commands.kernels.occupancy import occupancy_command
from layoutalg.cli.commands.kernels.pipeline import pipeline_command
from layoutalg.cli.commands.kernels.registers import registers_command
from layoutalg.cli.commands.kernels.sass import sass_command
from layoutalg.cli.commands.kernels.verify import verify_command

__all__ = [
    "generate_command",
    "l2_command",
    "occupancy_command",
    "pipeline_command",
    "registers_command",
    "sass_command",
    "verify_command",
]
