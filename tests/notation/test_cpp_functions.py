"""CuTe's functions in C++ texts: drawn trees of calls, printed and read, beside the library's functions."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import layoutalg as la
from layoutalg.errors import LayoutAlgError, ParseError
from layoutalg.layout import Layout, flatten_tree
from layoutalg.notation import parse
from layoutalg.notation.forms.constructors import CONSTRUCTORS
from layoutalg.notation.forms.functions import FUNCTIONS, OF_TENSORS
from tests.judges.exports import PUBLIC
from tests.notation.texts import rows
from tests.sweeps import each

DOCUMENT = Path(__file__).parents[2] / "docs" / "algebra.md"

Drawn = tuple[str, Callable[[], Any]]


def _static(tree: Any, rng: random.Random) -> str:
    """A tree of integers as a type, with or without a namespace."""
    space = rng.choice(("", "cute::"))
    if isinstance(tree, tuple):
        return f"{space}Shape<{', '.join(_static(part, rng) for part in tree)}>"
    return rng.choice((f"_{tree}", f"{space}Int<{tree}>", f"{space}C<{tree}>"))


def _value(tree: Any, rng: random.Random) -> str:
    """The same as a value."""
    if isinstance(tree, tuple) and rng.random() < 0.5:
        return f"make_shape({', '.join(_value(part, rng) for part in tree)})"
    return _static(tree, rng) + "{}" if rng.random() < 0.8 or isinstance(tree, tuple) else str(tree)


def _leaf(rng: random.Random) -> Drawn:
    """A layout without gaps, in any order, or with a stride of its own."""
    extents = tuple(rng.choice((1, 2, 3, 4, 8)) for _ in range(rng.randint(1, 3)))
    order = rng.sample(range(len(extents)), len(extents))
    made = la.make_ordered_layout(extents, tuple(order))
    strides = flatten_tree(made.stride)
    if rng.random() < 0.3 and extents[0] > 1:
        strides = (strides[0] * 3, *strides[1:])
        made = Layout(extents, strides)
    kind = rng.randint(0, 2)
    if kind == 0:
        stride = _static(made.stride, rng).replace("Shape", "Stride")
        return f"Layout<{_static(made.shape, rng)}, {stride}>{{}}", lambda: made
    if kind == 1:
        stride = f"make_stride({', '.join(_value(d, rng) for d in strides)})"
        return f"cute::make_layout({_value(made.shape, rng)}, {stride})", lambda: made
    text = f"make_ordered_layout({_value(extents, rng)}, Step<{', '.join(f'_{n}' for n in order)}>{{}})"
    return text, lambda: la.make_ordered_layout(extents, tuple(order))


def _tiler(rng: random.Random) -> tuple[str, Any]:
    if rng.random() < 0.6:
        extent, stride = rng.choice((2, 4)), rng.choice((1, 2))
        return f"Layout<_{extent},_{stride}>{{}}", Layout(extent, stride)
    parts = [rng.choice((1, 2, 4)) for _ in range(rng.randint(1, 2))]
    return f"make_tile({', '.join(f'Int<{n}>{{}}' for n in parts)})", tuple(parts)


TYPES = {"half_t": 16, "float": 32, "uint128_t": 128, "cute::uint64_t": 64, "int8_t": 8, "uint_bit_t<32>": 32}


def draw(rng: random.Random, depth: int) -> Drawn:
    """A text of a call, perhaps of calls, and the value by the library's functions."""
    if depth == 0 or rng.random() < 0.15:
        return _leaf(rng)
    name = rng.choice(list(FUNCTIONS))
    text, inner = draw(rng, depth - 1)
    numbers = [rng.randint(0, 2) for _ in range(rng.randint(1, 2))]
    begin = rng.randint(0, 1)
    match name:
        case "composition" | "max_common_layout":
            other, value = draw(rng, depth - 1)
            return f"{name}({text}, {other})", lambda: getattr(PUBLIC, name)(inner(), value())
        case "blocked_product" | "raked_product":
            other, value = _leaf(rng)
            return f"cute::{name}({text}, {other})", lambda: getattr(PUBLIC, name)(inner(), value())
        case _ if name.endswith(("_divide", "_product")):
            other, tiler = _tiler(rng)
            return f"{name}({text}, {other})", lambda: getattr(PUBLIC, name)(inner(), tiler)
        case "complement":
            target = rng.choice((64, 512))
            return f"complement({text}, Int<{target}>{{}})", lambda: la.complement(inner(), target)
        case "select":
            return f"select<{', '.join(map(str, numbers))}>({text})", lambda: la.select(inner(), *numbers)
        case "take":
            return f"take<0,{numbers[0]}>({text})", lambda: la.select(inner(), *range(numbers[0]))
        case "group" | "group_modes":
            return f"{name}<{begin},{begin + 2}>({text})", lambda: la.group(inner(), begin, begin + 2)
        case "upcast" | "downcast":
            return f"{name}<2>({text})", lambda: getattr(PUBLIC, name)(inner(), 2)
        case "recast_layout":
            old, new = rng.choice(list(TYPES)), rng.choice(list(TYPES))
            return f"{name}<{old}, {new}>({text})", lambda: la.recast_layout(inner(), TYPES[old], TYPES[new])
        case "append" | "prepend":
            if rng.random() < 0.5:
                return f"{name}<4>({text})", lambda: getattr(PUBLIC, name)(inner(), rank=4)
            return f"{name}({text}, Layout<_2,_64>{{}})", lambda: getattr(PUBLIC, name)(
                inner(), Layout(2, 64)
            )
        case "replace":
            return f"replace<0>({text}, Layout<_2>{{}})", lambda: la.layout.replace(inner(), 0, Layout(2))
        case "tile_to_shape":
            shape = (16, 48)
            order, steps = rng.choice(((None, ""), ((0, 1), ", Step<_0,_1>{}"), ((1, 0), ", LayoutRight{}")))
            made = f"tile_to_shape({text}, {_value(shape, rng)}{steps})"
            return made, lambda: la.tile_to_shape(inner(), shape, *([order] if order else []))
        case "make_ordered_layout" | "make_identity_layout":
            return _leaf(rng)
        case "size" | "cosize" | "rank" | "depth" | "max_common_vector":
            if name == "max_common_vector":
                text, value = f"{name}({text}, {text})", lambda: la.max_common_vector(inner(), inner())
            else:
                text, value = f"{name}({text})", lambda: getattr(PUBLIC, name)(inner())
            return f"make_layout({text})", lambda: Layout(value())
        case "shape" | "stride":
            return f"make_layout(shape({text}), stride({text}))", inner
        case "get" | "layout":
            return f"{name}<0>({text})", lambda: la.layout.modes(inner())[0]
        case _:
            return f"{name}({text})", lambda: getattr(PUBLIC, name)(inner())


def _wrapped(text: str, rng: random.Random) -> str:
    return rng.choice((text, f"decltype({text})", f"decltype({text}){{}}", f"auto layout = {text};",
                       f"using Atom = decltype({text});"))  # fmt: skip


@pytest.mark.parametrize("block", range(4))
def test_drawn_trees_of_calls_are_what_the_library_makes(block: int) -> None:
    """Where the library refuses the operands the text is refused; a value is the same value."""
    read = 0
    for seed in range(100 * block, 100 * block + 100):
        rng = random.Random(f"calls {seed}")
        text, value = draw(rng, rng.randint(1, 3))
        try:
            expected = value()
        except (LayoutAlgError, IndexError):
            with pytest.raises(LayoutAlgError):
                parse(text)
            continue
        if not isinstance(expected, (Layout, la.ComposedLayout)) or any(
            isinstance(leaf, la.layout.ScaledBasis) for leaf in flatten_tree(getattr(expected, "stride", ()))
        ):
            continue
        read += 1
        assert parse(_wrapped(text, rng)) == expected, text
    assert read > 40


def test_every_function_is_drawn() -> None:
    named = set()
    for seed in range(1500):
        rng = random.Random(f"calls {seed}")
        named |= set(re.findall(r"[a-z_]+(?=[<(])", draw(rng, rng.randint(1, 3))[0]))
    assert set(FUNCTIONS) - named <= {"make_identity_layout"}


def test_the_document_lists_the_functions_of_the_table() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    _, _, rest = text.partition("CuTe's functions in the source are evaluated")
    listed = re.findall(r"`([a-z_]+)`", rest.partition("```")[0])
    assert sorted(listed) == sorted(FUNCTIONS), "docs/algebra.md lists other functions than are read"


@each(("text", "value"), rows("functions of CuTe"))
def test_spellings_of_threads(text: str, value: str) -> None:
    assert str(parse(text)) == value


@each(("text", "said"), rows("functions that there are not"))
def test_an_unknown_function_is_refused_by_its_name(text: str, said: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert said in str(caught.value), str(caught.value)


def test_no_name_of_a_function_is_the_beginning_of_a_print() -> None:
    prints = (
        "Sw<3,3,3>", "Sw<3,3,3> o 0 o (8,64):(64,1)", "SW_3_3_3", "S<3,3,3> o 0 o (8,64):(64,1)",
        "ArithTuple(0,_0) o (8,64):(1@1,1@0)", "counting_iter(0) o 8:1", "raw_ptr(0x0) o 8:1",
    )  # fmt: skip
    for text in prints:
        parse(text)
    assert not {"Sw", "S", "ArithTuple"} & {*CONSTRUCTORS, *OF_TENSORS}
