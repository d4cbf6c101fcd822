"""The tile program: what a kernel family writes, what the CUDA printer prints and the simulator runs.

The idea.  Six statements over index expressions, `Let For Unroll If Roles Do`, and declarations: integer
parameters (a `Var`), `Global`, `Shared`, `Reg`, `TensorMapParam`, `Mbarrier`.  All are immutable values.
Barriers, waits and fences are instructions, not statements.  Programs are written with `KernelBuilder` (see
builder); a record checks its name itself (see expr.names):

    with k.If(i < n):
        k.do(LDG[4], r, k.at(x, i))
        k.do(STG[4], k.at(x, i), r)

A register index holds only unroll variables and ints; memory is addressed by coordinates that the buffer's
layout or strides turn into one index; values and guards are expressions.

Source of the design: Exo's instruction records and tinygrad's checked IR, reduced to what tiles need.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from layoutalg.arch import SWIZZLE_MODES, Space, SwizzleMode, TensorMap
from layoutalg.codegen.expr import Const, Expr, Operand, Var, as_expr, check_name, evaluate, simplify
from layoutalg.codegen.instr import WARP, WARPGROUP, Instr
from layoutalg.codegen.instr import Operand as InstrOperand
from layoutalg.dtype import DType
from layoutalg.errors import IRError, ShapeError, UnsupportedError
from layoutalg.layout import AnyLayout, innermost, layout_size, modes
from layoutalg.notebook import Shown

if TYPE_CHECKING:
    from layoutalg.codegen.language import Tensor


@dataclass(frozen=True, slots=True)
class Global:
    """A pointer parameter: elements of `element_bytes`; a coordinate is turned into an index by `strides`.

    The pointer is a multiple of `align_bytes`, which a launch checks.
    """

    space: ClassVar[Space] = "global"
    offset_bytes: ClassVar[int] = 0
    name: str
    element_bytes: int
    strides: tuple[Expr, ...]
    writable: bool
    align_bytes: int = 16

    def __post_init__(self) -> None:
        check_name(self.name)

    @property
    def unit_bytes(self) -> int:
        """The bytes that an index counts in."""
        return self.element_bytes

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

    `size_bytes` covers the layout's cosize; `align_bytes` is what its swizzle and vectors need.  A ring holds
    `stages` tiles of that layout one after the other: its coordinate has the stage behind the layout's modes.
    An `overlay` lies over other buffers on purpose; any other overlap is refused.  An index counts bytes.
    """

    space: ClassVar[Space] = "shared"
    writable: ClassVar[bool] = True
    unit_bytes: ClassVar[int] = 1
    name: str
    element_bytes: int
    layout: AnyLayout
    size_bytes: int
    align_bytes: int
    offset_bytes: int
    stages: int = 1
    overlay: bool = False

    def __post_init__(self) -> None:
        check_name(self.name)

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of a coordinate: of the layout's modes, and the stages of a ring."""
        extents = tuple(map(layout_size, modes(innermost(self.layout))))
        return extents if self.stages == 1 else (*extents, self.stages)

    def index(self, crd: tuple[Operand, ...]) -> Expr:
        """Byte offset of a coordinate; the stage is added outside of the swizzle."""
        if self.stages == 1:
            return as_expr(self.layout(*crd)) * self.element_bytes
        *inner, stage = crd
        return as_expr(self.layout(*inner)) * self.element_bytes + as_expr(stage) * (
            self.size_bytes // self.stages
        )


@dataclass(frozen=True, slots=True)
class TensorMapParam:
    """A tensor map, 128 bytes that the launch makes from the address of `source` and the integer parameters.

    Innermost dimension first: `dims` count elements, `strides_bytes` has one entry fewer, `box` is what one
    copy moves.  `order` says which mode of the source each dimension is.  No argument of the caller: in the
    signature the maps follow the parameters.
    """

    name: str
    source: Global
    dims: tuple[Expr, ...]
    strides_bytes: tuple[Expr, ...]
    box: tuple[int, ...]
    element: DType
    mode: SwizzleMode = SWIZZLE_MODES["none"]
    element_strides: tuple[int, ...] = ()
    nan_fill: bool = False
    l2_promotion_bytes: int = 0
    order: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_name(self.name)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dims)

    @property
    def box_bytes(self) -> int:
        """Bytes that one copy brings to an mbarrier, also where the box is out of bounds."""
        steps = (1, *(self.element_strides[1:] or (1,) * (self.rank - 1)))
        counts = (-(-n // step) for n, step in zip(self.box, steps, strict=True))
        return math.prod(counts) * self.element.nbytes

    def evaluate(self, values: Mapping[Var, int]) -> TensorMap:
        """The map for values of the integer parameters, legal or not (see layoutalg.legality.check_tma)."""
        return TensorMap(
            self.element,
            tuple(int(evaluate(n, values)) for n in self.dims),
            tuple(int(evaluate(d, values)) for d in self.strides_bytes),
            self.box,
            self.element_strides or (1,) * self.rank,
            mode=self.mode,
            l2_promotion_bytes=self.l2_promotion_bytes,
            nan_fill=self.nan_fill,
        )

    def __str__(self) -> str:
        return self.name


MBARRIER_BYTES = 8
"""The shared memory that one mbarrier takes."""


@dataclass(frozen=True, slots=True)
class Mbarrier:
    """An array of `stages` mbarriers in shared memory, whose phases complete by `count` arrivals each.

    `bar[stage]` is an operand of barrier instructions.  No one else may use its bytes.
    """

    name: str
    count: int
    stages: int
    offset_bytes: int

    def __post_init__(self) -> None:
        check_name(self.name)

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole array."""
        return MBARRIER_BYTES * self.stages

    def __getitem__(self, stage: Operand) -> BarrierRef:
        return BarrierRef(self, simplify(as_expr(stage)))


@dataclass(frozen=True, slots=True)
class BarrierRef:
    """An mbarrier of an array."""

    barrier: Mbarrier
    stage: Expr

    def __str__(self) -> str:
        return f"{self.barrier.name}[{self.stage}]"


@dataclass(frozen=True, slots=True)
class Reg:
    """A register array of 32-bit words per thread, row-major; its last modes are an instruction's words."""

    name: str
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        check_name(self.name)

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
    """A place in a buffer: `index` counts elements of a Global and bytes of a Shared, from its start.  It was
    made of `tensor` and `coordinate`, once; a place that was computed by hand has none.
    """

    buffer: Global | Shared
    index: Expr
    tensor: Tensor | None = None
    coordinate: tuple[Expr, ...] = ()

    def __str__(self) -> str:
        return f"{self.buffer.name}[{self.index}]"


Arg: TypeAlias = RegRef | MemRef | BarrierRef | TensorMapParam | Expr | int


@dataclass(frozen=True, slots=True)
class Do:
    """Run one instruction on its arguments, in the order of its operands."""

    instr: Instr
    args: tuple[Arg, ...]

    @property
    def pairs(self) -> tuple[tuple[InstrOperand, Arg], ...]:
        """The operands of the instruction, each with its argument."""
        return tuple(zip(self.instr.operands, self.args, strict=True))

    @property
    def guards(self) -> tuple[Expr, ...]:
        """The predicates where it reads."""
        return tuple([arg for o, arg in self.pairs if o.role == "guard" and isinstance(arg, Expr)])

    @property
    def memory(self) -> tuple[tuple[InstrOperand, MemRef], ...]:
        """Its operands in memory, each with the place that it means."""
        return tuple([(o, arg) for o, arg in self.pairs if isinstance(arg, MemRef)])

    @property
    def tensor_map(self) -> TensorMapParam | None:
        """The tensor map that it copies by, if it does."""
        return next((arg for arg in self.args if isinstance(arg, TensorMapParam)), None)

    def __str__(self) -> str:
        shown = [
            f"{arg:#018x}" if o.element == "u64" and isinstance(arg, int) else str(arg)
            for o, arg in self.pairs
        ]
        return f"{self.instr.name}({', '.join(shown)})"


@dataclass(frozen=True, slots=True)
class Let:
    """Name the value of an expression, or the number of a register as an index, `var` of kind data."""

    var: Var
    value: Expr | RegRef

    def __str__(self) -> str:
        return f"{self.var} = {self.value}"


@dataclass(frozen=True, slots=True)
class Carry:
    """A place in `buffer` that a loop moves: `var` is the element index `first`, then `step` more a turn."""

    var: Var
    buffer: Global
    first: Expr
    step: Expr


@dataclass(frozen=True, slots=True)
class For:
    """Run `body` for var = 0 .. count - 1; `unroll` is a hint to the compiler (1: leave it rolled).

    `carry` are the places that move along, which `body` may use; lowering adds them.
    """

    var: Var
    count: Expr
    body: Body
    unroll: int = 1
    carry: tuple[Carry, ...] = ()

    def __str__(self) -> str:
        return f"for {self.var} < {self.count}"


@dataclass(frozen=True, slots=True)
class Unroll:
    """Repeat `body` for var = 0 .. count - 1, unrolled: register indices may use `var`."""

    var: Var
    count: int
    body: Body

    def __str__(self) -> str:
        return f"unroll {self.var} < {self.count}"


@dataclass(frozen=True, slots=True)
class If:
    """Run `body` in lanes where `condition` holds, `orelse` in the others."""

    condition: Expr
    body: Body
    orelse: Body = ()

    def __str__(self) -> str:
        return f"if {self.condition}"


@dataclass(frozen=True, slots=True)
class Role:
    """The work of `warps` warps from `first_warp` on; in `body` their threads count from 0, as `thread`."""

    name: str
    first_warp: int
    warps: int
    body: Body

    def __post_init__(self) -> None:
        check_name(self.name, "role")

    @property
    def first_thread(self) -> int:
        """The thread of the block that is the role's thread 0."""
        return WARP * self.first_warp

    @property
    def is_warpgroups(self) -> bool:
        """Whether it is whole warpgroups, each of four warps from a multiple of four on."""
        return self.first_thread % WARPGROUP == WARP * self.warps % WARPGROUP == 0

    @property
    def thread(self) -> Var:
        """The thread's index in the role."""
        return Var(f"{self.name}_tid", WARP * self.warps, "thread")

    def __str__(self) -> str:
        last = self.first_warp + self.warps - 1
        warps = f"warps {self.first_warp} to {last}" if self.warps > 1 else f"warp {last}"
        return f"role {self.name}: {warps}"


@dataclass(frozen=True, slots=True)
class Roles:
    """Different warps do different work: a choice by the warp; warps of no role pass by."""

    parts: tuple[Role, ...]

    def __str__(self) -> str:
        return f"roles {', '.join(part.name for part in self.parts)}"


Stmt: TypeAlias = Do | Let | For | Unroll | If | Roles
Body: TypeAlias = tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Kernel(Shown):
    """A finished tile program.

    `threads` per block (one dimension); `grid` in blocks, expressions of the parameters; `params` in the
    order of the kernel's signature; `notes` are the lines of its header comment.  A kernel with `awaited`
    pointers, by name, may start while the one in front of it ends: it waits itself before it touches these.

    `cluster` blocks per cluster along each side of the grid; `maps` and `barriers` are tensor maps and
    mbarriers.  `as_written`: its addresses are printed as they are, without what `lower` makes of them.
    `cooperative`: its blocks wait for each other, and the launch has to keep all of them resident; such a
    kernel awaits nothing (UnsupportedError).

    What the kernel is right for, beside the parameters' own declarations: `conditions` between integer
    parameters; `constants` by name, built into its statements where a parameter could be; `scalars`, the
    parameters that are bits of a number, with what they hold.
    """

    name: str
    threads: int
    grid: tuple[Expr, Expr, Expr]
    params: tuple[Global | Var, ...]
    shared: tuple[Shared, ...]
    regs: tuple[Reg, ...]
    body: Body
    notes: tuple[str, ...] = ()
    min_blocks: int = 1
    awaited: tuple[str, ...] = ()
    conditions: tuple[Expr, ...] = ()
    constants: tuple[tuple[str, int], ...] = ()
    scalars: tuple[tuple[str, str], ...] = ()
    cluster: tuple[int, int, int] = (1, 1, 1)
    maps: tuple[TensorMapParam, ...] = ()
    barriers: tuple[Mbarrier, ...] = ()
    as_written: bool = False
    cooperative: bool = False

    @property
    def declared(self) -> tuple[Global | Var | TensorMapParam | Shared | Mbarrier | Reg, ...]:
        """Everything that has a name from the start, in the order of declaration in the text."""
        return (*self.params, *self.maps, *self.shared, *self.barriers, *self.regs)

    @property
    def integers(self) -> tuple[Var, ...]:
        """The parameters that are integers."""
        return tuple([p for p in self.params if isinstance(p, Var)])

    @property
    def pointers(self) -> tuple[Global, ...]:
        """The parameters that are pointers."""
        return tuple([p for p in self.params if isinstance(p, Global)])

    def blocks(self, values: Mapping[Var, int]) -> tuple[int, int, int]:
        """Blocks of a launch along x, y and z, for values of the integer parameters."""
        x, y, z = (int(evaluate(extent, values)) for extent in self.grid)
        return x, y, z

    @property
    def cluster_blocks(self) -> int:
        """Blocks of one cluster."""
        return math.prod(self.cluster)

    @property
    def dependent(self) -> bool:
        """Whether it may start while the one in front of it ends."""
        return bool(self.awaited)

    def __post_init__(self) -> None:
        check_name(self.name, "kernel")
        if self.dependent and self.cooperative:
            raise UnsupportedError(
                f"{self.name} waits for all blocks of its launch and may start before the kernel in front of "
                "it ends: one of both is accepted"
            )
        for name, count in Counter([self.name, *(d.name for d in self.declared)]).items():
            if count > 1:
                raise IRError("name", name, f"{name} names {count} things of {self.name}")

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
        """Shared memory of one block, its mbarriers included."""
        placed: tuple[Shared | Mbarrier, ...] = (*self.shared, *self.barriers)
        return max((s.offset_bytes + s.size_bytes for s in placed), default=0)

    def __str__(self) -> str:
        return "\n".join([f"kernel {self.name}", *_outline(self.body, 1)])


def walk(body: Body) -> Iterator[Stmt]:
    """Every statement, in program order, parents first.

    >>> [str(s) for s in walk((Let(Var("i", 1, "let"), Const(0)),))]
    ['i = 0']
    """
    for s in body:
        yield s
        for inner in bodies(s):
            yield from walk(inner)


def calls(body: Body) -> Iterator[Do]:
    """Every instruction, in program order."""
    return (s for s in walk(body) if isinstance(s, Do))


def bodies(s: Stmt) -> tuple[Body, ...]:
    """The statements inside of a statement: the bodies of a loop, of a branch, or of roles."""
    match s:
        case For(body=inner) | Unroll(body=inner):
            return (inner,)
        case If(body=inner, orelse=other):
            return inner, other
        case Roles(parts):
            return tuple(part.body for part in parts)
    return ()


def with_bodies(s: Stmt, change: Callable[[Body], Body]) -> Stmt:
    """A statement with its bodies changed."""
    match s:
        case For() | Unroll():
            return replace(s, body=change(s.body))
        case If():
            return replace(s, body=change(s.body), orelse=change(s.orelse))
        case Roles(parts):
            return Roles(tuple(replace(part, body=change(part.body)) for part in parts))
    return s


def expressions(s: Stmt) -> Iterator[Expr]:
    """The expressions that a statement itself reads, without those of its body.

    >>> [str(e) for e in expressions(Let(Var("i", 2, "let"), Const(1)))]
    ['1']
    """
    match s:
        case Do(_, args):
            for arg in args:
                match arg:
                    case RegRef(_, index):
                        yield from index
                    case MemRef(buffer, e):
                        yield e
                        if isinstance(buffer, Global):
                            yield from buffer.strides
                    case BarrierRef(_, stage):
                        yield stage
                    case _ if isinstance(arg, Expr):
                        yield arg
        case If(e):
            yield e
        case Let(_, value):
            yield from value.index if isinstance(value, RegRef) else (value,)
        case For(_, count, _, _, carry):
            yield count
            for c in carry:
                yield from (c.first, c.step)


def _outline(body: Body, level: int) -> Iterator[str]:
    for s in body:
        yield "  " * level + str(s)
        match s:
            case If(body=inner, orelse=other) if other:
                yield from (*_outline(inner, level + 1), "  " * level + "else", *_outline(other, level + 1))
            case Roles(parts):
                for part in parts:
                    yield "  " * (level + 1) + str(part)
                    yield from _outline(part.body, level + 2)
            case _:
                for inner in bodies(s):
                    yield from _outline(inner, level + 1)
