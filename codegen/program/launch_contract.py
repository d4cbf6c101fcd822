"""The contract of a launch: the values its kernel is right for, its grid, its block, its shared memory.

The idea.  A kernel's text relies on what its parameters declare: a range proves that 32 bits are enough, a
multiple that a vector is aligned.  All of it is in the kernel's record, and `contract` reads it out once, for
whoever states it: the comment above the printed text and `generate --json`.  `check_integers` and the check
of pointers hold a launch to the same record, in the simulator and on a GPU.

    // For
    //   m    8 to 256, a multiple of 8
    //   src  an address that is a multiple of 16
    //   m <= ldd

Notes.  Outside of what is stated nothing is promised.  A statement may be stricter than the statements need,
as an alignment of 16 bytes is for a kernel that moves single elements; a launch is held to it all the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from layoutalg.arch import CHUNK_BYTES
from layoutalg.codegen.expr import GRID_LIMITS, Const, Expr, Le, Var, evaluate, render, simplify, variables
from layoutalg.codegen.program.asynchronous import PORTABLE_CLUSTER
from layoutalg.codegen.program.tile import Global, Kernel, TensorMapParam, calls
from layoutalg.dtype import DTYPES
from layoutalg.errors import ArgumentTypeError, ResourceError, ShapeError

Kind: TypeAlias = Literal["int", "pointer", "scalar"]

STATIC_SHARED_BYTES = 48 * 1024
"""Static shared memory ends here; a kernel that needs more takes all of it dynamically."""

MOST_SHARED = "cudaFuncAttributeMaxDynamicSharedMemorySize"
EARLY = "cudaLaunchAttributeProgrammaticStreamSerialization"
"""Attributes: needed for dynamic shared memory; allowed where a kernel waits for the one in front itself."""

COOPERATIVE = "cudaLaunchAttributeCooperative"
"""The attribute that blocks which wait for each other need: all are resident, or none is started."""

LARGE_CLUSTER = "cudaFuncAttributeNonPortableClusterSizeAllowed"
"""The attribute that clusters of more than PORTABLE_CLUSTER blocks need."""

MOST_EXTENT = 1 << 32
"""Elements along a dimension of a tensor map: rule tma.extent of layoutalg.legality."""

MOST_STRIDE_BYTES = (1 << 40) - 1
"""Bytes between neighbours along a dimension of one: rule tma.stride_range."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a launch, or a value that is built into the text in the place of one.

    An "int" or a "scalar", which is bits of a number, is in [`least`, `most`] and a multiple of `multiple`; a
    "pointer" is an address that is a multiple of `align_bytes`, of memory that may be `written`.  What does
    not apply is None.  `holds` says what a scalar is.  A `built_in` value is not an argument.
    """

    name: str
    kind: Kind
    least: int | None = None
    most: int | None = None
    multiple: int | None = None
    align_bytes: int | None = None
    built_in: bool = False
    holds: str = ""
    written: bool = False

    def __str__(self) -> str:
        if self.kind == "pointer":
            return f"an address that is a multiple of {self.align_bytes}"
        if self.built_in:
            return f"{self.least}, built in"
        if self.kind == "scalar":
            return self.holds
        by = f", a multiple of {self.multiple}" if self.multiple != 1 and self.least != self.most else ""
        return f"{self.least} to {self.most}{by}" if self.least != self.most else f"{self.least}"


@dataclass(frozen=True, slots=True)
class Contract:
    """All that a launch gives: `parameters` in the order of the signature, those that are built in last.

    `grid` in blocks, as expressions of the parameters; `conditions` hold between them, each stated once.
    The buffers of `updated` pointers are read and written; `early`: the kernel may start while the one in
    front of it ends.  `cluster` in blocks along each side of the grid; `maps` are the tensor maps, which come
    behind the parameters in the signature.  `target`, where it is not empty, is what alone has the kernel's
    instructions.  In the buffers `in_chunks` TMA writes whole chunks of 16 bytes, past the end of a row too.
    A `cooperative` launch keeps all blocks resident.
    """

    parameters: tuple[Parameter, ...]
    conditions: tuple[Expr, ...]
    grid: tuple[Expr, Expr, Expr]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    updated: tuple[str, ...] = ()
    early: bool = False
    cluster: tuple[int, int, int] = (1, 1, 1)
    maps: tuple[TensorMapParam, ...] = ()
    target: str = ""
    in_chunks: tuple[str, ...] = ()
    cooperative: bool = False

    @property
    def function_attributes(self) -> dict[str, int]:
        """The attributes to set for the kernel before it is launched, by the names of CUDA's runtime."""
        attributes = {}
        if self.dynamic_shared_bytes:
            attributes[MOST_SHARED] = self.dynamic_shared_bytes
        if math.prod(self.cluster) > PORTABLE_CLUSTER:
            attributes[LARGE_CLUSTER] = 1
        return attributes

    @property
    def attributes(self) -> dict[str, int]:
        """The attributes of a launch beside grid, block and arguments, by the names of CUDA's runtime."""
        options = {EARLY: self.early, COOPERATIVE: self.cooperative}
        return self.function_attributes | {name: 1 for name, is_set in options.items() if is_set}


def contract(kernel: Kernel) -> Contract:
    """The contract that a launch of a kernel must keep.

    Raises ResourceError where no grid holds its blocks, ShapeError where none is whole clusters.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> k = KernelBuilder("empty", threads=32)
    >>> m = k.param("m", 100, 8, multiple=8)
    >>> [str(p) for p in contract(k.build()).parameters]
    ['8 to 96, a multiple of 8']
    """
    holds = dict(kernel.scalars)
    parameters = tuple(_parameter(p, holds.get(p.name, "")) for p in kernel.params)
    fixed = tuple(Parameter(name, "int", n, n, 1, built_in=True) for name, n in kernel.constants)
    grid = tuple(zip(kernel.grid, GRID_LIMITS, strict=True))
    for n, most in grid:
        if n.facts.lo > most:
            raise ResourceError(f"blocks of {kernel.name} along one side of a grid", n.facts.lo, most)
    limits = tuple(Le(n, Const(most)) for n, most in grid if n.facts.hi > most)
    clusters = tuple(whole_clusters(kernel))
    if Const(0) in clusters:
        grid_text, sides = (", ".join(map(str, part)) for part in (kernel.grid, kernel.cluster))
        raise ShapeError(f"the grid ({grid_text}) of {kernel.name} is not whole clusters of ({sides})")
    of_maps = tuple(map_conditions(kernel.maps))
    conditions = tuple(dict.fromkeys(kernel.conditions + limits + clusters + of_maps))
    return Contract(
        parameters + fixed, conditions, kernel.grid, (kernel.threads, 1, 1), dynamic_bytes(kernel),
        tuple(sorted(_updated(kernel))),
        kernel.dependent, kernel.cluster, kernel.maps, only_target(kernel),
        tuple(_in_chunks(kernel)), kernel.cooperative,
    )  # fmt: skip


def only_target(kernel: Kernel) -> str:
    """The one compile target that has a kernel's instructions; empty where later ones have them too.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> only_target(KernelBuilder("empty", threads=32).build())
    ''
    """
    needs = (s.instr.requires for s in calls(kernel.body))
    return next((f"sm_{needed.sm}a" for needed in needs if needed.arch_specific), "")


def whole_clusters(kernel: Kernel) -> Iterator[Expr]:
    """The conditions for the blocks along each side of the grid to be whole clusters, where they may not be.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> list(whole_clusters(KernelBuilder("empty", threads=32).build()))
    []
    """
    for n, side in zip(kernel.grid, kernel.cluster, strict=True):
        condition = simplify((n % side).eq(0))
        if condition != Const(1):
            yield condition


def map_conditions(maps: Sequence[TensorMapParam]) -> Iterator[Expr]:
    """The conditions for extents and strides of tensor maps to be legal, where their ranges do not say so.

    >>> list(map_conditions([]))
    []
    """
    for m in maps:
        for stride in m.strides_bytes:
            if stride.facts.hi > MOST_STRIDE_BYTES:
                yield Le(stride, Const(MOST_STRIDE_BYTES))
        for n in m.dims:
            if n.facts.lo < 1:
                yield Le(Const(1), n)
            if n.facts.hi > MOST_EXTENT:
                yield Le(n, Const(MOST_EXTENT))


def _in_chunks(kernel: Kernel) -> Iterator[str]:
    """The names of buffers that TMA stores to in rows that may end inside of 16 bytes, which it writes whole.

    MEASURED on an H200: tests/codegen/sim/test_tma_store_ends.py.
    """
    stored = dict.fromkeys(s.tensor_map for s in calls(kernel.body) if s.instr.engine == "bulk")
    for m in stored:
        if m and not (m.dims[0] * m.element.nbytes).facts.divisible_by(CHUNK_BYTES):
            yield m.source.name


def _updated(kernel: Kernel) -> set[str]:
    """The names of pointers that are read and written, by threads or by TMA."""
    by_role: dict[str, set[str]] = {"read": set(), "write": set(), "place": set(), "update": set()}
    for s in calls(kernel.body):
        if m := s.tensor_map:
            by_role["write" if s.instr.engine == "bulk" else "read"].add(m.source.name)
        for operand, at in s.memory:
            if isinstance(at.buffer, Global):
                by_role[operand.role].add(at.buffer.name)
    return by_role["read"] & by_role["write"] | by_role["update"]


def _parameter(p: Var | Global, holds: str) -> Parameter:
    if isinstance(p, Global):
        return Parameter(p.name, "pointer", align_bytes=p.align_bytes, written=p.writable)
    kind: Kind = "scalar" if holds else "int"
    least = -(1 << 31) if holds == "s32" else p.facts.lo  # a negative number is given as that, too
    holds = f"the 32 bits of the {holds} {p.name}" if holds in DTYPES else holds
    return Parameter(p.name, kind, least, p.facts.hi, p.multiple, holds=holds)


def dynamic_bytes(kernel: Kernel) -> int:
    """Bytes of shared memory that a launch has to ask for, none of them or all.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> dynamic_bytes(KernelBuilder("empty", threads=32).build())
    0
    """
    return kernel.shared_bytes if kernel.shared_bytes > STATIC_SHARED_BYTES else 0


def check_argument(var: Var, value: object) -> None:
    """Raise unless an integer argument is in the range, and a multiple, its parameter declares.

    >>> check_argument(Var("m", 10, "param", 1), 9)
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentTypeError(f"{var.name} = {value!r}: an int is needed")
    f = var.facts
    if not f.lo <= value <= f.hi or value % var.multiple:
        raise ShapeError(
            f"{var.name} = {value}: this kernel was built for {f.lo} <= {var.name} <= {f.hi}"
            + (f", multiples of {var.multiple}" if var.multiple > 1 else "")
        )


def check_integers(kernel: Kernel, values: Mapping[str, object]) -> None:
    """Raise unless the integer arguments, by name, are what the kernel is right for.

    ArgumentTypeError for what is not an int, ShapeError for another value and for a condition that fails.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> k = KernelBuilder("empty", threads=32)
    >>> k.require(k.param("n", 8) <= k.param("ld", 16))
    >>> check_integers(k.build(), {"n": 8, "ld": 7})
    Traceback (most recent call last):
    ...
    layoutalg.errors.ShapeError: empty was built for n <= ld, not for n = 8, ld = 7
    """
    integers = {p: values[p.name] for p in kernel.integers}
    for p, value in integers.items():
        check_argument(p, value)
    for condition in kernel.conditions:
        if not evaluate(condition, integers):
            shown = ", ".join(f"{v.name} = {n}" for v, n in integers.items() if v in variables(condition))
            raise ShapeError(f"{kernel.name} was built for {text(condition)}, not for {shown}")


def text(node: Expr) -> str:
    """An expression of parameters as people and other programs read it: exact integers, `/` rounds down.

    >>> text((Var("m", 100, "param") + 31) // 32)
    '(m + 31) / 32'
    """
    return render(node).replace("//", "/")


def lines(terms: Contract) -> Iterator[str]:
    """The contract in words, as it is printed above the text.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> k = KernelBuilder("empty", threads=32)
    >>> src = k.pointer("src", 4)
    >>> for line in lines(contract(k.build())): print(line)
    Launch 1 block of 32 threads, for
      src  an address that is a multiple of 16
    """
    x, y, z = map(text, terms.grid)
    is_given = terms.dynamic_shared_bytes > 0
    count = x if y == z == "1" else f"({x}, {y}, {z})"
    shared = f", {terms.dynamic_shared_bytes} bytes of dynamic shared memory" if is_given else ""
    clusters = f", in clusters of {_cluster_text(terms.cluster)}" if math.prod(terms.cluster) > 1 else ""
    blocks = f"{count} block{'s' if count != '1' else ''} of {terms.block[0]} threads{clusters}{shared}"
    if LARGE_CLUSTER in terms.attributes:
        yield f"Clusters of more than {PORTABLE_CLUSTER} blocks: set {LARGE_CLUSTER} to 1 first."
    if terms.cooperative:
        yield f"All blocks are resident together: launch with {COOPERATIVE}."
    yield f"Launch {blocks}{', for' if terms.parameters else '.'}"
    width = max((len(p.name) for p in terms.parameters), default=0)
    for p in terms.parameters:
        yield f"  {p.name:<{width}}  {p}"
    for condition in terms.conditions:
        yield f"  {text(condition)}"
    yield from map_lines(terms.maps)
    if terms.in_chunks:
        end = "what lies between the end of a row and the next multiple of 16 bytes included"
        yield f"TMA writes rows of {', '.join(terms.in_chunks)} in chunks of 16 bytes, {end}."
    if terms.target:
        code = f"arch={terms.target.replace('sm', 'compute')},code={terms.target}"
        yield f"Only {terms.target} has its instructions: nvcc -gencode {code}."
    pointers = [p for p in terms.parameters if p.kind == "pointer"]
    if len(pointers) > 1 and any(p.written for p in pointers):
        yield "A buffer that is written must not overlap another one."


def _cluster_text(cluster: tuple[int, int, int]) -> str:
    x, y, z = cluster
    return f"{x} blocks" if y == z == 1 else f"{x} x {y} x {z} blocks"


def map_lines(maps: Sequence[TensorMapParam]) -> Iterator[str]:
    """Describe in words how tensor maps are encoded, one line for each.

    >>> from layoutalg.codegen.expr import Var
    >>> from layoutalg.codegen.program.tile import Global
    >>> from layoutalg.dtype import dtype
    >>> src, m = Global("src", 2, (Const(64), Const(1)), False), Var("m", 100, "param", 8, 8)
    >>> one = TensorMapParam("map_src", src, (Const(64), m), (Const(128),), (64, 8), dtype("f16"))
    >>> for line in map_lines([one]): print(line)
    Tensor maps, which cuTensorMapEncodeTiled makes of these, innermost dimension first:
      map_src  f16 of src: dims (64, m), strides (128) bytes, box (64, 8), swizzle none
    """
    if maps:
        yield "Tensor maps, which cuTensorMapEncodeTiled makes of these, innermost dimension first:"
    width = max((len(m.name) for m in maps), default=0)
    for m in maps:
        dims, strides = (", ".join(map(text, part)) for part in (m.dims, m.strides_bytes))
        parts = [f"{m.element} of {m.source.name}: dims ({dims})"]
        if strides:
            parts.append(f"strides ({strides}) bytes")
        parts.append(f"box ({', '.join(map(str, m.box))})")
        if any(step != 1 for step in m.element_strides):
            parts.append(f"element strides ({', '.join(map(str, m.element_strides))})")
        parts.append(f"swizzle {m.mode}")
        if m.l2_promotion_bytes:
            parts.append(f"L2 promotion {m.l2_promotion_bytes} bytes")
        if m.nan_fill:
            parts.append("NaN outside")
        yield f"  {m.name:<{width}}  {', '.join(parts)}"
