"""Checks for tests of your own: layouts, accesses and index functions, with the smallest counter-example.

properties     check_bijective, check_same_function, check_family, check_index_function
access_checks  check_conflict_free, check_coalesced
verdicts       Scope, verdict, all_pass: what makes a gate pass, and why nothing that was looked at does not
laws           LAWS, check_law: the laws of the algebra on random operands
strategies     hypothesis strategies: layouts, swizzles, accesses, index functions, problems of a family
minimal        shrinking a counter-example
indexcode      a table of an index function in C, CUDA or Python, run in a separate process, and of an index
               expression, which is read and not executed
triton_text    functions of Triton in a Python text that divide as Triton's do
cuda_shim      CUDA's types and intrinsics for the host compiler; the C++ and the processes that make a table
hostcc         the host compiler
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from layoutalg.errors import UnsupportedError
from layoutalg.testing.access_checks import check_coalesced, check_conflict_free
from layoutalg.testing.hostcc import compile_shared, find_compiler
from layoutalg.testing.indexcode import IndexCode
from layoutalg.testing.laws import LAWS, Law, Undefined, check_law
from layoutalg.testing.minimal import shrink
from layoutalg.testing.properties import (
    check_bijective,
    check_family,
    check_index_function,
    check_same_function,
)
from layoutalg.testing.triton_text import with_numbers
from layoutalg.testing.verdicts import Scope, Verdict, all_pass, listed, verdict, worst_of

if TYPE_CHECKING:
    from layoutalg.testing.strategies import (
        accesses,
        composed_layouts,
        index_functions,
        int_tuples,
        layouts,
        problems,
        shapes,
        swizzles,
    )

_STRATEGIES = (
    "accesses", "composed_layouts", "index_functions", "int_tuples", "layouts", "problems", "shapes",
    "swizzles",
)  # fmt: skip

__all__ = [
    "LAWS", "IndexCode", "Law", "Scope", "Undefined", "Verdict", "accesses", "all_pass", "check_bijective",
    "check_coalesced", "check_conflict_free", "check_family", "check_index_function", "check_law",
    "check_same_function", "compile_shared", "composed_layouts", "find_compiler", "index_functions",
    "int_tuples", "layouts", "listed", "problems", "shapes", "shrink", "swizzles", "verdict", "with_numbers",
    "worst_of",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _STRATEGIES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from layoutalg.testing import strategies
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            f"layoutalg.testing.{name} needs hypothesis: pip install 'layoutalg[testing]'"
        ) from error
    return getattr(strategies, name)
