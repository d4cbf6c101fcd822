"""Index functions drawn as text, in C or in Python: what is beside a function f(i, j), and its statements.

A text in C is C++ as well, once `__device__` is defined away; one in Python runs as it is.
"""

from __future__ import annotations

import random

TYPES = ("int", "unsigned", "long long", "unsigned long long", "short", "unsigned char", "bool",
         "signed char", "uint8_t", "uint16_t", "size_t", "int64_t", "word", "small")  # fmt: skip
BINARY = ("+", "-", "*", "/", "%", "&", "^", "|", "<<", ">>", "<", "<=", ">", ">=", "==", "!=", "&&", "||")
INDEX = ("+", "*", "/", "%", "&", "^", "|", "<<", ">>", "-")
PYTHON = {"/": "//", "&&": "and", "||": "or"}


class Writer:
    """A text as it grows; `names` may be read, `own` set, in the block that is being written."""

    def __init__(self, rng: random.Random, *, python: bool = False) -> None:
        self.rng, self.python = rng, python
        self.names: list[str] = []
        self.own: list[str] = []
        self.calls: list[str] = []
        self.parameters = ("i", "j")
        self.count = 0

    def pick(self, *choices: str) -> str:
        return self.rng.choice(choices)

    def number(self) -> str:
        n = self.rng.randint(0, 70)
        if self.python:
            return self.pick(str(n), hex(n), str(n % 7), "True")
        return self.pick(
            str(n), f"{n % 9}u", hex(n), f"0{n % 8}", bin(n), "5ll", "2147483648", "1'000", "true"
        )

    def expression(self, depth: int = 2) -> str:
        """An expression with every operator that is read."""
        draw, rng = self.rng.random(), self.rng
        if depth <= 0 or draw < 0.15:
            return rng.choice((*self.names, *self.names, self.number()))
        a, b = self.expression(depth - 1), self.expression(depth - 1)
        if draw < 0.62:
            symbol = rng.choice(BINARY)
            b = f"({b} & 7)" if symbol in ("<<", ">>") else b
            symbol = PYTHON.get(symbol, symbol) if self.python else symbol
            return f"{a} {symbol} {b}" if rng.random() < 0.3 else f"({a} {symbol} {b})"
        if draw < 0.7:
            return f"({rng.choice(('-', '~', '+', 'not ' if self.python else '!'))}({a}))"
        if draw < 0.78:
            test = self.expression(depth - 1)
            return f"({a} if {test} else {b})" if self.python else f"({test} ? {a} : {b})"
        if draw < 0.84:
            return f"{self.pick('min', 'max')}({a}, {b})"
        if draw < 0.92 and self.calls:
            return f"{rng.choice(self.calls)}({a}, {b})"
        if self.python:
            return f"({a} < {b} <= {self.number()})" if rng.random() < 0.5 else f"int({a})"
        kind = rng.choice(TYPES)
        plain = f"{kind}({a})" if " " not in kind else f"({kind})({a})"
        return self.pick(f"({kind})({a})", f"static_cast<{kind}>({a})", plain, f"__umul24({a}, {b})",
                         f"__mul24({a}, {b})")  # fmt: skip

    def index(self, depth: int = 3) -> str:
        """An expression as index functions are: of numbers that are not below 0, by constants."""
        if depth == 0 or self.rng.random() < 0.15:
            return self.pick("i", "j", "i", "j", str(self.rng.randint(0, 40)))
        symbol, a = self.rng.choice(INDEX), self.index(depth - 1)
        if symbol in ("/", "%", "<<", ">>"):
            return f"({a} {symbol} {self.rng.randint(1, 6)})"
        return f"({a} {symbol} {self.index(depth - 1)})"

    # --- statements ------------------------------------------------------------------------------------

    def block(self, depth: int, pad: str) -> str:
        """Statements with a scope of their own."""
        kept = [*self.names], [*self.own]
        text = "".join(self.statement(depth, pad) for _ in range(self.rng.randint(1, 3)))
        self.names, self.own = kept
        return text

    def statement(self, depth: int, pad: str) -> str:
        """A statement, one or several lines."""
        draw = self.rng.random()
        if depth == 0 or draw < 0.62:
            return self.simple(pad, draw)
        if self.python:
            return self._python(depth, pad, draw)
        if draw < 0.74:
            test, more = self.expression(), self.block(depth - 1, pad)
            return f"{pad}if ({test}) {{ {self.block(depth - 1, pad)} }} else {{ {more} }}\n"
        if draw < 0.8:
            return f"{pad}if ({self.expression()}) return {self.expression()}; else ;\n"
        n, inner, k = self.rng.randint(0, 3), self.block(depth - 1, pad), f"k{self.count}"
        self.count += 1
        x, y = self.parameters
        return self.pick(
            f"{pad}for (int {k} = 0; {k} < {n}; ++{k}) {{ {inner} }}\n",
            f"{pad}{{ int {k} = {n}; while ({k} > 0) {{ {inner} {k}--; }} }}\n",
            f"{pad}for (unsigned {k} = {n}, z = 1; {k} != 0; {k} -= z) {inner or ';'}\n"
            if inner.count(";") == 1 else f"{pad}{{ int {x} = {y} + {n}; {inner} (void){x}; }}\n",
        )  # fmt: skip

    def simple(self, pad: str, draw: float) -> str:
        """A declaration or an assignment."""
        end = "" if self.python else ";"
        if draw < 0.25:
            name, value = f"v{self.count}", self.expression()
            self.count += 1
            self.names.append(name)
            self.own.append(name)
            if self.python:
                return f"{pad}{name} = {value}\n"
            kind = self.rng.choice((*TYPES, "auto", "const int", "int"))
            if kind in ("const int", "bool", "auto"):
                self.own.pop()  # C++ has no -- of a bool
            return f"{pad}{kind} {name}{self.pick(f' = {value}', f'(0 + {value})')};\n"
        name = self.rng.choice(self.own)
        if not self.python and draw < 0.3 and name not in self.parameters:
            return f"{pad}{self.pick(f'++{name}', f'{name}--')};\n"
        symbol = self.pick("=", "+=", "^=", "*=", "-=", "&=", "|=", "<<=", ">>=", "/=", "%=")
        value = f"({self.expression()} & 3)" if symbol in ("<<=", ">>=") else self.expression()
        return f"{pad}{name} {'//=' if self.python and symbol == '/=' else symbol} {value}{end}\n"

    def _python(self, depth: int, pad: str, draw: float) -> str:
        more = pad + "    "
        if draw < 0.72:
            head = f"{pad}if {self.expression()}:\n{self.block(depth - 1, more)}"
            if self.rng.random() < 0.4:
                head += f"{pad}elif {self.expression()}:\n{more}return {self.expression()}\n"
            return head + f"{pad}else:\n{self.block(depth - 1, more)}"
        if draw < 0.8 and len(self.own) > 1:
            a, b = self.rng.sample(self.own, 2)
            pair = f"{self.expression()}, {self.expression()}"
            return f"{pad}{a}, {b} = {self.pick(pair, f'divmod({pair})')}\n"
        k = f"k{self.count}"
        self.count += 1
        ends = self.pick(str(self.rng.randint(0, 3)), "1, 3", "5, 0, -2", "1, 8, 3")
        inner = self.block(depth - 1, more)
        return f"{pad}for {k} in range({ends}):\n{inner}{more}{self.own[0]} += {k}\n"

    def function(self, name: str, parameters: tuple[str, str]) -> str:
        """A function of two parameters."""
        beside, self.parameters = self.names, parameters
        self.names, self.own = [*parameters, *beside], [*parameters]
        body = "".join(self.statement(2, "    ") for _ in range(self.rng.randint(0, 3)))
        value = self.expression(3)
        self.names = beside
        if self.python:
            return f'def {name}({", ".join(parameters)}):\n    """Drawn."""\n{body}    return {value}\n'
        a, b = (f"{self.rng.choice(TYPES)} {parameter}" for parameter in parameters)
        return f"__device__ {self.rng.choice(TYPES[:6])} {name}({a}, {b}) {{\n{body}return {value}; }}\n"


def c_text(rng: random.Random) -> tuple[str, str]:
    """A text in C whose functions may use each other, and the name of the one that is asked for."""
    writer, beside = Writer(rng), ["typedef unsigned long long word; using small = signed char;"]
    if rng.random() < 0.5:
        beside.append(f"#define LD {rng.randint(2, 40)} // columns\n#define AT(a, b) ((a) * LD \\\n ^ (b))")
        writer.names.append("LD")
        writer.calls.append("AT")
    if rng.random() < 0.5:
        beside.append("#ifdef LD\nconstexpr unsigned K = LD * 3;\n#else\nconst int K = 7;\n#endif\n"
                      "enum { E = K };\nconstexpr auto Q = E - 13;")  # fmt: skip
        writer.names += ["K", "Q"]
    beside += [f"#if {rng.choice('01')}\n#define S 5 /* one\n of two */\n#else\n#define S (9 - 2)\n#endif"]
    writer.names.append("S")
    if rng.random() < 0.5:
        beside.append(writer.function("g", ("x", "y")))
        writer.calls.append("g")
    if rng.random() < 0.3:
        beside.append(f"auto h = [](int x, unsigned y) -> {rng.choice(TYPES[:4])} {{ return x * 3 ^ y; }};")
        writer.calls.append("h")
    template = rng.random() < 0.2
    if template:
        writer.names.append("N")
    function = writer.function("f", ("i", "j"))
    if rng.random() < 0.3:
        function += "#undef LD\n#define LD 1\n"
    head = "template <int N, int M = 2> " if template else ""
    name = f"f<{rng.randint(1, 30)}, 4>" if template else "f"
    return "\n".join([*beside, head + function]), name


def python_text(rng: random.Random) -> str:
    """A module in Python with a function f(i, j)."""
    writer = Writer(rng, python=True)
    beside = [f"K = {rng.randint(1, 20)}\nK = K * 2 + 1\nN: int = 3 if K > 9 else 4\n"]
    writer.names += ["K", "N"]
    if rng.random() < 0.4:
        beside.append("h = lambda x, y: x * 5 - (y ^ K)\n")
        writer.calls.append("h")
    if rng.random() < 0.5:
        beside.append(writer.function("g", ("x", "y")))
        writer.calls.append("g")
    return "".join([*beside, writer.function("f", ("i", "j"))])
