"""Which operands an operation takes: its signature, read as a check.

The idea.  The operations of the algebra say in their annotations what they take.  Here each word of these
annotations is a predicate, so that a wrong operand is refused by name before anything is computed.

>>> from layoutalg.measure import size
>>> check_operands("size(8)", size, (8,), {})
Traceback (most recent call last):
...
layoutalg.errors.ArgumentTypeError: size(8): layout is 8, and what is accepted is AnyLayout
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from layoutalg.composed import is_chain
from layoutalg.derivation import notation
from layoutalg.errors import ArgumentTypeError, UnsupportedError
from layoutalg.layout import Layout
from layoutalg.scaled_basis import ArithTuple, ScaledBasis
from layoutalg.swizzle import ComposedLayout, Swizzle, Swizzles, check_integers
from layoutalg.symbols import is_symbolic

Predicate = Callable[[object], bool]


def is_integer(value: object) -> bool:
    """True for an int and for NumPy's integers, False for a bool.

    >>> is_integer(3), is_integer(True)
    (True, False)
    """
    return hasattr(value, "__index__") and type(value).__name__ != "bool" and not hasattr(value, "__len__")


def _tree_of(leaf: Predicate) -> Predicate:
    def check(value: object) -> bool:
        return all(map(check, value)) if isinstance(value, tuple) else leaf(value)

    return check


def _one_of(*kinds: type) -> Predicate:
    return lambda value: isinstance(value, kinds)


def _row_of(leaf: Predicate) -> Predicate:
    return lambda value: isinstance(value, tuple) and all(map(leaf, value))


_any_layout = _one_of(Layout, ComposedLayout)
_tiler = _tree_of(lambda value: value is None or is_integer(value) or _any_layout(value))
_coordinate = _tree_of(lambda value: value is None or is_integer(value))

KINDS: Mapping[str, Predicate] = MappingProxyType(
    {
        "Any": _coordinate,
        "AnyLayout": _any_layout,
        "Chain": _row_of(_one_of(Swizzle)),
        "Coordinate": _coordinate,
        "IntTuple": _tree_of(is_integer),
        "Layout": _one_of(Layout),
        "None": lambda value: value is None,
        "Swizzle": _one_of(Swizzle),
        "Swizzles": _one_of(Swizzles),
        "Tiler": _tiler,
        "bool": _one_of(bool),
        "int": is_integer,
        "tuple[Swizzle, ...]": _row_of(_one_of(Swizzle)),
        "tuple[int | None, ...]": _row_of(lambda value: value is None or is_integer(value)),
        "tuple[int, ...]": _row_of(is_integer),
    }
)
"""The words of the annotations, as predicates."""


def words(annotation: str) -> list[str]:
    """The alternatives of an annotation.

    >>> words("tuple[int | None, ...] | None")
    ['tuple[int | None, ...]', 'None']
    """
    return re.findall(r"\w+(?:\[[^\]]*\])?", annotation)


def check_operands(
    call: str, operation: Callable[..., Any], operands: tuple[Any, ...], params: Mapping[str, Any]
) -> None:
    """Refuse operands that `operation` does not take, with an ArgumentTypeError that quotes `call`; and
    symbols and strides along modes, with an UnsupportedError.

    >>> from layoutalg.measure import size
    >>> check_operands("size(8:1)", size, (Layout(8),), {})
    """
    signature = inspect.signature(operation)
    try:
        bound = signature.bind(*operands, **params)
    except TypeError as error:
        takes = ", ".join(signature.parameters)
        raise ArgumentTypeError(f"{call}: {error}; accepted are {takes}") from None
    for name, given in bound.arguments.items():
        parameter = signature.parameters[name]
        many = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        for value in given if many else (given,):
            _check_leaves(value)
            if not any(KINDS[word](value) for word in words(parameter.annotation)):
                raise ArgumentTypeError(
                    f"{call}: {name} is {notation(value)}, and what is accepted is {parameter.annotation}"
                )


def _check_leaves(value: object) -> None:
    """Derivations are written for integers: refuse symbols and strides along modes."""
    if is_symbolic(value):
        raise UnsupportedError(f"explain of {value}: it is a symbol; integers are accepted")
    if isinstance(value, (ScaledBasis, ArithTuple)):
        raise UnsupportedError(f"explain of {value}: it moves along modes; integers are accepted")
    if isinstance(value, tuple):
        for part in value:
            _check_leaves(part)
    elif isinstance(value, (Layout, ComposedLayout)):
        check_integers("explain", value)


def check_argument(
    call: str,
    function: Layout | ComposedLayout | Swizzle | Swizzles | tuple[Swizzle, ...],
    crd: tuple[Any, ...],
) -> None:
    """Refuse what a layout or a swizzle cannot be evaluated at, with an ArgumentTypeError; and symbols and
    strides along modes, with an UnsupportedError.

    >>> check_argument("4:1 at 3", Layout(4), (3,))
    """
    _check_leaves((function, *crd))
    if is_chain(function):
        if len(crd) != 1 or not is_integer(crd[0]) or crd[0] < 0:
            raise ArgumentTypeError(f"{call}: a swizzle takes one integer, 0 or greater")
    elif not crd or not all(map(KINDS["IntTuple"], crd)):
        raise ArgumentTypeError(f"{call}: a layout takes a coordinate of integers")
