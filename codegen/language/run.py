"""Runs of a finished program: simulated, compiled and launched, by names and Python numbers.

kernel = k.build()
simulate(kernel, {"m": 128, "alpha": 1.5, "src": x, "dst": y})       y is written
launch(kernel, {"m": 128, "alpha": 1.5, "src": x, "dst": y})         arrays on the GPU
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy

from layoutalg.codegen.gpu import Cubin, load, prepare
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel as Program
from layoutalg.codegen.sim import Simulation
from layoutalg.codegen.sim import simulate as run
from layoutalg.dtype import DTYPES
from layoutalg.errors import ArgumentTypeError

__all__ = ["Kernel", "Program", "compile", "launch", "simulate", "words"]

Kernel = KernelBuilder
"""The builder, as users of the language know it: what it builds is a Program."""


def words(kernel: Program, args: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with the numbers of typed parameters as the words that a launch passes.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> k = KernelBuilder("k", threads=32)
    >>> alpha = k.scalar("alpha", "f32")
    >>> hex(words(k.build(), {"alpha": 1.5})["alpha"])
    '0x3fc00000'
    """
    typed = {name: DTYPES[holds] for name, holds in kernel.scalars if holds in DTYPES}
    out = dict(args)
    for name in typed.keys() & args.keys():
        number = args[name]
        if isinstance(number, bool) or not isinstance(number, (int, float, numpy.number)):
            raise ArgumentTypeError(f"{name} of {kernel.name} is {number!r}; a number is needed")
        with numpy.errstate(over="ignore"):
            out[name] = int(numpy.array(number).astype(typed[name].numpy_name).view(numpy.uint32))
    return out


def simulate(kernel: Program, args: Mapping[str, Any], **options: Any) -> Simulation:
    """Simulate a program on the CPU, given an int per extent, a number per scalar, a NumPy array per tensor.

    Arrays of writable tensors are modified.  Every race, out-of-bounds address and read of an unwritten value
    is an error. Options and errors are those of layoutalg.codegen.sim.simulate.

    >>> from layoutalg.codegen.instr import STG, fill
    >>> from layoutalg.codegen.language import KernelBuilder
    >>> k = KernelBuilder("ones", threads=32)
    >>> y, v = k.tensor("y", "f32", (32,), (1,), writable=True), k.reg("v", 1)
    >>> k.do(fill(1), v, 0x3F800000)
    >>> k.do(STG[4], y.at(k.tid), v)
    >>> out = numpy.zeros(32, "f4")
    >>> run = simulate(k.build(), {"y": out})
    >>> out.sum()
    np.float32(32.0)
    """
    return run(kernel, words(kernel, args), **options)


def compile(kernel: Program, arch: str = "sm_90a") -> Cubin:
    """The machine code of a program, from the cache where it is there; no GPU is needed.

    Raises CompileError, and UnsupportedError where the architecture lacks an instruction.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> compile(KernelBuilder("empty", threads=32).build(), "sm_80").spill_bytes
    0
    """
    return prepare(kernel, arch).cubin


def launch(kernel: Program, args: Mapping[str, Any]) -> None:
    """Launch a program on the current stream of the GPU, on arrays that have __cuda_array_interface__.

    Raises UnsupportedError without a GPU, and for arguments what the program's contract does not allow.
    """
    load(kernel)(**words(kernel, args))
