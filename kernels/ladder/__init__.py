"""What the published steps of a kernel bring, one by one.

    gemm       the ladder of a matrix product
    counters   accesses as counters of the hardware show them

Each step is a configuration of the kernels that users run.
"""

from __future__ import annotations
