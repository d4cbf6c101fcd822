"""Kernels of dense tensors by the names the command line gives them: permutes, reductions and norms."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from layoutalg.errors import ParseError, ResourceError, UnsupportedError

if TYPE_CHECKING:
    from layoutalg.codegen.tile import Kernel
    from layoutalg.kernels.chains import Problem


MOST_DIGITS = 18
"""Of an extent."""


class Part(NamedTuple):
    """A kernel that is number `part`, counted from 1, of `parts` that compute `problem` in this order."""

    problem: str
    kernel: Kernel
    part: int
    parts: int


def is_tensor(family: str) -> bool:
    """True for what is asked of a dense tensor with some axes.

    >>> is_tensor("softmax"), is_tensor("transpose")
    (True, False)
    """
    from layoutalg.kernels.chains import OPERATIONS

    return family in OPERATIONS


def find_part(
    family: str, shape: str | None, axes: str | None, dtype: str | None, part: int, arch: str
) -> Part:  # fmt: skip
    """One kernel of the best plan for dense tensors.

    Raises ResourceError for a part that there is not, and as `find_tensor` does.

    >>> find_part("softmax", "64,1000", "1", "f16", 1, "sm_90").kernel.name
    'softmax_f16'
    """
    from layoutalg.kernels.chains import chain_of

    problem = find_tensor(family, shape, axes, dtype)
    kernels = chain_of(problem, arch).kernels
    if not 1 <= part <= len(kernels):
        raise ResourceError(f"part of {problem}", part, len(kernels))
    return Part(str(problem), kernels[part - 1], part, len(kernels))


def find_tensor(family: str, shape: str | None, axes: str | None, dtype: str | None) -> Problem:
    """The problem of a dense tensor whose shape and axes are texts; the last axis where none is named.

    Raises ParseError for texts that are no ints, UnsupportedError without a shape or, for a permute, without
    axes, and what the problem raises.

    >>> print(find_tensor("softmax", "64,1000", None, "f16"))
    softmax (64,1000) over (1) f16, src (1000,1) -> dst (1000,1)
    """
    from layoutalg.kernels.chains import find_problem

    if shape is None or (axes is None and family == "permute"):
        wanted = "--shape" if shape is None else "--axes"
        raise UnsupportedError(
            f"{family} needs {wanted}, such as {wanted} {'1,0' if wanted == '--axes' else '64,128'}"
        )
    extents = read_ints("shape", shape)
    over = (len(extents) - 1,) if axes is None else read_ints("axes", axes)
    return find_problem(family, extents, over, dtype or "f32")


def read_ints(name: str, text: str) -> tuple[int, ...]:
    """Ints between commas, in parentheses or not.  Raises ParseError.

    >>> read_ints("axes", "(0, -1)"), read_ints("shape", "64")
    ((0, -1), (64,))
    """
    words = text.removeprefix("(").removesuffix(")").split(",")
    found = []
    for word in words[: -1 if words[-1].strip() == "" else None]:
        digits = word.strip(" \t\r\n").removeprefix("-")
        if not digits.isdecimal() or not digits.isascii() or len(digits) > MOST_DIGITS:
            position = text.index(word)
            raise ParseError(
                f"cannot read the {name} {text[:80]!r}: expected an int at position {position}",
                text=text,
                position=position,
            )
        found.append(int(word))
    return tuple(found)
