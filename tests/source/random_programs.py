"""Random kernels of whole statements: effects in operands, pointers, references, jumps, narrow types, calls.

`program(seed)` is a text that is CUDA for layoutalg.source and C++ for tests.source.lane_oracle.  Every loop
ends, every shift and division is defined, no operand of an operator changes what its other operand reads; a
value is loaded from shared memory only where it then decides nothing.  Bit-fields are read as operands of a
sum: compilers disagree on the type of `c ? -1 : x.bits`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.source.lane_oracle import GLOBAL, SHARED, Case

TYPES = """struct R { int x, y; };
struct B { unsigned lo : 3; int hi : 5; unsigned char z : 2; };
union U { int i; unsigned short h; unsigned char c[4]; };
static constexpr int TABLE[3] = {5, -2, 9};
"""
MACROS = """#define LEVEL 2
#define SPREAD(x) ((x) * 2 & 255)
#define PUT(at) s[(at) & 4095] = 1
"""
NARROW = ("unsigned", "unsigned char", "short", "signed char", "long", "bool")
WHOLE = ("t", "n")


class Writer:
    """One text as it grows: what has been declared, and the lines."""

    def __init__(self, seed: int, *, wide: bool = False, loads: bool = False) -> None:
        """With `wide`, pointers walk through shared memory, and a few functions of the device are used.

        With `loads`, indices and conditions hold numbers that are loaded from global memory.
        """
        self.random = random.Random(seed)
        self.wide, self.loads = wide, loads
        self.uniform: list[str] = []
        self.turns: list[str] = []
        self.walkers: list[str] = []
        self.lines: list[str] = []
        self.ints: list[str] = []  # what an assignment may set
        self.reads: list[str] = []  # what an expression may read
        self.pointers: list[str] = []
        self.loops = self.names = self.labels = 0
        self.calls: list[Callable[[], str]] = []
        self.budget = self.random.randint(9, 18)
        self.touches = 0

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def put(self, line: str) -> None:
        self.lines.append(line)

    # --- expressions ------------------------------------------------------------------------------------

    def pure(self, depth: int = 2) -> str:
        """An expression without side effects."""
        if depth == 0 or self.chance(20):
            if self.chance(25):
                return str(self.random.choice((0, 1, 2, 3, 5, 7, 8, 12, 31, 33, -1, -3)))
            return self.random.choice((*self.reads, *WHOLE, "t"))
        a, b = self.pure(depth - 1), self.pure(depth - 1)
        if self.wide and self.chance(12):
            turned = f"(int)(__brev((unsigned)({a}) & 15) >> {self.random.randint(26, 29)})"
            arrays = ("m", "m", "TABLE") if "m[2]" in self.reads else ("TABLE",)
            looked_up = f"{self.pick(*arrays)}[({a}) & {self.pick('1', '2')}]"
            shifted = f"(({a}) {self.pick('<<', '>>')} (({b}) & {self.pick('1', '3', '7')}))"
            counted = f"{self.pick('__popc', '__clz', '__ffs')}({a})"
            return self.pick(turned, f"abs((int)({a}))", f"(int)__umul24(({a}) & 127, ({b}) & 255)",
                             looked_up, looked_up, shifted, counted)  # fmt: skip
        k = self.random.randint(1, 9)
        form = self.random.randrange(17)
        if form < 4:
            return f"({a} + {b})"
        if form == 4:
            return f"({a} - {b})"
        if form < 7:
            return f"({a} * {k})"
        if form == 7:
            return f"({a} {self.pick('/', '%')} {k})"
        if form == 8:
            return f"({a} {self.pick('<<', '>>')} {self.random.randint(0, 5)})"
        if form == 9:
            return f"({a} {self.pick('&', '|', '^')} {self.random.choice((b, '7', '12', '40'))})"
        if form == 10:
            return f"({a} {self.pick('<', '>', '<=', '>=', '==', '!=')} {b})"
        if form == 11:
            return f"({self.pick('!', '-', '~')} {a})"
        if form == 12:
            return f"({self.condition()} ? {a} : {b})"
        if form == 13:
            return f"(({self.pick('int', *NARROW)})({a}))"
        if form == 14:
            return f"{self.pick('min', 'max')}((int)({a}), (int)({b}))"
        if form == 15 and self.pointers and self.chance(40):
            return f"*{self.random.choice(self.pointers)}"
        return f"({a} {self.pick('+', '/', '%')} {k}u)"

    def condition(self) -> str:
        """What decides a branch, the same for all lanes or not."""
        return self.pick(
            f"t < {self.random.choice((1, 5, 20, 32, 40))}", f"(t & {self.random.choice((1, 3, 4))})",
            f"t % {self.random.randint(2, 5)} == 1", f"{self.pure(1)} > {self.random.randint(0, 9)}", "n > 3",
            f"{self.pure(1)} != 0",
        )  # fmt: skip

    def effect(self) -> str:
        """An expression that sets a variable."""
        x = self.random.choice(self.ints)
        return self.random.choice(
            (f"({x})++", f"++{x}", f"({x})--", f"({x} = {self.pure(1)})", f"({x} += {self.pure(1)})",
             f"({x} ^= {self.random.randint(1, 9)})")
        )  # fmt: skip

    def decision(self) -> str:
        """A condition that may have side effects in its operands."""
        if not self.ints or self.chance(45):
            return self.condition()
        return self.pick(
            f"{self.condition()} && {self.effect()}", f"{self.condition()} || {self.effect()}",
            f"({self.condition()} ? {self.effect()} : {self.effect()})",
            f"({self.effect()}, {self.condition()})",
            f"!({self.condition()} && {self.effect()} > 2) || {self.condition()}",
        )  # fmt: skip

    def valued(self) -> str:
        """The right side of an assignment."""
        if not self.ints or self.chance(60):
            return self.pure(2)
        return self.pick(
            self.effect(), f"{self.condition()} ? {self.effect()} : {self.effect()}",
            f"({self.effect()}, {self.pure(1)})", f"{self.condition()} && {self.effect()}",
            f"({{ int z_ = {self.pure(1)}; {self.effect()}; z_ + 1; }})",
            f"{self.condition()} ? {self.effect()} : 5",
        )  # fmt: skip

    # --- statements -------------------------------------------------------------------------------------

    def access(self) -> None:
        """A store to the shared array, on a line of its own."""
        self.touches += 1
        index = self.random.choice(self.reads + self.reads + [self.pure(2)])
        self.put(f"s[({index} * {self.random.choice((1, 1, 2, 3))} + {self.pure(1)}) & 4095] = 1;")

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is declared inside is forgotten at the end."""
        kept = [
            [*names]
            for names in (self.ints, self.reads, self.pointers, self.calls, self.walkers, self.uniform)
        ]
        yield
        self.ints, self.reads, self.pointers, self.calls, self.walkers, self.uniform = kept

    def block(self, most: int = 3) -> None:
        """Statements in braces, with a scope of their own."""
        self.put("{")
        with self.scope():
            for _ in range(self.random.randint(1, most)):
                self.statement()
        self.put("}")

    def statement(self) -> None:
        """Some statement, as long as there is room."""
        self.budget -= 1
        if self.budget < 0:
            return self.access() if self.chance(50) else None
        kinds: tuple[tuple[int, Callable[[], None]], ...] = (
            (20, self.assign), (16, self.access), (12, self.declare), (10, self.branch), (10, self.loop),
            (7, self.alias), (6, self.call), (4, self.switch), (3, self.jump), (4, self.record),
            (2, self.pun), (3, self.function_object), (3, self.leave), (4, self.array),
            (1, self.rare), (3, self.shadow), (14 * self.wide, self.walk), (3 * self.wide, self.lost_pointer),
            (4 * self.wide, self.late), (3 * self.wide, self.preprocessed), (24 * self.loads, self.load),
        )  # fmt: skip
        self.random.choices([k for _, k in kinds], [w for w, _ in kinds])[0]()
        return None

    def assign(self) -> None:
        x = self.random.choice(self.ints)
        op = self.pick("=", "=", "+=", "-=", "^=", "|=", "&=")
        if self.chance(12):
            op = self.pick("/=", "%=", "<<=", ">>=")
            self.put(
                f"{x} {op} {self.random.randint(1, 5)}{self.pick('', 'u') if op in ('/=', '%=') else ''};"
            )
        elif self.chance(15) and len(self.ints) > 1:
            whole = [v for v in self.ints if v.startswith("v") and "." not in v] or self.ints
            self.put(f"{self.effect()};") if len(whole) < 2 else self.put(
                f"{self.effect()}, {self.effect()};"
            )
        else:
            self.put(f"{x} {op} {self.valued()};")
        if self.chance(30):
            self.access()

    def declare(self) -> None:
        kind = "int" if self.chance(55) else self.pick(*NARROW)
        x = self.name()
        self.put(f"{kind} {x} = {self.valued()};")
        self.reads.append(x)
        if kind != "bool":
            self.ints.append(x)

    def shadow(self) -> None:
        x = self.random.choice([v for v in self.ints if v.isalnum()] or ["v0"])
        value = re.sub(rf"\b{x}\b", "t", self.pure(1))
        self.put(f"{{ int {x} = {value};")
        with self.scope():
            self.statement()
        self.put("}")

    def branch(self) -> None:
        self.put(f"if ({self.decision()})")
        self.block()
        if self.chance(40):
            self.put("else")
            self.block()

    def loop(self) -> None:
        if self.loops >= 2:
            return self.assign()
        self.loops += 1
        i = self.name()
        kind = self.random.randrange(4)
        bound = self.pick(str(self.random.randint(1, 6)), "(t & 7)", "t % 5", str(self.random.randint(1, 9)))
        self.put("{ LOOP")
        if kind == 0:
            first, step = self.pick("0", "1", "t & 3"), self.pick("1", "1", "2")
            self.put(f"for (int {i} = {first}; {i} < {bound}; {i} += {step}) {{ TURN")
            end = "} }"
        elif kind == 1:
            self.put(f"int {i} = {bound}; while ({i}-- > 0) {{ TURN")
            end = "} }"
        elif kind == 2:
            self.put(f"int {i} = 0; do {{ TURN")
            end = f"}} while (++{i} < {bound}); }}"
        else:
            self.put(f"int {i} = 0; while (true) {{ TURN if ({i}++ >= {bound}) break;")
            end = "} }"
        with self.scope():
            self.reads.append(i)
            alike = "t" not in bound and (kind != 0 or "t" not in first)
            self.turns += [i] * alike
            for _ in range(self.random.randint(1, 4)):
                self.statement()
                if self.chance(15):
                    self.put(f"if ({self.decision()}) {self.pick('break', 'continue', 'break')};")
        self.turns = self.turns[: len(self.turns) - alike]
        self.put(end)
        self.loops -= 1
        return None

    def alias(self) -> None:
        whole = [v for v in self.ints if v in self.plain]
        if len(whole) < 2:
            return self.declare()
        x, y = self.random.sample(whole, 2)
        p = self.name()
        form = self.random.randrange(6)
        if form == 0:
            self.put(f"int* {p} = &{x};")
            self.pointers.append(p)
            self.ints.append(f"*{p}")
        elif form == 1:
            self.put(
                f"int* {p} = {self.condition()} ? &{x} : &{y}; *{p} {self.pick('=', '+=')} {self.pure(1)};"
            )
        elif form == 2:
            self.put(f"({self.condition()} ? {x} : {y}) {self.pick('=', '+=', '^=')} {self.pure(1)};")
        elif form == 3:
            self.put(f"int& {p} = {self.condition()} ? {x} : {y};")
            self.ints.append(p)
            self.reads.append(p)
        elif form == 4:
            self.put(f"int& {p} = {x};")
            self.ints.append(p)
            self.reads.append(p)
        elif self.pointers:
            q = self.random.choice(self.pointers)
            self.put(f"{q} = &{x};")
            self.put(f"*{q} += {self.pure(1)};")
        return None

    def record(self) -> None:
        form = self.random.randrange(5)
        e = self.pure(1)
        if form == 0:
            self.put(f"R w{self.names} = r; w{self.names}.x += {e}; r.y = w{self.names}.x;")
            self.names += 1
        elif form == 1:
            self.put(f"{{ R* z_ = &r; z_->{self.pick('x', 'y')} = {e}; }}")
        elif form == 2:
            self.put(f"q.{self.pick('lo', 'hi', 'z')} {self.pick('=', '+=', '^=')} {e};")
        elif form == 3:
            self.put(f"{self.pick('++q.lo', 'q.hi--', 'q.z++', '--q.hi')};")
        else:
            self.put(f"r.x = (q.{self.pick('lo', 'hi')} = {e}) + 0;")

    def array(self) -> None:
        form = self.random.randrange(5)
        e = self.pure(1)
        self.put(
            (f"m[{self.random.randint(0, 2)}] = {e};", f"m[({self.pure(1)}) & 1] = {e};",
             f"{{ int* z_ = m + 1; *z_++ = {e}; z_[0] += 2; }}",
             f"{{ int& z_ = m[{self.random.randint(0, 2)}]; z_ -= {e}; }}",
             f"for (int z_ = 0; z_ < 3; ++z_) m[z_] += {e};")[form]
        )  # fmt: skip

    def walk(self) -> None:
        """A pointer into the shared array: made, moved, exchanged, and used."""
        e, k = self.pure(1), self.random.randint(1, 40)
        if not self.walkers or self.chance(25):
            p = self.name()
            self.put(f"auto {p} = s + (({e}) & 63);")
            self.walkers.append(p)
        p, q = self.random.choice(self.walkers), self.random.choice(self.walkers)
        move = self.pick(f"{p} += {k};", f"{p} -= {k};", f"++{p};", f"{p} = {q} + (({e}) & 31);",
                         f"{{ auto z_ = {p}; {p} = {q}; {q} = z_; }}", f"if ({self.condition()}) {p} += {k};",
                         f"for (int z_ = 0; z_ < 3; ++z_) {{ TURN {p} += {k}; }}")  # fmt: skip
        self.put(f"{{ LOOP {move} }}" if "TURN" in move else move)
        self.put(f"{p}[({self.pure(1)}) & 63] = 1;")

    def alike(self) -> str:
        """An expression that is alike in all lanes of a warp."""
        names = (*self.uniform, *self.uniform, *self.turns, "n", "t / 32", str(self.random.randint(0, 9)))
        a, b = self.pick(*names), self.pick(*names)
        return self.pick(a, f"{a} + {b}", f"{a} * {self.random.randint(2, 5)} - {b}", f"({a} ^ {b})")

    def load(self) -> None:
        """A number that is loaded, alike in all lanes more often than not, and a use of it; or a store."""
        index = self.pure(1) if self.chance(15) else self.alike()
        if self.chance(15):
            return self.put(f"g[({index}) & 63] = {self.pure(1)};")
        if self.turns and self.ints and self.chance(25):  # for the turn behind this one
            self.put(f"{self.random.choice(self.ints)} {self.pick('=', '=', '+=')} g[({index}) & 63];")
            return self.access()
        x, k = self.name(), self.random.randint(0, 30)
        self.put(f"const {self.pick('int', 'int', *NARROW)} {x} = g[({index}) & 63];")
        self.uniform.append(x)
        self.reads += [x, x]
        form = self.random.randrange(4)
        if form == 0:
            return self.put(f"s[({x} * {self.pick('32', '4', '1', '33')} + t) & 4095] = 1;")
        if form == 1:
            self.put(f"if ({x} {self.pick('<', '>', '==', '!=')} {self.pick(str(k), 't', 'n')})")
            return self.block(2)
        if form == 2 and self.loops < 2 and "unsigned" not in self.lines[-1]:
            i = self.name()
            self.loops += 1
            self.put(f"{{ LOOP for (int {i} = {self.pick('0', 't & 3', 't / 32')}; {i} < {x}; ++{i}) {{ TURN")
            with self.scope():
                self.reads.append(i)
                self.block(2)
            self.put("} }")
            self.loops -= 1
            return None
        return self.access()

    def lost_pointer(self) -> None:
        """A pointer that a loop moves between two variables: what it sets is not known then."""
        x, y = self.random.sample(self.plain, 2) if len(self.plain) > 1 else ("r.x", "r.y")
        self.put(f"{{ int* z_ = &{x}; for (int y_ = 0; y_ < 3; ++y_) {{ *z_ += {self.random.randint(1, 9)}; "
                 f"z_ = y_ & 1 ? &{x} : &{y}; }} }}")  # fmt: skip

    def late(self) -> None:
        """A variable without a value that a turn sets, for later turns and for what follows."""
        x, turn = self.name(), self.random.randint(0, 3)
        value, often = self.pure(1), turn + self.random.randint(1, 3)
        self.put(f"int {x}; {{ LOOP for (int z_ = 0; z_ < {often}; ++z_) {{ TURN "
                 f"if (z_ {self.pick('==', '==', '>=')} {turn}) {x} = {value} + z_ * t;")  # fmt: skip
        self.put(f"if (z_ >= {turn}) s[({x} * {self.pick('1', '2')} + z_) & 4095] = 1; }} }}")
        self.reads.append(x)
        self.ints.append(x)

    def preprocessed(self) -> None:
        """Macros, a branch of the preprocessor, and a barrier."""
        self.put(f"#if LEVEL {self.pick('> 1', '== 1', '< 4 && defined(SPREAD)')}")
        self.put(f"{self.random.choice(self.ints)} = {self.pure(1)};")
        self.access()
        self.put("#else")
        self.put(f"PUT({self.pure(1)});")
        self.put("#endif")
        self.put(f"__syncthreads(); PUT(SPREAD({self.pure(1)}) + {self.pure(1)});")

    def pun(self) -> None:
        whole = [v for v in self.ints if v in self.plain]
        if not whole:
            return self.assign()
        x, e = self.random.choice(whole), self.pure(1)
        self.put(
            self.pick(
                f"*(unsigned*)&{x} = {e};", f"((unsigned char*)&{x})[1] = {e};", f"(unsigned&){x} >>= 2;",
                f"{{ U z_; z_.i = {e}; {x} = z_.h; }}", f"{{ U z_; z_.i = {e}; z_.i += 2; {x} = z_.i; }}",
                f"*(short*)&{x} = 7;",
            )
        )  # fmt: skip
        return None

    def function_object(self) -> None:
        f = self.name()
        whole = [v for v in self.ints if v in self.plain]
        if not whole:
            return self.declare()
        x = self.random.choice(whole)
        if self.chance(50):
            self.put(f"auto {f} = [=](int z_) {{ return z_ * 2 + {x}; }};")
        else:
            self.put(f"auto {f} = [&](int z_) {{ {x} += z_; if (z_ > 9) return z_; return {x}; }};")
        self.calls.append(lambda: f"{f}({self.pure(1)})")
        if self.chance(60):
            self.put(f"{x} = {self.pure(1)};")
        return self.call()

    def call(self) -> None:
        if not self.calls:
            return self.assign()
        x = self.random.choice(self.ints)
        self.put(f"CALL {x} {self.pick('=', '+=')} {self.random.choice(self.calls)()};")
        return None

    def switch(self) -> None:
        self.put(f"switch ({self.pick('t & 3', 'n', self.pure(1))}) {{")
        cases = self.random.sample(range(-1, 6), self.random.randint(1, 3))
        for c in cases:
            self.put(f"case {c}:")
            self.block(2)
            if self.chance(60):
                self.put("break;")
        if self.chance(60):
            self.put("default:")
            self.block(2)
        self.put("}")

    def jump(self) -> None:
        self.labels += 1
        label, g = f"l{self.labels}", f"g{self.labels}"
        if self.chance(50):
            self.put(f"if ({self.decision()}) goto {label};")
            self.block(2)
            self.put(f"{label}: ;")
        else:
            self.put(f"{{ int {g} = 0; {label}:")
            self.block(2)
            self.put(f"if (++{g} < 3) goto {label}; }}")

    def leave(self) -> None:
        if self.chance(30):
            self.put(f"if ({self.decision()}) return{self.result};")
        else:
            self.assign()

    def rare(self) -> None:
        x = self.random.choice(self.ints)
        self.put(
            self.pick(
                f"for (int z_ : m) {x} += z_;", f"{{ auto [z_, y_] = r; {x} = z_; }}",
                f"{x} = ({self.pure(1)}) ?: 3;", f"{x} = s[{self.pure(1)} & 63];",
                f"{{ auto& [z_, y_] = r; y_ = {self.pure(1)}; }}", f"for (int& z_ : m) z_ = {self.pure(1)};",
            )
        )  # fmt: skip

    # --- functions --------------------------------------------------------------------------------------

    result = ""
    plain: tuple[str, ...] = ()

    def body(self, plain: tuple[str, ...]) -> None:
        """What every function begins with, and its statements."""
        self.plain = plain
        self.ints = [*plain, "r.x", "r.y", "m[0]", "m[1]", "u_", "h_", "q.lo", "q.hi"]
        self.reads = [*self.ints[:-2], "m[2]", "w_", "(q.lo + 0)", "(q.hi + 0)", "(q.z + 0)"]
        self.pointers, self.walkers, self.calls = [], [], list(self.calls)
        self.uniform = []
        self.put(
            "R r = {t, 3}; B q = {5, -2, 1}; int m[3] = {1, 2 * t, 7}; "
            "unsigned u_ = t; unsigned char h_ = 250; short w_ = -t;"
        )
        while self.budget > 0:
            self.statement()
        self.access()

    def function(self, number: int) -> None:
        """A device function; its kind says what it may change."""
        name, kind = f"f{number}", self.random.randrange(4)
        self.budget = self.random.randint(1, 4)
        self.result = " a"
        head = {
            0: f"__device__ int {name}(int t, int n, int a)",
            1: f"__device__ int {name}(int t, int n, int& a)",
            2: f"__device__ int {name}(int t, int n, int* z)",
            3: f"__device__ int& {name}(int t, int n, int& a, int& b)",
        }[kind]
        self.put(head + " { ENTER")
        if kind == 2:
            self.put("int a = *z;")
        if kind == 3:
            self.reads = ["a", "b"]
            self.put(f"if ({self.condition()}) return b;")
        self.body(("a", "b") if kind == 3 else ("a",))
        if kind == 2:
            self.put("*z += a;")
        self.put("return a;")
        self.put("}")
        whole = ("a", "b", "c")

        def used() -> str:
            x, y = self.random.sample(whole, 2)
            return {
                0: f"{name}(t, n, {self.pure(1)})", 1: f"{name}(t, n, {x})", 2: f"{name}(t, n, &{x})",
                3: f"{name}(t, n, {x}, {y})",
            }[kind]  # fmt: skip

        self.callable.append(used)

    def whole(self) -> str:
        """The text."""
        self.callable: list[Callable[[], str]] = []
        head = [TYPES.rstrip(), *([MACROS.rstrip()] if self.wide else []), SHARED, *([GLOBAL] * self.loads)]
        if self.chance(25):
            head.append("#define K 3")
        for number in range(self.random.choice((0, 0, 1, 2))):
            self.calls = []
            self.function(number)
        if self.chance(25):
            self.put("#undef K")
            self.put("#define K (t & 5)")
        self.budget, self.result = self.random.randint(8, 16), ""
        self.put("__global__ void k(int n) {")
        self.put("const int t = threadIdx.x; int a = t, b = 2 * t + 1, c = 5;")
        self.calls = list(self.callable)
        self.body(("a", "b", "c"))
        self.put("s[(a + 3 * b) & 4095] = 1;")
        self.put("s[(c + m[0] * 2 + r.x + r.y + q.lo + h_) & 4095] = 1;")
        self.put("}")
        return "\n".join([*head, *self.lines])


def program(seed: int, *, wide: bool = False, loads: bool = False) -> Case:
    """The text of a seed; a `wide` one has more forms, and one with `loads` numbers from memory."""
    return Case(Writer(seed, wide=wide, loads=loads).whole())
