"""The program that is printed: checked and lowered for an architecture.

The idea.  A family writes a tile program; what the compiler sees is the text of another one, that `check` has
passed and `lower` has made.  Whoever states something of a kernel (the printer, the simulator behind `verify`
and behind arrays on the CPU) takes that one, and takes it from here.

    to_cuda(kernel, arch)       print_kernel(printed(kernel, arch))
    verify                      simulate(printed(kernel), ...)
"""

from __future__ import annotations

from layoutalg.arch import Arch
from layoutalg.codegen.program.checks import check
from layoutalg.codegen.program.lowering import lower
from layoutalg.codegen.program.tile import Kernel


def printed(kernel: Kernel, arch: str | Arch = "sm_90") -> Kernel:
    """The program whose text is printed for a kernel.  Raises what `check` raises.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> printed(KernelBuilder("empty", threads=32).build()).name
    'empty'
    """
    check(kernel, arch)
    return lower(kernel)
