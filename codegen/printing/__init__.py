"""Text of kernels for people and compilers: what they print as, what a launch must give, who launches them.

cuda         to_cuda, print_kernels: the CUDA C++ of a kernel, or of several in one file
value_types  what registers, pointers and scalars are
names        what a text names, and what stands beside it
wrap         lines that are too long
record       LaunchRecord: kernels in order, their parameters, grids and buffers
"""

from __future__ import annotations

from layoutalg.codegen.printing.cuda import print_kernels, to_cuda
from layoutalg.codegen.printing.record import (
    Buffer,
    LaunchRecord,
    Step,
    buffer_lines,
    launch_fields,
    launch_record,
)

__all__ = [
    "Buffer",
    "LaunchRecord",
    "Step",
    "buffer_lines",
    "launch_fields",
    "launch_record",
    "print_kernels",
    "to_cuda",
]
