"""Integers of a kernel: promotions, wraps, remainders and shifts, by the compiler; sums, by plain numbers."""

from __future__ import annotations

import itertools
import random

import numpy as np

from layoutalg.source import read_kernel, terms
from tests.source.lane_oracle import SHARED, Case, ran, told

TYPES = ("bool", "signed char", "unsigned char", "short", "unsigned short", "int", "unsigned", "long")
ENDS = {"signed char": 125, "unsigned char": 253, "short": 32765, "unsigned short": 65533}
"""Values from which a few threads on the numbers wrap."""


def _case(lines: list[str]) -> Case:
    stores = "\n".join(f"{{ {line} s[(int)(v & 1023)] = 1; }}" for line in lines)
    return Case(f"__global__ void k(int n) {{ {SHARED} const int t = threadIdx.x;\n{stores}\n}}", threads=64)


def _checked(lines: list[str], least: float) -> None:
    """All lines are right, and at least a share of them is read."""
    cases = [_case(lines[at : at + 60]) for at in range(0, len(lines), 60)]
    unread = 0
    for case, read, run in zip(cases, told(cases), ran(cases), strict=True):
        assert not read.wrong(run), [(w, case.text.split("\n")[w[0][0] - 1]) for w in read.wrong(run)]
        unread += len(read.unread)
    assert unread <= (1 - least) * len(lines), unread


def test_operators_of_every_pair_of_types() -> None:
    rng = random.Random(8)
    lines = []
    for a, b in itertools.product(TYPES, TYPES):
        first, second = ENDS.get(a, -3), rng.choice((-5, 3, ENDS.get(b, 7)))
        op = rng.choice(("+", "-", "*", "/", "%", "&", "|", "^", "<", ">", "==", "!="))
        y = f"{b} y = {second};" if op in ("/", "%") else f"{b} y = {second} + 2 * t;"
        lines.append(f"{a} x = {first} + t; {y} auto v = x {op} y;")
    _checked(lines, 0.8)


def test_compound_assignments_of_narrow_types_wrap() -> None:
    rng = random.Random(9)
    lines = []
    for kind in TYPES[1:]:
        for op in ("+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^="):
            right = rng.choice(("3", "3u", "5L", "(short)7"))
            lines.append(f"{kind} v = {ENDS.get(kind, -9)} + t; v {op} {right};")
        for step in ("v++", "++v", "v--", "--v"):
            lines.append(f"{kind} v = {ENDS.get(kind, 0)} + t; auto w = {step}; v += w;")
    _checked(lines, 0.95)


def test_unary_operators_promote_and_conversions_cut() -> None:
    lines = [f"{kind} x = {ENDS.get(kind, -7)} + t; auto v = {op}x;" for kind in TYPES for op in "-~+!"]
    for a, b in itertools.product(TYPES, TYPES):
        lines.append(f"{a} x = {ENDS.get(a, 70000)} + t * 3; {b} y = x; long v = y;")
        lines.append(f"long v = ({b})({a})(t * 1001 - 40000);")
    _checked(lines, 0.9)


def test_remainders_and_shifts_of_negative_numbers() -> None:
    lines = [f"int v = (t * 3 - 95) {op} {n};" for n in (1, 2, 3, 5, 7, 16, 64) for op in "/%"]
    lines += [f"int v = (t * 3 - 95) {op} {n};" for n in range(8) for op in ("<<", ">>")]
    lines += [f"int v = ((t * 5 - 100) {op} {n}) % 7;" for n in (-12, -1, 6, 33) for op in "&|^"]
    lines += [f"unsigned v = (unsigned)(t - 20) {op} {n}u;" for n in (3, 16) for op in ("/", "%", ">>", "<<")]
    lines += ["int v = t - 20; v /= 3u;", "long v = t - 20; v /= 3u;", "short v = t - 20; v %= 3;"]
    _checked(lines, 0.9)


def test_a_pointer_that_is_set_is_not_null() -> None:
    lines = []
    for form in ("p != nullptr", "p == nullptr", "p", "nullptr == p", "0 != p", "p == 0", "!!p"):
        lines.append(f"int x = t; int* p = &x; int v = t * 2; if ({form}) v = t * 5;")
        lines.append(f"int* p = nullptr; int v = t * 2; if ({form}) v = t * 5;")
    _checked(lines, 0.9)


def test_the_alignment_of_an_address_is_known() -> None:
    indices = ("(long)(s + t) % 16 * 8", "(long)(s + t) % 12", "(long)(s + t) % 2048", "(long)(s + t) & 1024")
    swizzled = "(((unsigned long)(s + 32 * t) / 128) % 8 ^ t % 8) * 32"  # that of the row, and of the chunk
    stores = "".join(f"s[{index}] = 1; " for index in (*indices, swizzled, "((long)(s + t) >> 7) % 16"))
    memory = read_kernel(f"__global__ void k() {{ {SHARED} int t = threadIdx.x; {stores} }}", 64).memory
    assert [a.total for a in memory] == [8, None, None, None, 2, None]


def test_a_shift_past_its_type_is_not_read() -> None:
    for line in ("int v = t << 32;", "unsigned v = (unsigned)t >> 40;", "int v = 1 << (t + 40);"):
        assert told([_case([line])])[0].unread, line


X, Y, Z = terms.variable("x", -9, 22), terms.variable("y", 0, 5), terms.variable("z", -3, 2)
ENV = {
    name: axis.reshape(-1)
    for name, axis in zip("xyz", np.meshgrid(np.arange(-9, 23), np.arange(6), np.arange(-3, 3)), strict=True)
}


def _drawn(rng: random.Random, depth: int) -> tuple[terms.Sum, np.ndarray]:
    """A sum, and its values by plain integers."""
    if depth == 0:
        n = rng.randint(-12, 12)
        one, name = rng.choice(((X, "x"), (Y, "y"), (Z, "z"), (terms.constant(n), "")))
        return one, ENV[name] if name else np.full_like(ENV["x"], n)
    a, x = _drawn(rng, depth - 1)
    b, y = _drawn(rng, depth - 1)
    n = rng.choice((2, 3, 4, 7, 8, 12))
    form = rng.randrange(14)
    match form:
        case 0 | 1:
            return terms.add(a, b), x + y
        case 2:
            return terms.scale(a, n - 7), x * (n - 7)
        case 3:
            return terms.multiply(a, b), x * y
        case 4:
            return terms.floor_div(a, n), x // n
        case 5:
            return terms.floor_mod(a, n), x % n
        case 6:
            found = terms.divide(a, terms.constant(n))
            assert found is not None
            return found, np.sign(x) * (np.abs(x) // n)
        case 7:
            found = terms.remainder(a, terms.constant(n))
            assert found is not None
            return found, x - np.sign(x) * (np.abs(x) // n) * n
        case 8:
            op = rng.choice(("and", "or", "xor"))
            return terms.bits(op, a, b), {"and": x & y, "or": x | y, "xor": x ^ y}[op]
        case 9:
            op = rng.choice(("<", ">", "<=", ">=", "==", "!="))
            how = {"<": x < y, ">": x > y, "<=": x <= y, ">=": x >= y, "==": x == y, "!=": x != y}[op]
            return terms.compare(op, a, b), how.astype(np.int64)
        case 10:
            return terms.select(terms.truth(a), b, terms.constant(n)), np.where(x != 0, y, n)
        case 11:
            op = rng.choice(("min", "max"))
            return terms.extreme(op, a, b), np.minimum(x, y) if op == "min" else np.maximum(x, y)
        case 12:
            width, signed = rng.choice(((3, False), (4, True), (8, True), (8, False)))
            kept = x & ((1 << width) - 1)
            return terms.held(a, width, signed), np.where(
                kept >> (width - 1) & signed, kept - (1 << width), kept
            )
    return terms.negated(terms.truth(a)), (x == 0).astype(np.int64)


def test_sums_are_what_plain_integers_make() -> None:
    """Values, bounds, substitution and tables of random sums of three variables, negative ones among them."""
    rng = random.Random(20261130)
    threads = {**ENV, "thread": np.arange(len(ENV["x"]))}
    for _ in range(600):
        one, wanted = _drawn(rng, rng.randint(1, 4))
        found = np.broadcast_to(np.asarray(terms.values(one, ENV)), wanted.shape)
        assert (found == wanted).all(), str(one)
        assert one.low <= wanted.min() and wanted.max() <= one.high, str(one)
        at = {name: int(axis[5]) for name, axis in ENV.items()}
        known = terms.substitute(one, {name: terms.constant(n) for name, n in at.items()})
        assert known.known and known.constant == wanted[5], str(one)
        table = np.broadcast_to(np.asarray(terms.values(terms.tabled(one, threads), threads)), wanted.shape)
        assert (table == wanted).all(), str(one)
