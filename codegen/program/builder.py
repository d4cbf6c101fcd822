"""KernelBuilder: how a tile program is written.

The idea.  A builder collects declarations and statements; `with` blocks are scopes.

    k = KernelBuilder("copy", threads=128)
    n = k.param("n", 1 << 20)
    x, y = k.pointer("x", 4), k.pointer("y", 4, writable=True)
    i = k.let("i", k.block(0, (n + 127) // 128) * 128 + k.tid)
    r = k.reg("r", 1)
    with k.If(i < n):
        k.do(LDG[4], r, k.at(x, i))
        k.do(STG[4], k.at(y, i), r)
    kernel = k.build()

A Python `for` writes statements that differ from step to step; an `Unroll` repeats one statement list with
another index.  Every name goes through `check_name`, so that nothing but identifiers reaches CUDA text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from layoutalg.codegen.expr import Const, Expr, Operand, Var, as_expr, check_name, is_predicate, simplify
from layoutalg.codegen.instr import Instr
from layoutalg.codegen.program.tile import (
    Arg,
    Do,
    For,
    Global,
    If,
    Kernel,
    Let,
    MemRef,
    Reg,
    RegRef,
    Shared,
    Stmt,
    Unroll,
)
from layoutalg.decide import cosize
from layoutalg.errors import IRError
from layoutalg.layout import AnyLayout


def _argument(arg: RegRef | Reg | MemRef | Expr | int) -> Arg:
    match arg:
        case Reg():
            return RegRef(arg, ())
        case RegRef() | MemRef() | int():
            return arg
        case _:
            return simplify(arg)


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
    _conditions: list[Expr] = field(default_factory=list)
    _constants: list[tuple[str, int]] = field(default_factory=list)
    _scalars: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._names.add(check_name(self.name, "kernel"))

    @property
    def tid(self) -> Var:
        """The thread's index in its block."""
        return Var("tid", self.threads, "thread")

    def block(self, axis: int, extent: Operand) -> Var:
        """blockIdx along `axis` (0 x, 1 y, 2 z) with `extent` blocks."""
        if axis not in (0, 1, 2):
            raise IRError("grid", axis, f"axis {axis!r} of the grid of {self.name}: 0, 1 or 2 is needed")
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

    def scalar(self, name: str, holds: str) -> Var:
        """A parameter of 32 bits of a number, of which `holds` says what they are; any bits are accepted."""
        var = self.param(name, (1 << 32) - 1, 0)
        self._scalars.append((name, holds))
        return var

    def constant(self, name: str, value: int) -> Const:
        """A value built into the statements where a parameter of this name could be."""
        self._constants.append((self._declare(name), value))
        return Const(value)

    def require(self, condition: Expr) -> None:
        """State a condition between parameters; a launch for which it fails is refused."""
        if simplify(condition) != Const(1):
            self._conditions.append(condition)

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
        self,
        name: str,
        element_bytes: int,
        layout: AnyLayout,
        size_elems: int,
        align_bytes: int,
        *,
        overlay: bool = False,
    ) -> Shared:
        """A shared buffer of `size_elems` elements, placed after the ones before it, or over them.

        Raises IRError when the layout reaches past it, or for an alignment that is no power of two.
        """
        if align_bytes < 1 or align_bytes & (align_bytes - 1):
            raise IRError("alignment", name, f"{name} aligned to {align_bytes}: a power of two is needed")
        if (reach := cosize(layout)) > size_elems:
            raise IRError("bounds", name, f"{name}: {layout} needs {reach} elements, not {size_elems}")
        end = max((s.offset_bytes + s.size_bytes for s in self._shared), default=0)
        offset = 0 if overlay else -(-end // align_bytes) * align_bytes
        size = size_elems * element_bytes
        buffer = Shared(self._declare(name), element_bytes, layout, size, align_bytes, offset)
        self._shared.append(buffer)
        return buffer

    def reg(self, name: str, *shape: int) -> Reg:
        """A register array of 32-bit words; the last mode is the words of one value."""
        if not shape or any(n < 1 for n in shape):
            raise IRError("register", name, f"{name} of shape {shape}: positive extents are needed")
        reg = Reg(self._declare(name), shape)
        self._regs.append(reg)
        return reg

    def at(self, buffer: Global | Shared, *crd: Operand) -> MemRef:
        """The element of `buffer` at a coordinate."""
        return MemRef(buffer, simplify(buffer.index(crd)))

    def let(self, name: str, value: Operand) -> Var:
        """Name a value; the variable inherits its interval and congruence."""
        value = simplify(as_expr(value))
        if is_predicate(value) and not isinstance(value, Const):
            raise IRError("predicate", name, f"{name} = {value}: a comparison stands in If, it has no name")
        f = value.facts
        var = Var(check_name(name), f.hi + 1, "let", f.lo, f.stride or 1, f.offset if f.stride else 0)
        self._scopes[-1].append(Let(var, value))
        return var

    def do(self, instr: Instr, *args: RegRef | Reg | MemRef | Expr | int) -> None:
        """Run an instruction."""
        refs = tuple(_argument(a) for a in args)
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
        if not isinstance(count, int):
            raise IRError("unroll", name, f"unroll {name} < {count}: the count must be an int")
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
            tuple(body), tuple(self.notes), self.min_blocks, conditions=tuple(self._conditions),
            constants=tuple(self._constants), scalars=tuple(self._scalars),
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
