"""Layouts of arrays as NumPy and PyTorch say them: shape and byte strides, size and element strides.

The idea.  `shape=(8, 64), strides=(128, 2), itemsize=2` and `size=(8, 64), stride=(64, 1)` are lists of named
fields; so are `__array_interface__`, `np.ndarray(...)`, `as_strided(...)` and `torch.empty_strided(...)`.  An
array of one dimension, (64,), is the layout 64:1.

>>> print(read_array("shape=(8, 64), strides=(128, 2), itemsize=2", Options()))
(8,64):(64,1)
>>> print(write_torch(Layout((8, 64), (64, 1)), Options()))
size=(8, 64), stride=(64, 1)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn

from layoutalg.dtype import dtype
from layoutalg.errors import LayoutAlgError, UnsupportedError
from layoutalg.f2 import LinearLayout
from layoutalg.layout import ComposedLayout, Layout, Swizzle, flatten_tree, is_symbolic
from layoutalg.notation.form import Group, Options, Term, Value, first, read_arguments, refuse
from layoutalg.notation.forms.constructors import begin, compact

FAMILY = "an array's shape and strides"

NUMPY_BEGINS = re.compile(
    r"(?:(?:np|numpy)\.|\{\s*['\"](?:shape|strides|typestr|data|descr|version)['\"]"
    r"|(?:shape|strides|itemsize)\s*[=:])"
)
TORCH_BEGINS = re.compile(
    r"(?:torch\.|(?:size|stride)\s*[=:]|[A-Za-z_]\w*\.(?:as_strided|new_empty_strided)\s*\()"
)

_FIELD = re.compile(r"(?:size|stride|shape|strides|itemsize)\s*[=:]")

_CALLS: Mapping[str, tuple[str, ...]] = {
    "empty_strided": ("size", "stride"),
    "new_empty_strided": ("size", "stride"),
    "ndarray": ("shape", "dtype", "buffer", "offset", "strides", "order"),
}
"""Functions by the fields that their arguments without a key are; as_strided is apart."""

_ALIASES = {"storage_offset": "offset", "shape": "shape", "size": "shape"}


def read_array(text: str, options: Options) -> Value:
    """The layout of an array.  Raises ParseError with line and column, ArgumentTypeError where byte strides
    lack the size of an element."""
    start = first(text)
    group = read_arguments(text, FAMILY, start if _FIELD.match(text, start) else begin(text, start))
    fields = _fields(text, group)

    def fail(why: object) -> NoReturn:
        refuse(text, FAMILY, why, group.terms[0].start)

    if "shape" not in fields:
        fail("expected a shape or a size")
    shape = _integers(text, fields["shape"])
    if fields.get("offset") is not None and fields["offset"].head != 0:
        fail("an array that begins at an offset: a layout counts from its first element")
    strides = fields.get("strides")
    if strides is not None and strides.head != "None":
        item = _item_bytes(fields, options)
        stride = tuple([_elements(fail, step, item) for step in _integers(text, strides)])
    elif "stride" in fields:
        stride = _integers(text, fields["stride"])
    else:
        left = "order" in fields and fields["order"].head == "F"
        stride = flatten_tree(compact(shape, "left" if left else "right"))
    if len(stride) != len(shape):
        fail(f"{len(shape)} extents and {len(stride)} strides")
    try:
        return Layout(shape[0], stride[0]) if len(shape) == 1 else Layout(shape, stride)
    except LayoutAlgError as error:
        fail(error.message)


def _fields(text: str, group: Group) -> dict[str, Term]:
    """The fields of a list, a call or a mapping, by name."""
    if group.keys == (None,) and not group.terms[0].quoted:
        term = group.terms[0]
        if term.head is None and term.groups[0].mark == "{":
            group = term.groups[0]
        elif isinstance(term.head, str) and len(term.groups) == 1:
            name = term.head.split(".")[-1]
            group = term.groups[0]
            if name == "Size":
                return {"shape": group.terms[0]} if len(group.terms) == 1 else {}
            places = _CALLS.get(name, ())
            if name == "as_strided":  # of NumPy, of torch, of a tensor
                places = ("size", "stride", "storage_offset")
                if term.head.startswith("torch"):
                    places = ("x", *places)
                elif term.head.split(".")[0] in ("np", "numpy", "as_strided"):
                    places = ("x", "shape", "strides")
            elif not places:
                refuse(
                    text, FAMILY, f"{term.head} is no function of shape and strides that is known", term.start
                )
            keys = [key or (places[i] if i < len(places) else str(i)) for i, key in enumerate(group.keys)]
            return {_ALIASES.get(key, key): part for key, part in zip(keys, group.terms, strict=True)}
    return {
        _ALIASES.get(key or "", key or str(i)): part
        for i, (key, part) in enumerate(zip(group.keys, group.terms, strict=True))
    }


def _integers(text: str, term: Term) -> tuple[int, ...]:
    """A tuple or a list of integers, or one integer; torch.Size([...]) too."""
    if isinstance(term.head, int):
        return (term.head,)
    group = term.groups[0] if len(term.groups) == 1 else None
    of_torch = isinstance(term.head, str) and term.head.split(".")[-1] == "Size"
    if group is not None and of_torch and len(group.terms) == 1:
        return _integers(text, group.terms[0])
    if group is None or term.head is not None or any(not isinstance(part.head, int) for part in group.terms):
        refuse(text, FAMILY, "expected a tuple of integers", term.start)
    return tuple([part.head for part in group.terms if isinstance(part.head, int)])


def _item_bytes(fields: Mapping[str, Term], options: Options) -> int:
    """Bytes of an element: itemsize, dtype or typestr of the text, else the option."""
    if "itemsize" in fields and isinstance(fields["itemsize"].head, int):
        return fields["itemsize"].head
    if "typestr" in fields and isinstance(fields["typestr"].head, str):
        match = re.fullmatch(r"[<>|=]?[a-zA-Z]([0-9]{1,3})", fields["typestr"].head)
        if match:
            return int(match[1])
    if "dtype" in fields and isinstance(fields["dtype"].head, str):
        return dtype(fields["dtype"].head.split(".")[-1]).nbytes
    return options.need_element("numpy", "strides count bytes").nbytes


def _elements(fail: Any, stride: int, item: int) -> int:
    if item < 1 or stride % item:
        fail(f"a stride of {stride} bytes is no multiple of an element of {item} bytes")
    return stride // item


# --- written ---------------------------------------------------------------------------------------------


def write_numpy(value: Value, options: Options) -> str:
    """shape, byte strides and itemsize.  Raises UnsupportedError with what an array cannot say."""
    shape, stride = _flat(value, "numpy")
    element = options.need_element("numpy", "strides count bytes")
    if not element.nbytes:
        raise UnsupportedError(f"numpy has no element of {element.bits} bits, as {element} is")
    steps = tuple([step * element.nbytes for step in stride])
    return f"shape={shape}, strides={steps}, itemsize={element.nbytes}"


def write_torch(value: Value, options: Options) -> str:
    """size and stride in elements.  Raises UnsupportedError with what a tensor cannot say."""
    shape, stride = _flat(value, "torch")
    if any(step < 0 for step in stride):
        raise UnsupportedError(f"torch has no negative strides, and {value} has")
    return f"size={shape}, stride={stride}"


def _flat(value: Value, what: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Extents and strides of a layout of integers without nested modes."""
    if isinstance(value, Swizzle):
        raise UnsupportedError(f"{what} has shapes and strides, and {value} alone is a swizzle")
    if isinstance(value, LinearLayout):
        raise UnsupportedError(
            f"{what} has one offset per element, and this map is of {', '.join(value.in_bits)}"
        )
    if isinstance(value, ComposedLayout):
        outer = "an outer layout" if isinstance(value.outer, Layout) else str(value.swizzles)
        raise UnsupportedError(f"{what} has strides alone, which cannot say {outer} of {value}")
    shape, stride = flatten_tree(value.shape), flatten_tree(value.stride)
    if isinstance(value.shape, tuple):
        if len(value.shape) == 1:
            raise UnsupportedError(f"{what} cannot tell {value} from {shape[0]}:{stride[0]}; give the latter")
        if any(isinstance(part, tuple) for part in value.shape):
            raise UnsupportedError(
                f"{what} has no nested modes: flatten {value}, or give one mode a dimension"
            )
    leaves = (*shape, *stride)
    if any(type(leaf) is not int for leaf in leaves):
        kind = "symbols" if any(map(is_symbolic, leaves)) else "strides along modes of a coordinate"
        raise UnsupportedError(f"{what} has integers alone, and {value} has {kind}")
    return shape, stride
