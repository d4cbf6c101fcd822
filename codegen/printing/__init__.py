"""Text of kernels for people and compilers: what they print as, what a launch must give, who launches them.

record      LaunchRecord: kernels in order, their parameters, grids and buffers
"""

from __future__ import annotations

from layoutalg.codegen.printing.cuda import to_cuda
from layoutalg.codegen.printing.record import (
    Buffer,
    LaunchRecord,
    Step,
    buffer_lines,
    launch_fields,
    launch_record,
)

__all__ = ["Buffer", "LaunchRecord", "Step", "buffer_lines", "launch_fields", "launch_record", "to_cuda"]
