"""Back end 1: a tile program as CUDA C++ text, written to be read.

The text is a pure function of the kernel: stable names, a header comment with what the family says of the
layouts and the predicted report and what a launch must give (see contract), the helpers that are used and no
others, no timestamps.  Index values are `u32`, or `u64` where the proved bound needs it (see ctext);
registers, pointers and scalars have the types that the instructions take them for (see types); what is named
and never used is left out.  What different warps do is a choice by the warp, whose number is the same in all
lanes and known to be (a shuffle), so that a branch is one branch.

A kernel, its helpers and its types are in a namespace of the kernel's name, so that several files can be
linked; the kernel itself is `extern "C"`, so that a driver finds it by its name.  Lines that are too long are
broken where a reader would.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy

from layoutalg.arch import DEFAULT_ARCH
from layoutalg.codegen.expr import Const, Expr, FloorDiv, Lt, Var, ctype, summands, terms, to_c, total
from layoutalg.codegen.instr import ANY, WARP, Instr, Operand, float_literal
from layoutalg.codegen.printing.names import Names, used_statements
from layoutalg.codegen.printing.value_types import Types
from layoutalg.codegen.program import (
    MBARRIER_BYTES,
    Arg,
    BarrierRef,
    Body,
    Do,
    For,
    Global,
    If,
    Kernel,
    Let,
    MemRef,
    RegRef,
    Role,
    Roles,
    Shared,
    TensorMapParam,
    Unroll,
    calls,
    contract,
    dynamic_bytes,
    lines,
    printed,
    walk,
)
from layoutalg.errors import UnsupportedError

__all__ = ["HELPERS_BEGIN", "HELPERS_END", "print_kernel", "print_kernels", "to_cuda"]

WIDTH = 110
"""The most columns of a line."""

_BREAK = re.compile(
    r'"(?:[^"\\]|\\.)*"|(?P<open>[([{])|(?P<close>[)\]}])|(?P<comma>, )|(?P<sign> (?=[-+*/%&|^?:<>=]+ ))'
)
"""Strings, parentheses, and where a line may end: after a comma, in front of an operator."""

_RANK = {"?": 0, ":": 0, "&&": 0, "||": 0, "+": 1, "-": 1}
"""The operators by how good they are to break at; what binds closer stays together."""

_LAST = 99
"""An assignment is broken where nothing else can be."""


def wrapped(line: str) -> Iterator[str]:
    """A line of code, or several of at most WIDTH columns: broken where the fewest parentheses are.

    A line that cannot be broken stays as it is.

    >>> list(wrapped("f(" + "a" * 60 + ", " + "b" * 60 + ");"))[1].strip()[:2]
    'bb'
    """
    indent = line[: len(line) - len(line.lstrip())]
    more = indent + "    "
    if len(line) > WIDTH and line.lstrip().startswith("//"):
        yield from (f"{indent}{x}" for x in comment(line.strip()[3:], len(indent)).splitlines())
        return
    while len(line) > WIDTH:
        at = _place(line, len(more) + 1)
        if at is None:
            break
        yield line[:at].rstrip()
        line = more + line[at:].lstrip()
    yield line


def _place(line: str, least: int) -> int | None:
    """The position at which a line is broken."""
    best: tuple[int, int, int] | None = None
    depth = 0
    for match in _BREAK.finditer(line):
        if match["open"]:
            depth += 1
        elif match["close"]:
            depth -= 1
        elif match["comma"] or match["sign"]:
            at = match.end() if match["comma"] else match.start()
            rank = 0 if match["comma"] else _RANK.get(line[at : at + 3].strip(), 2)
            level = _LAST if line[at : at + 3] == " = " else depth
            if least < at <= WIDTH and (best is None or (level, rank, -at) <= best):
                best = level, rank, -at
    return None if best is None else -best[2]


def comment(text: str, indent: int = 0) -> str:
    """Lines of a comment; what is longer than WIDTH goes on in the next, with more indent.

    >>> comment("a")
    '// a'
    """
    line = f"// {text}".rstrip().replace("\\", "/")
    out = []
    indented = "//     " if not text.startswith(" ") else "//" + " " * (len(text) - len(text.lstrip()) + 5)
    while len(line) > WIDTH - indent:
        at = line.rfind(" ", len(indented) + 1, WIDTH - indent + 1)
        if at < 0:
            break
        out.append(line[:at].rstrip())
        line = indented + line[at:].lstrip()
    return "\n".join([*out, line])


HELPERS_BEGIN, HELPERS_END = "// -- device helpers", "// -- end of device helpers"
"""Lines around the helpers, so that a host build can put its own in their place."""

ALIASES = {
    "u8": ("unsigned char", ""),
    "u16": ("unsigned short", ""),
    "u32": ("unsigned int", ""),
    "u64": ("unsigned long long", ""),
    "f16": ("unsigned short", "the bits of an element"),
    "bf16": ("unsigned short", "the bits of an element"),
    "f16x2": ("unsigned int", "two elements, low half first"),
    "bf16x2": ("unsigned int", "two elements, low half first"),
}
"""Types of a text by another name."""

TENSOR_MAP = "struct alignas(64) TensorMap { u64 opaque[16]; };  // 128 bytes of cuTensorMapEncodeTiled"
"""CUtensorMap, which only cuda.h defines, by another name."""

_QUALIFIED = "__device__ __forceinline__ "


def to_cuda(kernel: Kernel, arch: str = DEFAULT_ARCH) -> str:
    """CUDA C++ source of a kernel, checked and lowered for an architecture.

    Raises what `printed` raises.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> print(to_cuda(KernelBuilder("empty", threads=32).build()).splitlines()[-1])
    }  // namespace layoutalg::empty
    """
    return print_kernel(printed(kernel, arch))


def print_kernel(kernel: Kernel) -> str:
    """CUDA C++ source of a kernel as it is.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> "__global__" in print_kernel(KernelBuilder("empty", threads=32).build())
    True
    """
    return print_kernels([kernel])


def print_kernels(kernels: Sequence[Kernel], head: Iterable[str] = ()) -> str:
    """Print one file of several kernels, which share helpers, as they are; `head` are lines of its comment.

    Raises UnsupportedError for two instructions of one name.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> print_kernels([KernelBuilder(name, threads=32).build() for name in ("a", "b")]).count("__global__")
    2
    """
    space = f"layoutalg::{kernels[0].name}"
    helpers = _Helpers()
    bodies = []
    for kernel in kernels:
        printer = _Printer(kernel, helpers)
        text = [*printer.signature(), *printer.prologue(), *printer.body(printer.statements, 1), "}"]
        bodies.append([*(["", *_head(kernel), ""] if len(kernels) > 1 else [""]), *_narrow(text)])
    code = [*_narrow(helpers.text()), *(line for body in bodies for line in body)]
    above = [comment(line) for line in head]
    single = [] if len(kernels) > 1 else list(_head(kernels[0]))
    first = [*above, *(["//"] if above and single else []), *single]
    opening = [*first, "", f"namespace {space} {{", "", *_aliases(code)]
    return "\n".join([*opening, *code, "", f"}}  // namespace {space}", ""])


def _head(kernel: Kernel) -> Iterator[str]:
    yield f"// {kernel.name}, generated by layoutalg"
    for line in "\n".join([*kernel.notes, "", *lines(contract(kernel))]).splitlines():
        yield comment(line)


def _narrow(code: Iterable[str]) -> Iterator[str]:
    for line in code:
        yield from wrapped(line)


def _aliases(code: Sequence[str]) -> Iterator[str]:
    """The names of types that a text uses, and what it needs for INFINITY."""
    words = set(re.findall(r"\w+", "\n".join(line.partition("//")[0] for line in code)))
    has_maps = "TensorMap" in words
    words |= {"u64"} if has_maps else set()
    for name, (meaning, why) in ALIASES.items():
        if name in words:
            yield f"using {name} = {meaning};" + (f"  // {why}" if why else "")
    if has_maps:
        yield TENSOR_MAP
    if "INFINITY" in words:
        yield from ("#ifndef INFINITY", "#define INFINITY __int_as_float(0x7f800000)", "#endif")
    yield ""


def without_clusters(source: str, cluster: tuple[int, int, int]) -> str:
    """A text whose kernels name no clusters, for those who ask what fits; the clusters are those of a kernel.

    >>> without_clusters("void __cluster_dims__(2, 1, 1) k() {}", (2, 1, 1))
    'void k() {}'
    """
    return source.replace(_cluster_dims(cluster), "")


def _cluster_dims(cluster: tuple[int, int, int]) -> str:
    return f"__cluster_dims__({', '.join(map(str, cluster))}) " if math.prod(cluster) > 1 else ""


def print_helpers(instrs: Iterable[Instr]) -> str:
    """The helpers of some instructions, and the types they need, as they are in a kernel's text.

    >>> from layoutalg.codegen.instr import BAR
    >>> print_helpers([BAR]).splitlines()[1]
    '// -- device helpers'
    """
    helpers = _Helpers()
    for instr in instrs:
        for floats in (False, True)[: 2 if instr.float_text else 1]:
            helpers.add(instr, floats=floats)
    code = list(_narrow(helpers.text()))
    return "\n".join([*_aliases(code), *code, ""])


@dataclass
class _Helpers:
    """The helpers that kernels of a file call, in the order of their first use."""

    used: dict[tuple[str, bool], Instr] = field(default_factory=dict)

    def add(self, instr: Instr, *, floats: bool) -> None:
        """Remember an instruction.  Raises UnsupportedError for another one of its name."""
        for kind in (False, True):
            if self.used.get((instr.name, kind), instr) is not instr:
                raise UnsupportedError(f"two different instructions are named {instr.name}")
        self.used[instr.name, floats] = instr

    def text(self) -> Iterator[str]:
        if not self.used:
            return
        yield HELPERS_BEGIN
        for function in dict.fromkeys(text for instr in self.used.values() for text in instr.uses):
            yield from f"{_QUALIFIED}{function}".splitlines()
        for (_, floats), instr in self.used.items():
            immediates = [f"{o.element or 'int'} {o.name}" for o in instr.operands if o.role == "imm"]
            if immediates:
                yield f"template <{', '.join(immediates)}>"
            yield from f"{_QUALIFIED}{instr.float_text if floats else instr.text}".splitlines()
        yield HELPERS_END


class _Printer:
    """The lines of one kernel."""

    def __init__(self, kernel: Kernel, helpers: _Helpers) -> None:
        self.kernel, self.types, self.helpers = kernel, Types(kernel), helpers
        self.statements = used_statements(kernel.body)
        self.names = Names(kernel, self.statements)
        self.calls = list(calls(self.statements))
        self.role: Role | None = None
        for s in self.calls:
            helpers.add(s.instr, floats=self.types.takes_floats(s))

    def signature(self) -> Iterator[str]:
        kernel, types = self.kernel, self.types.signature(self.kernel)
        params = [
            f"{types[p.name]} __restrict__ {p.name}"
            if isinstance(p, Global)
            else f"const {types[p.name]} {p.name}"
            for p in kernel.params
        ]
        params += [f"const __grid_constant__ TensorMap {m.name}" for m in kernel.maps]
        is_stated = kernel.min_blocks > 1 or any(map(_moves_registers, self.calls))
        bounds = f"{kernel.threads}, {kernel.min_blocks}" if is_stated else str(kernel.threads)
        yield f'extern "C" __global__ void {_cluster_dims(kernel.cluster)}__launch_bounds__({bounds})'
        yield f"{kernel.name}({', '.join(params)})"
        yield "{"

    def prologue(self) -> Iterator[str]:
        kernel = self.kernel
        if kernel.shared or kernel.barriers:
            align = max((s.align_bytes for s in kernel.shared), default=MBARRIER_BYTES)
            size = "" if dynamic_bytes(kernel) else str(kernel.shared_bytes)
            outside = "" if size else "extern "
            yield f"    {outside}__shared__ __align__({align}) u8 smem[{size}];"
            yield from self.names.shared_lines()
        roles = [s for s in walk(self.statements) if isinstance(s, Roles)]
        counted = any(
            part.first_warp and self.names.is_used(part.thread.name) for s in roles for part in s.parts
        )
        if self.names.is_used("tid") or counted:
            yield "    const u32 tid = threadIdx.x;"
        if roles:
            yield "    const u32 warp = __shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0);"
        for axis, var in zip("xyz", kernel.block_vars, strict=True):
            if not var.facts.is_constant and self.names.is_used(var.name):
                yield f"    const u32 {var.name} = blockIdx.{axis};"
        for reg in kernel.regs:
            if self.names.is_used(reg.name):
                yield f"    {self.types.word(reg.name)} {reg.name}{''.join(f'[{n}]' for n in reg.shape)};"

    def body(self, body: Body, level: int) -> Iterator[str]:
        pad = "    " * level
        for s in body:
            match s:
                case Do():
                    yield from (f"{pad}// {line}" for line in self.names.layouts(s))
                    yield from (f"{pad}{line}" for line in self._call(s))
                case Let(var, value) if isinstance(value, RegRef):
                    word = self._word(value, 0)
                    bits = f"__float_as_uint({word})" if self.types.element(value.reg.name) == "f32" else word
                    yield f"{pad}const {ctype(var)} {self.names.of(var)} = {bits};"
                case Let(var, value) if not isinstance(value, RegRef):
                    yield from (f"{pad}// {line}" for line in self.names.base_layout(var))
                    yield f"{pad}const {ctype(var)} {self.names.of(var)} = {self._value(value)};"
                case For():
                    yield from self._loop(s, level)
                case Unroll(var, count, inner):
                    yield f"{pad}#pragma unroll"
                    yield f"{pad}for (u32 {var.name} = 0; {var.name} < {count}; ++{var.name}) {{"
                    yield from self.body(inner, level + 1)
                    yield f"{pad}}}"
                case If(condition, inner, orelse):
                    yield f"{pad}{{" if condition == Const(1) else f"{pad}if ({self._text(condition)}) {{"
                    yield from self.body(inner, level + 1)
                    if orelse:
                        yield f"{pad}}} else {{"
                        yield from self.body(orelse, level + 1)
                    yield f"{pad}}}"
                case Roles(parts):
                    yield from self._roles(parts, level)

    def _value(self, value: Expr) -> str:
        """A value that is named; warps of a role by `warp`, of which the compiler knows that lanes agree."""
        match self.role, value:
            case Role(first_warp=0) as role, FloorDiv(a, Const(n)) if a == role.thread and n % WARP == 0:
                return f"warp / {n // WARP}"
        return self._text(value)

    def _roles(self, parts: Sequence[Role], level: int) -> Iterator[str]:
        """A choice by the warp, each part under the name of its role."""
        pad, passed, opening = "    " * level, 0, ""
        for part in sorted(parts, key=lambda part: part.first_warp):
            first, end = part.first_warp, part.first_warp + part.warps
            bounds = [f"warp >= {first}"] if first != passed else []
            bounds += [f"warp < {end}"] if WARP * end < self.kernel.threads else []
            test = f"warp == {first}" if part.warps == 1 and len(bounds) == 2 else " && ".join(bounds)
            yield f"{pad}{opening}{f'if ({test}) ' if test else ''}{{  // {part}"
            if self.names.is_used(part.thread.name):
                thread = f"tid - {part.first_thread}" if first else "threadIdx.x"
                yield f"{pad}    const u32 {part.thread.name} = {thread};"
            self.role = part
            yield from self.body(part.body, level + 1)
            self.role = None
            passed, opening = (end if first == passed else passed), "} else "
        yield f"{pad}}}"

    def _loop(self, s: For, level: int) -> Iterator[str]:
        pad, var = "    " * level, s.var
        for c in s.carry:
            first = self._pointer(c.buffer, c.first)
            yield f"{pad}{self.types.pointer(c.buffer)} {c.var.name} = {first};"
        yield f"{pad}#pragma unroll {s.unroll}"
        kind = ctype(s.count)  # the variable reaches it at the end
        steps = "".join(f", {c.var.name} += {self._text(c.step)}" for c in s.carry)
        more = self._text(Lt(var, s.count))
        yield f"{pad}for ({kind} {var.name} = 0; {more}; ++{var.name}{steps}) {{"
        if s.carry and s.unroll == 1:  # kept apart: to save a register, nvcc would derive one from another
            carried = ", ".join(f'"+l"({c.var.name})' for c in s.carry)
            yield f'{pad}    asm("" : {carried});'
            for c in s.carry:  # what came out of the asm could point anywhere: LD instead of LDG
                yield f"{pad}    __builtin_assume(__isGlobal({c.var.name}));"
        yield from self.body(s.body, level + 1)
        yield f"{pad}}}"

    def _text(self, e: Expr) -> str:
        return self.names.renamed(to_c(e), self.types)

    def _pointer(self, buffer: Global, index: Expr) -> str:
        """A pointer to an element: from the buffer's start, or from the carried place it begins with."""
        first = terms(index)[0]
        carried = isinstance(first, Var) and first.kind == "place"
        text = self.names.renamed(summands(index), self.types)
        return text if carried else f"{buffer.name} + {text}"

    def _call(self, s: Do) -> list[str]:
        """A call; a register whose words are of another type than the helper's passes through one that is."""
        floats = self.types.takes_floats(s)
        before: list[str] = []
        after: list[str] = []
        args: list[str] = []
        for o, arg in s.pairs:
            if o.role == "imm":
                continue
            held = isinstance(arg, RegRef) and self.types.element(arg.reg.name) == "f32"
            if isinstance(arg, RegRef) and self._is_float(o, floats=floats) != held:
                args.append(self._converted(o, arg, before, after, len(args), floats=floats))
            else:
                args.append(self._arg(o, arg, floats=floats))
        immediates = [_immediate(s.instr, o, int(str(a))) for o, a in s.pairs if o.role == "imm"]
        template = f"<{', '.join(immediates)}>" if immediates else ""
        call = f"{s.instr.name}{template}({', '.join(args)});"
        if not before and not after:
            return [call]
        return ["{", *(f"    {line}" for line in (*before, call, *after)), "}"]

    def _is_float(self, o: Operand, *, floats: bool) -> bool:
        return o.element == "f32" or (o.element == ANY and floats)

    def _converted(
        self, o: Operand, arg: RegRef, before: list[str], after: list[str], n: int, *, floats: bool
    ) -> str:
        """A register's words as floats, or floats as words, in an array of their own."""
        kind, into, back = ("float", "__uint_as_float", "__float_as_uint")
        if not self._is_float(o, floats=floats):
            kind, into, back = "u32", back, into
        name, places = f"as_{kind}_{n}", [self._word(arg, i) for i in range(arg.words)]
        before.append(f"{kind} {name}[{arg.words}];")
        if o.role in ("in", "inout"):
            before += [f"{name}[{i}] = {into}({x});" for i, x in enumerate(places)]
        if o.role in ("out", "inout"):
            after += [f"{x} = {back}({name}[{i}]);" for i, x in enumerate(places)]
        return f"{name}[0]" if arg.words == 1 else name

    def _word(self, arg: RegRef, i: int) -> str:
        """Word i of the words that a reference covers."""
        if len(arg.index) == len(arg.reg.shape):
            *most, last = arg.index
            return arg.reg.name + "".join(f"[{self._text(x)}]" for x in (*most, total([last, Const(i)])))
        rest = []
        for n in reversed(arg.reg.shape[len(arg.index) :]):
            rest.append(f"[{i % n}]")
            i //= n
        return arg.reg.name + "".join(f"[{self._text(x)}]" for x in arg.index) + "".join(reversed(rest))

    def _arg(self, o: Operand, arg: Arg, *, floats: bool) -> str:
        match arg:
            case RegRef(reg, index):
                rest = "[0]" * (len(reg.shape) - len(index))
                element = reg.name + "".join(f"[{self._text(i)}]" for i in index)
                if arg.words == 1:
                    return element + rest
                return element if rest == "[0]" else f"&{element}{rest}"
            case MemRef(Global() as buffer, index):
                return self._pointer(buffer, index)
            case MemRef(Shared() as buffer, index):
                return self.names.renamed(f"{buffer.name} + {summands(index)}", self.types)
            case BarrierRef(barrier, stage):
                return barrier.name if barrier.stages == 1 else f"&{barrier.name}[{self._text(stage)}]"
            case TensorMapParam(name):
                return f"&{name}"
            case Const(word) if o.role == "value" and self._is_float(o, floats=floats):
                return float_literal(numpy.array([word], numpy.uint32).view(numpy.float32)[0])
            case Var(name) if o.role == "value" and self._is_float(o, floats=floats):
                return name if self.types.is_float(name) else f"__uint_as_float({self._text(arg)})"
            case _ if isinstance(arg, Expr):
                text = self._text(arg)
                as_float = o.role == "value" and self._is_float(o, floats=floats)
                return f"__uint_as_float({text})" if as_float else text
            case _:
                return str(arg)


def _moves_registers(call: Do) -> bool:
    """Whether warps trade registers, for which the assembler has to know how many a thread begins with.

    Source: PTX ISA, setmaxnreg, which needs .maxntid or .reqntid, and a count of its own: .minnctapersm.
    """
    return "setmaxnreg" in call.instr.text


def _immediate(instr: Instr, operand: Operand, n: int) -> str:
    """A template argument; 64 bits and selectors of bytes are written in base 16."""
    if operand.element == "u64":
        return f"0x{n:016X}ull"
    return f"0x{n:04X}" if any(o.name == "selector" for o in instr.operands) else str(n)
