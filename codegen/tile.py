"""The tile program: what a kernel family writes, what the CUDA printer prints and the simulator runs.

The idea.  Five statements over index expressions, and one builder to write them with:

    k = KernelBuilder("double", threads=128)
    n = k.param("n", 1 << 20)
    x = k.pointer("x", 4, writable=True)
    i = k.let("i", k.block(0, (n + 127) // 128) * 128 + k.tid)
    r = k.reg("r", 1)
    with k.If(i < n):
        k.do(LDG[4], r, k.at(x, i))
        k.do(STG[4], k.at(x, i), r)
    kernel = k.build()

Statements are `Let For Unroll If Do`; declarations `Param Global Shared Reg`.  Barriers, waits and fences
are instructions, not statements.  A Python `for` writes statements that differ from step to step; an
`Unroll` repeats one statement list with another index.  A register index holds only unroll variables and
ints; memory is addressed by coordinates that the buffer's layout or strides turn into one index.

Source of the design: Exo's instruction records and tinygrad's checked IR, reduced to what tiles need.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from layoutalg.codegen.expr import Const, Expr, Operand, Var, VarKind, as_expr
from layoutalg.codegen.instr import Instr
from layoutalg.codegen.simplify import simplify
from layoutalg.errors import IRError, ShapeError
from layoutalg.swizzle import AnyLayout

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}\Z")
_RESERVED = frozenset(
    {
        "alignas", "auto", "bool", "break", "case", "char", "class", "const", "continue", "default",
        "delete", "do", "double", "else", "enum", "extern", "false", "float", "for", "goto", "if",
        "inline", "int", "long", "new", "operator", "private", "public", "register", "restrict",
        "return", "short", "signed", "sizeof", "smem", "static", "struct", "switch", "template",
        "this", "true", "typedef", "u16", "u32", "u64", "u8", "union", "unsigned", "using", "void",
        "volatile", "while", "threadIdx", "blockIdx", "blockDim", "gridDim",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Global:
    """A pointer parameter: elements of `element_bytes`; a coordinate is turned into an index by `strides`.

    The pointer is a multiple of `align_bytes`, which a launch checks.
    """

    name: str
    element_bytes: int
    strides: tuple[Expr, ...]
    writable: bool
    align_bytes: int = 16

    def index(self, crd: tuple[Operand, ...]) -> Expr:
        """Element index of a coordinate, one entry per stride.  Raises ShapeError for another number."""
        if len(crd) != len(self.strides):
            raise ShapeError(f"{self.name} has {len(self.strides)} modes; the coordinate has {len(crd)}")
        total: Expr = Const(0)
        for c, d in zip(crd, self.strides, strict=True):
            total = total + as_expr(c) * d
        return total


@dataclass(frozen=True, slots=True)
class Shared:
    """A shared-memory buffer: `layout` gives the element index of a coordinate, `offset_bytes` its place.

    `size_bytes` covers the layout's cosize; `align_bytes` is what its swizzle and vectors need.
    """

    name: str
    element_bytes: int
    layout: AnyLayout
    size_bytes: int
    align_bytes: int
    offset_bytes: int

    def index(self, crd: tuple[Operand, ...]) -> Expr:
        """Byte offset of a coordinate of `layout`."""
        return as_expr(self.layout(*crd)) * self.element_bytes


@dataclass(frozen=True, slots=True)
class Reg:
    """A register array of 32-bit words a thread, row-major; the trailing modes are an instruction's words."""

    name: str
    shape: tuple[int, ...]

    def __getitem__(self, index: Operand | tuple[Operand, ...]) -> RegRef:
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) > len(self.shape):
            raise ShapeError(f"{self.name} has {len(self.shape)} modes; the index has {len(parts)}")
        return RegRef(self, tuple(simplify(as_expr(p)) for p in parts))

    def slice(self, *index: Operand, count: int) -> RegRef:
        """`count` words of the last mode, starting at a full index."""
        if len(index) != len(self.shape):
            raise ShapeError(f"{self.name} has {len(self.shape)} modes; a slice needs an index for each")
        return RegRef(self, tuple(simplify(as_expr(p)) for p in index), count)


@dataclass(frozen=True, slots=True)
class RegRef:
    """Consecutive words of `reg` from an index on: `v[i]` of v[4][2] is two words.

    A partial index covers its trailing modes; a full index covers `count` words of the last mode.
    """

    reg: Reg
    index: tuple[Expr, ...]
    count: int = 1

    @property
    def words(self) -> int:
        """Number of 32-bit words it covers."""
        return self.count * math.prod(self.reg.shape[len(self.index) :])

    @property
    def offset(self) -> Expr:
        """Index of its first word in the register array, row-major."""
        total: Expr = Const(0)
        for mode, e in enumerate(self.index):
            total = total + e * math.prod(self.reg.shape[mode + 1 :])
        return simplify(total)

    def __str__(self) -> str:
        last = f"..+{self.count}" if self.count > 1 else ""
        return self.reg.name + "".join(f"[{i}]" for i in self.index) + last


@dataclass(frozen=True, slots=True)
class MemRef:
    """A place in a buffer: `index` counts elements of a Global and bytes of a Shared, from its start."""

    buffer: Global | Shared
    index: Expr

    def __str__(self) -> str:
        return f"{self.buffer.name}[{self.index}]"


Arg: TypeAlias = RegRef | MemRef | int


@dataclass(frozen=True, slots=True)
class Do:
    """Run one instruction on its arguments, in the order of its operands."""

    instr: Instr
    args: tuple[Arg, ...]

    def __str__(self) -> str:
        return f"{self.instr.name}({', '.join(map(str, self.args))})"


@dataclass(frozen=True, slots=True)
class Let:
    """Name the value of an expression."""

    var: Var
    value: Expr

    def __str__(self) -> str:
        return f"{self.var} = {self.value}"


@dataclass(frozen=True, slots=True)
class For:
    """Run `body` for var = 0 .. count - 1; `unroll` is a hint to the compiler (1: leave it rolled)."""

    var: Var
    count: Expr
    body: tuple[Stmt, ...]
    unroll: int = 1

    def __str__(self) -> str:
        return f"for {self.var} < {self.count}"


@dataclass(frozen=True, slots=True)
class Unroll:
    """Repeat `body` for var = 0 .. count - 1, unrolled: register indices may use `var`."""

    var: Var
    count: int
    body: tuple[Stmt, ...]

    def __str__(self) -> str:
        return f"unroll {self.var} < {self.count}"


@dataclass(frozen=True, slots=True)
class If:
    """Run `body` in lanes where `condition` holds, `orelse` in the others."""

    condition: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()

    def __str__(self) -> str:
        return f"if {self.condition}"


Stmt: TypeAlias = Do | Let | For | Unroll | If


@dataclass(frozen=True, slots=True)
class Kernel:
    """A finished tile program.

    `threads` a block (one dimension); `grid` in blocks, expressions of the parameters; `params` in the
    order of the kernel's signature; `notes` are the lines of its header comment.
    """

    name: str
    threads: int
    grid: tuple[Expr, Expr, Expr]
    params: tuple[Global | Var, ...]
    shared: tuple[Shared, ...]
    regs: tuple[Reg, ...]
    body: tuple[Stmt, ...]
    notes: tuple[str, ...] = ()
    min_blocks: int = 1

    @property
    def tid(self) -> Var:
        """The thread's index in its block."""
        return Var("tid", self.threads, "thread")

    @property
    def block_vars(self) -> tuple[Var, Var, Var]:
        """blockIdx.x, .y, .z with their bounds."""
        x, y, z = (Var(f"block_{d}", n, "block") for d, n in zip("xyz", self.grid, strict=True))
        return x, y, z

    @property
    def shared_bytes(self) -> int:
        """Shared memory of one block."""
        return max((s.offset_bytes + s.size_bytes for s in self.shared), default=0)

    def __str__(self) -> str:
        return "\n".join([f"kernel {self.name}", *_outline(self.body, 1)])


def walk(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement, in program order, parents first.

    >>> [str(s) for s in walk((Let(Var("i", 1, "let"), Const(0)),))]
    ['i = 0']
    """
    for s in body:
        yield s
        match s:
            case For(body=inner) | Unroll(body=inner):
                yield from walk(inner)
            case If(body=inner, orelse=other):
                yield from walk(inner)
                yield from walk(other)


def _outline(body: tuple[Stmt, ...], level: int) -> Iterator[str]:
    for s in body:
        yield "  " * level + str(s)
        match s:
            case For(body=inner) | Unroll(body=inner):
                yield from _outline(inner, level + 1)
            case If(body=inner, orelse=other):
                yield from _outline(inner, level + 1)
                if other:
                    yield "  " * level + "else"
                    yield from _outline(other, level + 1)


def check_name(name: str) -> str:
    """Return `name` if it may appear in generated text: an identifier, not a keyword of CUDA C++.

    Raises IRError otherwise.

    >>> check_name("tile")
    'tile'
    """
    if not isinstance(name, str) or not _NAME.match(name) or name in _RESERVED or "__" in name:
        raise IRError(
            "name", name, f"{name!r} cannot name something in CUDA text: a letter, then letters, digits or _"
        )
    return name


@dataclass(slots=True)
class KernelBuilder:
    """Writes a tile program statement by statement; `build` returns the immutable Kernel.

    >>> k = KernelBuilder("empty", threads=32)
    >>> k.build().name
    'empty'
    """

    name: str
    threads: int
    notes: list[str] = field(default_factory=list)
    min_blocks: int = 1
    _grid: list[Expr] = field(default_factory=lambda: [Const(1), Const(1), Const(1)])
    _params: list[Global | Var] = field(default_factory=list)
    _shared: list[Shared] = field(default_factory=list)
    _regs: list[Reg] = field(default_factory=list)
    _scopes: list[list[Stmt]] = field(default_factory=lambda: [[]])
    _names: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._declare(self.name)

    @property
    def tid(self) -> Var:
        """The thread's index in its block."""
        return Var("tid", self.threads, "thread")

    def block(self, axis: int, extent: Operand) -> Var:
        """blockIdx along `axis` (0 x, 1 y, 2 z) with `extent` blocks."""
        self._grid[axis] = as_expr(extent)
        return Var(f"block_{'xyz'[axis]}", self._grid[axis], "block")

    def param(self, name: str, most: int, least: int = 1, multiple: int = 1) -> Var:
        """An integer parameter in [least, most], a multiple of `multiple`.

        The range proves the width of the index code, the multiple the alignment of vector accesses; a
        launch with another value is refused.
        """
        var = Var(self._declare(name), most + 1, "param", least, multiple)
        self._params.append(var)
        return var

    def pointer(
        self,
        name: str,
        element_bytes: int,
        strides: tuple[Operand, ...] = (1,),
        *,
        writable: bool = False,
        align_bytes: int = 16,
    ) -> Global:
        """A pointer parameter to elements of `element_bytes`, addressed with `strides` in elements."""
        steps = tuple(as_expr(d) for d in strides)
        buffer = Global(self._declare(name), element_bytes, steps, writable, align_bytes)
        self._params.append(buffer)
        return buffer

    def shared(
        self, name: str, element_bytes: int, layout: AnyLayout, size_elems: int, align_bytes: int
    ) -> Shared:
        """A shared buffer of `size_elems` elements, placed after the ones before it."""
        end = max((s.offset_bytes + s.size_bytes for s in self._shared), default=0)
        offset = -(-end // align_bytes) * align_bytes
        size = size_elems * element_bytes
        buffer = Shared(self._declare(name), element_bytes, layout, size, align_bytes, offset)
        self._shared.append(buffer)
        return buffer

    def reg(self, name: str, *shape: int) -> Reg:
        """A register array of 32-bit words; the last mode is the words of one value."""
        reg = Reg(self._declare(name), shape)
        self._regs.append(reg)
        return reg

    def at(self, buffer: Global | Shared, *crd: Operand) -> MemRef:
        """The element of `buffer` at a coordinate."""
        return MemRef(buffer, simplify(buffer.index(crd)))

    def let(self, name: str, value: Operand) -> Var:
        """Name a value; the variable inherits its interval and congruence."""
        value = simplify(as_expr(value))
        f = value.facts
        step = f.stride if f.stride and f.offset == 0 else 1
        var = Var(check_name(name), f.hi + 1, "let", f.lo, step)
        self._scopes[-1].append(Let(var, value))
        return var

    def do(self, instr: Instr, *args: RegRef | Reg | MemRef | int) -> None:
        """Run an instruction."""
        refs = tuple(RegRef(a, ()) if isinstance(a, Reg) else a for a in args)
        if len(refs) != len(instr.operands):
            raise IRError("operands", instr, f"{instr} takes {len(instr.operands)} operands, got {len(refs)}")
        self._scopes[-1].append(Do(instr, refs))

    @contextmanager
    def For(self, name: str, count: Operand, unroll: int = 1) -> Iterator[Var]:
        """A counted loop; the variable is the context's value."""
        count = simplify(as_expr(count))
        var = Var(check_name(name), count, "loop")
        with self._scope() as body:
            yield var
        self._scopes[-1].append(For(var, count, tuple(body), unroll))

    @contextmanager
    def Unroll(self, name: str, count: int) -> Iterator[Var]:
        """A fully unrolled loop; the variable may index registers."""
        var = Var(check_name(name), count, "unroll")
        with self._scope() as body:
            yield var
        self._scopes[-1].append(Unroll(var, count, tuple(body)))

    @contextmanager
    def If(self, condition: Expr) -> Iterator[None]:
        """A branch taken where `condition` holds."""
        with self._scope() as body:
            yield
        self._scopes[-1].append(If(simplify(condition), tuple(body)))

    @contextmanager
    def Else(self) -> Iterator[None]:
        """The other branch of the If just written."""
        scope = self._scopes[-1]
        taken = scope[-1] if scope else None
        if not isinstance(taken, If) or taken.orelse:
            raise IRError("else", self.name, "Else must directly follow the If it belongs to")
        with self._scope() as body:
            yield
        scope[-1] = If(taken.condition, taken.body, tuple(body))

    def build(self) -> Kernel:
        """The finished, immutable kernel."""
        x, y, z = self._grid
        (body,) = self._scopes
        return Kernel(
            self.name, self.threads, (x, y, z), tuple(self._params), tuple(self._shared), tuple(self._regs),
            tuple(body), tuple(self.notes), self.min_blocks,
        )  # fmt: skip

    @contextmanager
    def _scope(self) -> Iterator[list[Stmt]]:
        body: list[Stmt] = []
        self._scopes.append(body)
        try:
            yield body
        finally:
            self._scopes.pop()

    def _declare(self, name: str) -> str:
        if name in self._names:
            raise IRError("name", name, f"{name!r} is declared twice in kernel {self.name}")
        self._names.add(check_name(name))
        return name


__all__ = [
    "Arg", "Do", "For", "Global", "If", "Kernel", "KernelBuilder", "Let", "MemRef", "Reg", "RegRef", "Shared",
    "Stmt", "Unroll", "VarKind", "check_name", "walk",
]  # fmt: skip
