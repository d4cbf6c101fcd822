"""Value: what makes Layout, Swizzle, LinearLayout and the others values, written once.

A value is immutable, is compared and hashed by its parts, prints as a call of its constructor, and is copied,
pickled and matched by the arguments of that call.  A class names its parts in `__match_args__` and sets them
in `__init__` by `object.__setattr__`; it overrides what differs (a Tensor is equal to the same view alone).

Written out because importing `dataclasses` takes longer than importing all of this library's core.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar

from layoutalg.notebook import Shown


class Value(Shown):
    """Base of the immutable types of the core; `__match_args__` names the parts, in the constructor's order.

    >>> class Pair(Value):
    ...     __slots__ = __match_args__ = ("left", "right")
    ...     def __init__(self, left, right):
    ...         object.__setattr__(self, "left", left)
    ...         object.__setattr__(self, "right", right)
    >>> Pair(1, 2), Pair(1, 2) == Pair(1, 2), Pair(1, 2) == (1, 2)
    (Pair(1, 2), True, False)
    """

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()

    _key: ClassVar[attrgetter[Any]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._key = attrgetter(*cls.__match_args__)  # of one part that part, of more the tuple of them

    def _arguments(self) -> tuple[Any, ...]:
        """The arguments with which the constructor builds this value."""
        return tuple([getattr(self, name) for name in self.__match_args__])

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self._key(self) == self._key(other))

    def __hash__(self) -> int:
        return hash(self._key(self))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"a {type(self).__name__} is immutable; build a new one instead of setting {name!r}"
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable; {name!r} stays")

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (type(self), self._arguments())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._arguments()))})"
