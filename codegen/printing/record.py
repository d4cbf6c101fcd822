"""The truth of a launch: what a sequence of kernels must be given, as one record that every renderer reads.

    record = launch_record("softmax (64,1000) ...", sequence, {"src": Const(128000), "dst": Const(128000)})
    launch_answers(record)          what `generate --json` says
    buffer_lines(record)            the same for people

The idea.  A kernel's contract has its grid, its block and what its parameters may be.  What it cannot know is
added here: which buffer of the computation a pointer is, how many bytes that buffer has, which kernels come
before it.  Sizes are expressions of the parameters, as grids are.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import starmap
from types import MappingProxyType
from typing import Literal, TypeAlias

from layoutalg.answers import Count, Positive, taken
from layoutalg.arch import Enumerator, TensorMap, tensor_map_arguments
from layoutalg.codegen.expr import Expr
from layoutalg.codegen.printing.value_types import Types
from layoutalg.codegen.program import (
    SCRATCH,
    Contract,
    LaunchSequence,
    Parameter,
    TensorMapParam,
    contract,
    text,
)
from layoutalg.dtype import DType
from layoutalg.errors import ArgumentTypeError

UNIT_BYTES = 16
"""The widest access."""


@dataclass(frozen=True, slots=True)
class BufferView:
    """The array that lies in a buffer from its pointer on: `shape`, and `strides` in elements, as expressions
    of the parameters.

    >>> from layoutalg.codegen.expr import Const, Var
    >>> from layoutalg.dtype import dtype
    >>> m, ld = Var("m", 64, "param"), Var("ld", 80, "param")
    >>> print(BufferView(dtype("bf16"), (m, Const(48)), (ld, Const(1))))
    bf16, shape (m, 48), strides (ld, 1)
    """

    dtype: DType
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]

    def __str__(self) -> str:
        shape, strides = (", ".join(map(text, sizes)) for sizes in (self.shape, self.strides))
        return f"{self.dtype}, shape ({shape}), strides ({strides})"


@dataclass(frozen=True, slots=True)
class LaunchBuffer:
    """Memory that a computation is given: `bytes` from its pointer to the end of its last element, of
    `element_bytes` each; `least_bytes` are what the smallest launch needs; `written` and `read` by some
    kernel; `units`: loads may take the rest of the aligned 16 bytes that hold the last element; `view` is the
    array that lies in it, where that is stated."""

    name: str
    bytes: Expr
    least_bytes: int
    align_bytes: int
    written: bool
    element_bytes: int = 1
    units: bool = False
    view: BufferView | None = None
    read: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """A launch: its kernel's name, what it must be given, the buffer of each of its pointers, and the C
    types of its signature."""

    kernel: str
    terms: Contract
    buffers: Mapping[str, str]
    types: Mapping[str, str]

    @property
    def arguments(self) -> tuple[Parameter, ...]:
        """The parameters that are given, in the order of the signature."""
        return tuple(p for p in self.terms.parameters if not p.built_in)


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """Kernels in the order of their launches, the buffers that they share, and the numbers of the problem."""

    problem: str
    steps: tuple[Step, ...]
    buffers: tuple[LaunchBuffer, ...]
    usual: Mapping[str, int] = field(default_factory=dict)

    @property
    def alias(self) -> Literal["forbidden", "in_place"]:
        """Whether some buffer is source and destination; two buffers never overlap if one is written."""
        shared = [b for step in self.steps if step.terms.updated for b in step.buffers.values()]
        return "in_place" if any(name != SCRATCH for name in shared) else "forbidden"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The integers and scalars that a caller gives, each once, held to what all kernels ask of it."""
        merged: dict[str, Parameter] = {}
        for step in self.steps:
            for p in step.arguments:
                if p.kind != "pointer":
                    merged[p.name] = _both(merged[p.name], p) if p.name in merged else p
        return tuple(merged.values())

    @property
    def conditions(self) -> tuple[Expr, ...]:
        """The conditions that have to hold between integers, each once."""
        return tuple(dict.fromkeys(c for step in self.steps for c in step.terms.conditions))

    @property
    def given(self) -> tuple[LaunchBuffer, ...]:
        """The buffers that a caller gives: all but scratch memory."""
        return tuple(b for b in self.buffers if b.name != SCRATCH)


def launch_record(
    problem: str,
    sequence: LaunchSequence,
    sizes: Mapping[str, Expr],
    fixed: Mapping[str, int] | None = None,
    units: Collection[str] = (),
    views: Mapping[str, BufferView] = MappingProxyType({}),
) -> LaunchRecord:
    """The record of a sequence: `sizes` are bytes by buffer; `fixed` are integers that its plan has chosen;
    of the buffers `units` loads may take the rest of the aligned 16 bytes around their end; `views` are the
    arrays that lie in buffers, to which a launcher in Python holds what it is given.

    Raises ArgumentTypeError for a buffer without a size, and what `contract` raises.

    >>> from layoutalg.codegen.expr import Const
    >>> from layoutalg.codegen.language import KernelBuilder
    >>> from layoutalg.codegen.program import launch_sequence
    >>> k = KernelBuilder("copy", threads=32)
    >>> src, dst = k.pointer("src", 4), k.pointer("dst", 4, writable=True)
    >>> record = launch_record("a copy", launch_sequence([k.build()]), {"src": Const(128), "dst": Const(128)})
    >>> [b.name for b in record.buffers if b.written], record.alias
    (['dst'], 'forbidden')
    """
    steps, buffers = [], dict[str, LaunchBuffer]()
    for kernel, names in zip(sequence.kernels, sequence.buffers, strict=True):
        pointers = kernel.pointers
        terms = _with_fixed(contract(kernel), fixed or {})
        mine = {p.name: x for p, x in zip(pointers, names, strict=True)}
        steps.append(Step(kernel.name, terms, mine, Types(kernel).signature(kernel)))
        for p, name in zip(pointers, names, strict=True):
            if name not in sizes:
                raise ArgumentTypeError(f"{kernel.name} points to {name}, whose size nobody states")
            least = sizes[name].facts.lo
            was = buffers.get(name, LaunchBuffer(name, sizes[name], least, 1, False, read=False))
            align = max(was.align_bytes, p.align_bytes)
            written = was.written or p.writable
            buffers[name] = replace(
                was, align_bytes=align, written=written, element_bytes=p.element_bytes,
                units=name in units, view=views.get(name),
                read=was.read or not p.writable or p.name in terms.updated,
            )  # fmt: skip
    return LaunchRecord(problem, tuple(steps), tuple(buffers.values()), dict(sequence.scalars))


def _with_fixed(terms: Contract, fixed: Mapping[str, int]) -> Contract:
    """A contract in which the integers that are chosen already may be nothing else."""
    parameters = tuple(
        replace(p, least=fixed[p.name], most=fixed[p.name], multiple=1) if p.name in fixed else p
        for p in terms.parameters
    )
    return replace(terms, parameters=parameters)


def _both(first: Parameter, second: Parameter) -> Parameter:
    """The parameter that meets what two kernels ask of it."""
    if first.least is None or second.least is None or first.most is None or second.most is None:
        return first
    by = math.lcm(first.multiple or 1, second.multiple or 1)
    least, most = max(first.least, second.least), min(first.most, second.most)
    return replace(first, least=-(-least // by) * by, most=most // by * by, multiple=by)


Number: TypeAlias = Count | str
"""An integer where it is the same for every launch, else an expression of the parameters' names in exact
integers with + - * / % and parentheses, where / rounds down."""


@dataclass(frozen=True)
class AttributeAnswer:
    """An attribute of a launch, by its name in CUDA's runtime."""

    name: str
    value: Positive


@dataclass(frozen=True)
class BufferAnswer:
    """The memory that a kernel's pointer is the start of. The kernel touches nothing outside of it, but
    that a load may take the rest of the aligned 16 bytes around the last element. A buffer named scratch
    is memory for the sequence alone."""

    name: str
    bytes: Number
    """From the pointer to the end of the last element."""
    least_bytes: Count
    """Bytes that the smallest launch needs."""
    written: bool


@dataclass(frozen=True)
class MapAnswer:
    """The arguments of cuTensorMapEncodeTiled for one tensor map, by its names."""

    name: str
    buffer: str
    tensorDataType: str
    tensorRank: Positive
    globalDim: tuple[Number, ...]
    globalStrides: tuple[Number, ...]
    """In bytes, of all dimensions but the innermost."""
    boxDim: tuple[Positive, ...]
    elementStrides: tuple[Positive, ...]
    interleave: str
    swizzle: str
    l2Promotion: str
    oobFill: str


@dataclass(frozen=True)
class ParameterAnswer:
    """An argument of a launch, or a constant of the text in the place of one. For an int: least <=
    value <= most, a multiple of `multiple`. For a pointer: an address that is a multiple of align_bytes. What
    does not apply is null."""

    name: str
    kind: Literal["int", "pointer", "scalar"]
    """scalar: bits of a number, see holds."""
    type: str | None
    """Type in the signature: u32, u64, or a pointer to elements of as many bits; null if built in."""
    least: Count | None
    most: Count | None
    multiple: Positive | None
    align_bytes: Positive | None
    built_in: bool
    """A constant of the text, no argument: least = most."""
    holds: str | None
    """The meaning of a scalar."""
    buffer: str | None
    """The buffer that a pointer is the start of."""


@dataclass(frozen=True)
class LaunchAnswer:
    """The terms of a launch of the kernel. The kernel is right for all such launches and promises
    nothing outside of them; no buffer that is written may overlap another one."""

    problem: str
    kernel: str
    """The kernel's name in the source."""
    grid: tuple[Number, ...]
    """Blocks along x, y and z."""
    block: tuple[Positive, ...]
    """Threads along x, y and z."""
    cluster: tuple[Positive, ...]
    """Blocks of a cluster along x, y and z."""
    attributes: tuple[AttributeAnswer, ...]
    """Attributes that have to be set for the dynamic shared memory and for clusters of more than 8 blocks,
    and those that may be set so that the kernel starts while the one in front of it ends."""
    dynamic_shared_bytes: Count
    buffers: tuple[BufferAnswer, ...]
    alias: Literal["forbidden", "in_place"]
    """in_place: the result replaces its source in one buffer. Different buffers never overlap if one of
    them is written."""
    target: str | None
    """The one compile target that has the kernel's instructions; null where later ones do too."""
    maps: tuple[MapAnswer, ...]
    """Tensor maps, of 128 bytes each, which follow the parameters in the signature."""
    parameters: tuple[ParameterAnswer, ...]
    """In the order of the signature; behind them what is built in, which no launch gives."""
    conditions: tuple[str, ...]
    """Comparisons between parameters; all must hold."""


def launch_answers(record: LaunchRecord) -> tuple[LaunchAnswer, ...]:
    """The record of each launch, in order, as `generate --json` prints it.

    >>> launch_answers(LaunchRecord("nothing", (), ()))
    ()
    """
    return tuple(_launch_answer(record, step) for step in record.steps)


def _launch_answer(record: LaunchRecord, step: Step) -> LaunchAnswer:
    terms, mine = step.terms, step.buffers.values()
    return taken(
        LaunchAnswer, terms, problem=record.problem, kernel=step.kernel, grid=tuple(map(_number, terms.grid)),
        attributes=tuple(starmap(AttributeAnswer, terms.attributes.items())),
        buffers=tuple(
            taken(BufferAnswer, b, bytes=_number(b.bytes)) for b in record.buffers if b.name in mine
        ),
        alias=record.alias, target=terms.target or None,
        maps=tuple(_map_answer(m, step.buffers[m.source.name]) for m in terms.maps),
        parameters=tuple(
            taken(
                ParameterAnswer, p, type=step.types.get(p.name), holds=p.holds or None,
                buffer=step.buffers.get(p.name),
            )
            for p in terms.parameters
        ),
        conditions=tuple(map(text, terms.conditions)),
    )  # fmt: skip


def _number(n: Expr) -> int | str:
    return n.facts.lo if n.facts.is_constant else text(n)


def _map_answer(m: TensorMapParam, buffer: str) -> MapAnswer:
    """The arguments of cuTensorMapEncodeTiled that a launch gives."""
    named = {name: value.name for name, value in map_enumerators(m).items()}
    return MapAnswer(
        name=m.name, buffer=buffer, tensorRank=m.rank, globalDim=tuple(map(_number, m.dims)),
        globalStrides=tuple(map(_number, m.strides_bytes)), boxDim=tuple(m.box),
        elementStrides=tuple(m.element_strides or (1,) * m.rank), **named,
    )  # fmt: skip


def map_enumerators(m: TensorMapParam) -> dict[str, Enumerator]:
    """The values of its enumerations that cuTensorMapEncodeTiled takes, by its names.

    >>> from layoutalg.codegen.expr import Const
    >>> from layoutalg.codegen.program import Global, TensorMapParam
    >>> from layoutalg.dtype import dtype
    >>> m = TensorMapParam("m", Global("x", 1, (Const(1),), False), (Const(64),), (), (64,), dtype("u8"))
    >>> map_enumerators(m)["swizzle"]
    Enumerator(name='CU_TENSOR_MAP_SWIZZLE_NONE', value=0)
    """
    ones = (1,) * m.rank
    least = TensorMap(
        m.element, ones, ones[1:], m.box, m.element_strides or ones, mode=m.mode,
        l2_promotion_bytes=m.l2_promotion_bytes, nan_fill=m.nan_fill,
    )  # fmt: skip
    arguments = tensor_map_arguments(least).items()
    return {name: value for name, value in arguments if isinstance(value, Enumerator)}


def buffer_lines(record: LaunchRecord) -> Iterator[str]:
    """The buffers in words, as they are printed above the text.

    >>> list(buffer_lines(LaunchRecord("nothing", (), ())))
    []
    """
    if not record.buffers:
        return
    many = len(record.steps)
    yield f"{record.problem}" + (f", by {many} kernels that are launched in this order" if many > 1 else "")
    yield "Buffers, which do not overlap where one is written:"
    width = max(len(b.name) for b in record.buffers)
    for b in record.buffers:
        size = text(b.bytes)
        least = "" if b.bytes.facts.is_constant else f", {b.least_bytes} at least"
        use = ", written" if b.written else ""
        full = b.bytes.facts.is_constant and b.least_bytes % UNIT_BYTES == 0
        rest = f"; loads may take the rest of the last aligned {UNIT_BYTES}" if b.units and not full else ""
        yield f"  {b.name:<{width}}  {size} bytes{least}{use}{rest}"
