"""Run the printed CUDA text on the CPU: `run_cuda_text` is the launch, `shim.h` the machine.

What is checked is the text itself: index code, predicates, barriers, the order of operands.  A wrong printer
is so caught where there is no GPU.  Every kernel is compiled once and may be run at many sizes.
"""

from __future__ import annotations

import ctypes
import functools
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from layoutalg.testing import compile_shared
from tests.hostshim.ptx import in_cpp

HERE = Path(__file__).parent
HELPERS = re.compile(r"^// -- device helpers\n(.*?)^// -- end of device helpers\n", re.M | re.S)
KEPT = re.compile(r'^ *asm\("" : [^;]*\);\n', re.M)
SPACE = re.compile(r"^namespace ([\w:]+) \{$", re.M)
NEXT_HELPER = re.compile(r"^(?=template\b)|^(?<!>\n)(?=__device__)", re.M)
SHARED = re.compile(
    r"(?P<extern>extern\s+)?__shared__\s+(?:(?:__align__|alignas)\(\d+\)\s+)?(?P<type>[\w ]+?)\s+"
    r"(?P<name>\w+)(?P<extents>(?:\[[\w +]*\])*);"
)
FLAGS = (
    f"-I{HERE}",
    "-Wno-attributes",
    "-fno-strict-aliasing",
    "-fsanitize=undefined",
    "-fno-sanitize=vptr",
    "-fsanitize-undefined-trap-on-error",
)


class KernelFault(Exception):
    """The kernel did something a GPU may punish; the message names the block and the thread."""


class _Argument(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_char), ("value", ctypes.c_longlong), ("bytes", ctypes.c_size_t))


def host_text(source: str, kernel_name: str) -> str:
    """The C++ program of a CUDA text: PTX helpers come from the shim, shared arrays are its memory.

    Statements that keep a value in a register of its own, for nvcc, are left out.
    """
    source = KEPT.sub("", HELPERS.sub(_own_helpers, source))
    source, static_bytes = _place_shared(source)
    space = f"    using namespace {found[1]};\n" if (found := SPACE.search(source)) else ""
    return (
        f'#include "shim_helpers.h"\n#line 1 "{kernel_name}.cu"\n{source}\n'
        'extern "C" const char* shim_launch(const unsigned* grid, const unsigned* block, '
        "const shim::Argument* args, unsigned count, unsigned bytes, int reverse) {\n"
        f"{space}    return shim::launch<" + kernel_name + ">({grid[0], grid[1], grid[2]}, "
        "{block[0], block[1], block[2]}, args, count, " + static_bytes + " + bytes, reverse);\n}\n"
    )


def _place_shared(source: str) -> tuple[str, str]:
    """Static shared variables become references into the shim's memory, the dynamic array follows them."""
    static = [m for m in SHARED.finditer(source) if not m["extern"]]
    ends = ["0"]
    for m in static:
        ends.append(f"(({ends[-1]} + 1023) / 1024 * 1024 + sizeof({m['type']}{m['extents']}))")
    starts = iter(ends[:-1])

    def place(m: re.Match[str]) -> str:
        if m["extern"]:
            at = f"shim::shared_base + ({ends[-1]} + 15) / 16 * 16"
            return f"{m['type']}* const {m['name']} = reinterpret_cast<{m['type']}*>({at});"
        at = f"shim::shared_base + ({next(starts)} + 1023) / 1024 * 1024"
        return f"auto& {m['name']} = *reinterpret_cast<{m['type']} (*){m['extents']}>({at});"

    return SHARED.sub(place, source), f"({ends[-1]} + 15) / 16 * 16" if static else "0"


def _own_helpers(block: re.Match[str]) -> str:
    """The helpers in plain C++ or of PTX that can be spelled in it, which are part of what is tested.

    Those of other inline PTX are the shim's.
    """
    return "".join(h for h in map(in_cpp, NEXT_HELPER.split(block[1])) if not re.search(r"\basm\b", h))


@functools.lru_cache(maxsize=64)
def _launcher(source: str, kernel_name: str) -> Any:
    launch = compile_shared(host_text(source, kernel_name), flags=FLAGS).shim_launch
    launch.restype = ctypes.c_char_p
    return launch


def run_cuda_text(
    source: str,
    kernel_name: str,
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[np.ndarray[Any, Any] | int | float],
    shared_bytes: int = 0,
    *,
    order: Literal["forward", "reverse"] = "forward",
) -> None:
    """Run a kernel to its end; arrays are written in place.

    `order` is the order in which threads of a block run between barriers: a kernel that lacks one gives
    another result in one of the two.  Raises KernelFault for a wild, misaligned or overflowing access, a
    deadlock, or arguments that are not the kernel's.
    """
    packed, held = (_Argument * len(args))(), []
    for slot, arg in zip(packed, args, strict=True):
        if isinstance(arg, np.ndarray):
            if not arg.flags.c_contiguous:
                raise ValueError("an array argument must be contiguous: the kernel sees its memory")
            slot.kind, slot.value, slot.bytes = b"p", arg.ctypes.data, arg.nbytes
        elif isinstance(arg, float):
            held.append(ctypes.c_double(arg))
            slot.kind = b"d"
            slot.value = ctypes.c_longlong.from_buffer(held[-1]).value
        else:
            slot.kind, slot.value = b"i", arg
    launch = _launcher(source, kernel_name)
    fault = launch(_dim3(grid), _dim3(block), packed, len(args), shared_bytes, order == "reverse")
    if fault is not None:
        raise KernelFault(f"{kernel_name}: {fault.decode()}")


def _dim3(extents: Sequence[int]) -> Any:
    if not 1 <= len(extents) <= 3 or math.prod(extents) < 1:
        raise ValueError(f"{extents} is not one to three positive extents")
    return (ctypes.c_uint * 3)(*extents, *[1] * (3 - len(extents)))
