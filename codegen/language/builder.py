"""KernelBuilder: how a tile program is written.

The idea.  A builder collects declarations and statements; `with` blocks are scopes.

    k = KernelBuilder("copy", threads=128)
    n = k.extent("n", multiple=4)
    x, y = k.tensor("x", "f32", (n,), (1,)), k.tensor("y", "f32", (n,), (1,), writable=True)
    block, me = k.grid((n,), (512,)), k.get_slice(copy)              copy: a TiledCopy of tiles of 512
    s, d = me.partition_S(local_tile(x, (512,), block)), me.partition_D(local_tile(y, (512,), block))
    k.store(k.load(s, where=s.inside), d, where=d.inside)
    kernel = k.build()

Below that are the statements, which tensors are made of: `k.do` runs one instruction on registers and places
in memory, `k.at(x, i)` or `x.at(i)`; `let` names a value.  A Python `for` writes statements that differ from
step to step; an `Unroll` repeats one statement list with another index.  Names go through `check_name`,
so that nothing but identifiers reaches CUDA text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from layoutalg.atoms import TiledCopy, TiledMMA
from layoutalg.codegen.expr import (
    Const,
    Expr,
    Operand,
    Var,
    as_expr,
    check_name,
    existing,
    is_predicate,
    simplify,
    variables,
)
from layoutalg.codegen.instr import Instr
from layoutalg.codegen.language.asynchronous import AsynchronousBuilder
from layoutalg.codegen.language.copying import ThreadSlice, atomic, clear, copy, load, mma, store
from layoutalg.codegen.language.fragment import Fragment, words_of
from layoutalg.codegen.language.reducing import reduced
from layoutalg.codegen.language.tensor import Tensor, whole
from layoutalg.codegen.language.values import Scalar, coordinates, index, mapped
from layoutalg.codegen.language.warpgroup import wait_for_products
from layoutalg.codegen.program import (
    Arg,
    BarrierRef,
    Do,
    For,
    Global,
    If,
    Kernel,
    Let,
    Mbarrier,
    MemRef,
    Reg,
    RegRef,
    Role,
    Shared,
    Stmt,
    TensorMapParam,
    Unroll,
    calls,
    check_tensors,
)
from layoutalg.decide import cosize, is_injective
from layoutalg.dtype import DType, dtype
from layoutalg.errors import ArgumentTypeError, IRError, NotInjectiveError, ShapeError, UnsupportedError
from layoutalg.layout import AnyLayout, IntTuple, Layout, layout_size, modes

MOST_EXTENT = 1 << 30
"""The most that an extent is unless less is stated: coordinates of tiles then fit 32 bits."""


def _argument(arg: Arg | Reg | Fragment) -> Arg:
    match arg:
        case Reg():
            return RegRef(arg, ())
        case Fragment():
            return arg.words
        case RegRef() | MemRef() | BarrierRef() | TensorMapParam() | int():
            return arg
        case _:
            return simplify(arg)


class _Scope:
    """A statement list that is being written, the names in it, and the values that have one."""

    __slots__ = ("body", "named", "names")

    def __init__(self) -> None:
        self.body: list[Stmt] = []
        self.names: set[str] = set()
        self.named: dict[Expr, Var] = {}


@dataclass(slots=True)
class KernelBuilder(AsynchronousBuilder):
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
    _scopes: list[_Scope] = field(default_factory=lambda: [_Scope()])
    _names: set[str] = field(default_factory=set)
    _level: dict[Var, int] = field(default_factory=dict)
    _wholes: dict[str, Tensor] = field(default_factory=dict)
    _conditions: list[Expr] = field(default_factory=list)
    _constants: list[tuple[str, int]] = field(default_factory=list)
    _scalars: list[tuple[str, str]] = field(default_factory=list)
    maps: list[TensorMapParam] = field(default_factory=list)
    barriers: list[Mbarrier] = field(default_factory=list)
    cluster_shape: tuple[int, int, int] = (1, 1, 1)
    role: Role | None = None

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
        return self.block_var(axis)

    def block_var(self, axis: int) -> Var:
        """The block's place along an axis of the grid, as it has been stated so far."""
        return Var(f"block_{'xyz'[axis]}", self._grid[axis], "block")

    def grid(self, extents: tuple[Operand, ...], tile: tuple[int, ...]) -> tuple[Var, ...]:
        """The tile of each block: its place along each of up to three modes, the last tile sticking out.

        Raises ShapeError where the modes differ.
        """
        if len(extents) != len(tile) or len(tile) > 3:
            raise ShapeError(
                f"grid of {self.name}: {len(extents)} extents and tiles of {len(tile)} modes; 3 at most"
            )
        counts = [simplify((as_expr(n) + (t - 1)) // t) for n, t in zip(extents, tile, strict=True)]
        return tuple(self.block(axis, count) for axis, count in enumerate(counts))

    def param(self, name: str, most: int, least: int = 1, multiple: int = 1) -> Var:
        """An integer parameter in [least, most], a multiple of `multiple`.

        The range proves the width of the index code, the multiple the alignment of vector accesses; a
        launch with another value is refused.
        """
        var = Var(self.declare(name), most + 1, "param", least, multiple)
        self._params.append(var)
        return var

    def word(self, name: str, holds: str) -> Var:
        """A parameter of 32 bits of a number; `holds` says what they are, and any bits are accepted."""
        var = self.param(name, (1 << 32) - 1, 0)
        self._scalars.append((name, holds))
        return var

    def scalar(self, name: str, element: str | DType) -> Scalar:
        """A parameter that is a number, f32 or s32, for arithmetic on registers: `v * alpha`.

        Raises UnsupportedError for other types.
        """
        element = dtype(element)
        if element.name not in ("f32", "s32"):
            raise UnsupportedError(f"{name} of {element}: f32 and s32 are accepted")
        return Scalar(self.word(name, element.name), element)

    def constant(self, name: str, value: int) -> Const:
        """A value built into the statements where a parameter of this name could be."""
        self._constants.append((self.declare(name), value))
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
        buffer = Global(self.declare(name), element_bytes, steps, writable, align_bytes)
        self._params.append(buffer)
        return buffer

    def shared_buffer(
        self,
        name: str,
        element_bytes: int,
        layout: AnyLayout,
        size_elems: int,
        align_bytes: int,
        *,
        overlay: bool = False,
        stages: int = 1,
    ) -> Shared:
        """A shared buffer of `size_elems` elements, placed after the ones before it, or over them.

        Raises IRError when the layout reaches past it, or for an alignment that is not a power of two.
        """
        if align_bytes < 1 or align_bytes & (align_bytes - 1):
            raise IRError("alignment", name, f"{name} aligned to {align_bytes}: a power of two is needed")
        if (reach := cosize(layout)) > size_elems:
            raise IRError("bounds", name, f"{name}: {layout} needs {reach} elements, not {size_elems}")
        offset = 0 if overlay else self.shared_end(align_bytes)
        size = size_elems * element_bytes
        buffer = Shared(self.declare(name), element_bytes, layout, size, align_bytes, offset, stages, overlay)
        self._shared.append(buffer)
        return buffer

    def shared_end(self, align_bytes: int) -> int:
        """The first multiple of `align_bytes` behind all that is in shared memory so far."""
        placed: list[Shared | Mbarrier] = [*self._shared, *self.barriers]
        end = max((s.offset_bytes + s.size_bytes for s in placed), default=0)
        return -(-end // align_bytes) * align_bytes

    def reg(self, name: str, *shape: int) -> Reg:
        """A register array of 32-bit words; the last mode is the words of one value."""
        if not shape or any(n < 1 for n in shape):
            raise IRError("register", name, f"{name} of shape {shape}: positive extents are needed")
        reg = Reg(self.declare(name), shape)
        self._regs.append(reg)
        return reg

    def at(self, buffer: Global | Shared | Tensor, *crd: Operand) -> MemRef:
        """The element of `buffer` at a coordinate; for a tensor, at a place in it."""
        if isinstance(buffer, Tensor):
            return buffer.at(*crd)
        index = simplify(buffer.index(crd))
        return MemRef(buffer, index, self._wholes.get(buffer.name), tuple(map(as_expr, crd)))

    def extent(self, name: str, most: int = MOST_EXTENT, multiple: int = 1, least: int = 0) -> Var:
        """The extent of a mode of a tensor: a parameter in [least, most], by default from 1."""
        return self.param(name, most, least or multiple, multiple)

    def tensor(
        self,
        name: str,
        element: str | DType,
        shape: tuple[Operand | None, ...],
        strides: tuple[Operand, ...],
        *,
        writable: bool = False,
        align_bytes: int = 16,
    ) -> Tensor:
        """A pointer parameter as a tensor: `shape` and `strides` (in elements) are integers or parameters.

        An extent of None is not stated: its coordinates are not checked when the kernel is built.  Of a
        tensor that is written no two coordinates may be one element: where the parameters' ranges do not say
        so it becomes a condition of the launch.  Raises IRError where they say the opposite, UnsupportedError
        for elements that share bytes.
        """
        element = dtype(element)
        extents = tuple(None if n is None else as_expr(n) for n in shape)
        if len(extents) != len(strides):
            raise ShapeError(f"{name} has {len(extents)} extents and {len(strides)} strides")
        buffer = self.pointer(name, element.nbytes, strides, writable=writable, align_bytes=align_bytes)
        if writable:
            self._keep_apart(buffer, extents)
        return self._whole(buffer, element, extents)

    def shared(
        self,
        name: str,
        element: str | DType,
        layout: AnyLayout,
        *,
        stages: int = 1,
        align_bytes: int = 0,
        over: bool = False,
    ) -> Tensor:
        """A tile in shared memory, or with `stages` a ring of them, whose last mode is the stage.

        `over` places it over the buffers before it.  Raises what `shared_buffer` raises,
        NotInjectiveError for a layout that gives two coordinates one element, and UnsupportedError for
        elements that share bytes.
        """
        element = dtype(element)
        if not is_injective(layout):
            raise NotInjectiveError(f"{name}: two coordinates of {layout} are one element", layout=layout)
        align = align_bytes or (16 if isinstance(layout, Layout) else 1024)
        buffer = self.shared_buffer(
            name, element.nbytes, layout, cosize(layout) * stages, align, overlay=over, stages=stages
        )
        return self._whole(buffer, element, ())

    def _keep_apart(self, buffer: Global, extents: tuple[Expr | None, ...]) -> None:
        """No two coordinates are one element: of any two modes one ends before the other one's next step.

        Of integers that is decided; what is left to the parameters is a condition, except pairs that follow
        from others by a mode between them.
        """
        modes = [(n, d) for n, d in zip(extents, buffer.strides, strict=True) if n is not None]
        shown = ", ".join(f"{n} every {d}" for n, d in modes)
        if any(d == Const(0) and n.facts.hi > 1 for n, d in modes):
            raise IRError("overlap", buffer, f"elements of {buffer.name} lie over each other: {shown}")
        if modes and all(isinstance(x, Const) for mode in modes for x in mode):
            shape, strides = (tuple(x.facts.lo for x in part) for part in zip(*modes, strict=True))
            if not is_injective(Layout(shape, strides)):
                raise IRError("overlap", buffer, f"elements of {buffer.name} lie over each other: {shown}")
            return
        ends = {(i, j): simplify(as_expr(n) * d <= modes[j][1])
                for i, (n, d) in enumerate(modes) for j in range(len(modes))
                if i != j and modes[j][1] != Const(1)}  # fmt: skip
        below = {pair for pair, end in ends.items() if end == Const(1)}
        while more := {(i, k) for i, j in below for j2, k in below if j == j2 and i != k} - below:
            below |= more
        for i, j in itertools.combinations(range(len(modes)), 2):
            if not {(i, j), (j, i)} & below:
                apart = simplify(ends.get((i, j), Const(0)) | ends.get((j, i), Const(0)))
                if apart == Const(0):
                    raise IRError(
                        "overlap", buffer, f"elements of {buffer.name} lie over each other: {shown}"
                    )
                self.require(apart)

    def _whole(self, buffer: Global | Shared, element: DType, extents: tuple[Expr | None, ...]) -> Tensor:
        if element.bits < 8:
            raise UnsupportedError(
                f"{buffer.name} of {element}, of which several share a byte: a tensor of u8 is needed, whose "
                f'registers recast("{element}") takes apart'
            )
        tensor = self._wholes[buffer.name] = whole(buffer, element, extents)
        return tensor

    def fragment(
        self, name: str, element: str | DType | None, shape: IntTuple | Layout, *, values: int = 0
    ) -> Fragment:
        """Registers for the places of a partition, its shape or a layout of it; `values` of an instruction
        lie side by side, by default those of mode 0.
        """
        if element is None:
            raise ArgumentTypeError(f"fragment {name}: the element type of a tensor is needed")
        element, layout = dtype(element), shape if isinstance(shape, Layout) else Layout(shape)
        values = values or layout_size(modes(layout)[0])
        per_word = max(1, min(values, 32 // element.bits))
        words = words_of(element, values, per_word)
        reg = self.reg(self.fresh(name), words_of(element, cosize(layout), per_word) // words, words)
        return Fragment(reg, element, layout, per_word)

    def get_slice(self, tiled: TiledCopy | TiledMMA, thread: Operand | None = None) -> ThreadSlice:
        """The slice of a thread, by default the kernel's own, of a tiled copy or a tiled MMA."""
        return ThreadSlice(self, tiled, self.thread if thread is None else thread)

    load, store, copy, mma, clear = load, store, copy, mma, clear
    map, reduce, warpgroup_wait = mapped, reduced, wait_for_products
    coordinates, index, atomic = coordinates, index, atomic

    def take(self, name: str, word: RegRef, most: int) -> Var:
        """The number in a register, of which it is known that it is at most `most`, as an index."""
        return self._named(Var(check_name(name), most + 1, "data"), word)

    def _named(self, var: Var, value: Expr | RegRef) -> Var:
        self._scopes[-1].body.append(Let(var, value))
        self._scopes[-1].names.add(var.name)
        self._level[var] = len(self._scopes) - 1
        return var

    def let(self, name: str, value: Operand) -> Var:
        """Name a value; the variable inherits its interval and congruence."""
        exists, value = simplify(existing(as_expr(value))), simplify(as_expr(value))
        if is_predicate(value) and not isinstance(value, Const):
            raise IRError("predicate", name, f"{name} = {value}: a comparison stands in If, it has no name")
        f = value.facts
        steps = f.stride or 1, f.offset if f.stride else 0
        held = None if exists == Const(1) else exists
        return self._named(Var(check_name(name), f.hi + 1, "let", f.lo, *steps, held), value)

    def once(self, name: str, value: Operand) -> Expr:
        """The value under a name, given where its variables are known, so that loops do not compute it again;
        the same name for the same value, and none for a variable or a number.
        """
        value = simplify(as_expr(value))
        if isinstance(value, (Var, Const)):
            return value
        first = max((self._level.get(v, 0) for v in variables(value)), default=0)
        for scope in self._scopes[first:]:
            if value in scope.named:
                return scope.named[value]
        inner, self._scopes = self._scopes[first + 1 :], self._scopes[: first + 1]
        var = self._scopes[-1].named[value] = self.let(self.fresh(name), value)
        self._scopes += inner
        return var

    def fresh(self, name: str) -> str:
        """`name`, or with a number behind it where something in scope has that name."""
        taken = self._names.union(*(scope.names for scope in self._scopes))
        return next(n for i in itertools.count() if (n := f"{name}{i or ''}") not in taken)

    def do(self, instr: Instr, *args: Arg | Reg | Fragment) -> None:
        """Run an instruction."""
        refs = tuple(map(_argument, args))
        if len(refs) != len(instr.operands):
            raise IRError("operands", instr, f"{instr} takes {len(instr.operands)} operands, got {len(refs)}")
        refs = tuple(
            Const(a) if o.role == "value" and isinstance(a, int) else a
            for o, a in zip(instr.operands, refs, strict=True)
        )
        self._scopes[-1].body.append(Do(instr, refs))

    @contextmanager
    def For(self, name: str, count: Operand, unroll: int = 1) -> Iterator[Var]:
        """A counted loop; the variable is the context's value."""
        count = simplify(as_expr(count))
        var = Var(check_name(name), count, "loop")
        with self._scope(var) as body:
            yield var
        self._scopes[-1].body.append(For(var, count, tuple(body), unroll))

    @contextmanager
    def Unroll(self, name: str, count: int) -> Iterator[Var]:
        """A fully unrolled loop; the variable may index registers."""
        if not isinstance(count, int):
            raise IRError("unroll", name, f"unroll {name} < {count}: the count must be an int")
        var = Var(check_name(name), count, "unroll")
        with self._scope(var) as body:
            yield var
        self._scopes[-1].body.append(Unroll(var, count, tuple(body)))

    @contextmanager
    def If(self, condition: Expr) -> Iterator[None]:
        """A branch taken where `condition` holds."""
        with self._scope() as body:
            yield
        self._scopes[-1].body.append(If(simplify(condition), tuple(body)))

    @contextmanager
    def Else(self) -> Iterator[None]:
        """The other branch of the If just written."""
        outer = self._scopes[-1].body
        taken = outer[-1] if outer else None
        if not isinstance(taken, If) or taken.orelse:
            raise IRError("else", self.name, "Else must directly follow the If it belongs to")
        outer.pop()  # what the branch has named outside of it goes in front of both
        with self._scope() as body:
            yield
        outer.append(If(taken.condition, taken.body, tuple(body)))

    def build(self) -> Kernel:
        """The finished, immutable kernel.  Raises what `check_tensors` raises."""
        x, y, z = self._grid
        (scope,) = self._scopes
        kernel = Kernel(
            self.name, self.threads, (x, y, z), tuple(self._params), tuple(self._shared), tuple(self._regs),
            tuple(scope.body), tuple(self.notes), self.min_blocks, conditions=tuple(self._conditions),
            constants=tuple(self._constants), scalars=tuple(self._scalars), cluster=self.cluster_shape,
            maps=tuple(self.maps), barriers=tuple(self.barriers),
            cooperative=any(s.instr.requires.all_blocks for s in calls(tuple(scope.body))),
        )  # fmt: skip
        check_tensors(kernel)
        return kernel

    def write(self, s: Stmt) -> None:
        """Add a statement."""
        self._scopes[-1].body.append(s)

    @contextmanager
    def enter(self, role: Role) -> Iterator[list[Stmt]]:
        """The statements that a role's threads execute, which count from 0 there."""
        if self.role is not None:
            raise IRError("roles", role.name, f"role {role.name} inside of the role {self.role.name}")
        with self._scope(role.thread) as body:
            self.role = role
            try:
                yield body
            finally:
                self.role = None

    @contextmanager
    def _scope(self, var: Var | None = None) -> Iterator[list[Stmt]]:
        scope = _Scope()
        if var is not None:
            scope.names.add(var.name)
            self._level[var] = len(self._scopes)
        self._scopes.append(scope)
        try:
            yield scope.body
        finally:
            self._scopes.pop()

    def declare(self, name: str) -> str:
        """A name that nothing else has; raises IRError for one that is taken."""
        if name in self._names:
            raise IRError("name", name, f"{name!r} is declared twice in kernel {self.name}")
        self._names.add(check_name(name))
        return name
