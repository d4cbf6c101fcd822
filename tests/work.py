"""Counted work in place of seconds: what a call executes, the same on every machine however busy it is.

    value, steps = counted(lambda: parse(text))

A step is a line of Python that is executed, a jump back of a loop, or a call.  What one call into C does is a
single step, so this counts loops of the library, not of NumPy or of regular expressions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class Overrun(BaseException):
    """More steps were taken than allowed; nothing that catches exceptions of the library catches it."""


def counted(call: Callable[[], T], most: int = sys.maxsize) -> tuple[T, int]:
    """What a call returns and the steps it took; raises Overrun, which says where, past `most`."""
    steps = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps > most:
            raise Overrun(f"{frame.f_code.co_qualname} at line {frame.f_lineno}")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        value = call()
    finally:
        sys.settrace(before)
    return value, steps


def entered(call: Callable[[], object], folder: str) -> set[CodeType]:
    """Functions of files in a folder that a call enters; comprehensions and lambdas are part of theirs."""
    seen: set[CodeType] = set()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(folder) and code.co_name[0] != "<":
            seen.add(code)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(before)
    return seen
