"""Each theorem about bits, on a family it must fire on and on cases where its condition just fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product

from layoutalg.codegen.expr import And, Const, Expr, Or, Var, Xor
from layoutalg.codegen.expr.rules_bits import BIT_RULES
from tests.draws.expressions import prove, refuse
from tests.sweeps import each

RULES = {rule.name: rule for rule in BIT_RULES}
MASKS = range(1, 32)
POWERS = (2, 4, 8, 16)
Family = Callable[[], Iterable[Expr]]


def x(extent: int = 64, of: int = 1) -> Var:
    return Var("x", extent, "thread", 0, of)


def y(extent: int = 64, of: int = 1) -> Var:
    return Var("y", extent, "unroll", 0, of)


Z = Var("z", 16, "loop")


def mask(node: Expr, m: int) -> Expr:
    return And(node, Const(m))


def xors(*parts: Expr | int) -> Expr:
    out, *rest = (Const(p) if isinstance(p, int) else p for p in parts)
    for part in rest:
        out = Xor(out, part)
    return out


def absent() -> Iterator[Expr]:
    yield from (mask(x(64, 8), m) for m in MASKS if m & 7)
    yield from (mask(x(5), m) for m in range(8, 32))
    for k, m in product((5, 9, 17, 33, 20, 68), (1, 3, 4, 12, 16, 48, 64)):
        if all((3 << b) & m == 0 for b in range(8) if k >> b & 1):
            continue  # nothing is left: the product has no bit in the mask, and the mask goes first
        kept = [b for b in range(8) if k >> b & 1 and (3 << b) & m]
        if len(kept) < k.bit_count() and m & ~(3 * k) == 0:
            yield mask(x(4) * k, m)


def disjoint_sums() -> Iterator[Expr]:
    for m in MASKS:
        yield mask(x(8) * 8 + y(8), m)
        yield mask(x(4) * 2 + y(2) + Z * 8, m)
        yield mask(Xor(x(32), y(32) * 2), m)


def inside() -> Iterator[Expr]:
    for c, m in product(POWERS, MASKS):
        if m < c:
            yield mask(x() % c, m)
        yield mask(x() * c, m)
        yield mask(x() * (3 * c), m)
        yield mask(x(), m) // c
        yield mask(x(), m) % c


def fields() -> Iterator[Expr]:
    for c, d in product(POWERS, POWERS):
        yield x(200) // c % d * c
        yield mask(x(200) // c, d + d // 2) * c


def free() -> Iterator[Expr]:
    for part in (y(4), y(4) + 16, Z):
        yield Xor(x(8) * 4 + 32 + y(4) * 128, part)
        yield Xor(part, x(8) * 4 + Z * 512)
    yield Xor(x(8) * 4 + y(4) * 128, y(4) * 4 + x(4) * 1024)


def products() -> Iterator[Expr]:
    for c, d in product((2, 4, 6, 12, 24), repeat=2):
        yield Xor(x(16) * c, y(16) * d)
        yield Xor(x(16) * c + 2 * d, y(16) * d + Z * 8)


def divided() -> Iterator[Expr]:
    for c in POWERS:
        for a in (x(64) * c, x(c), x(64 * c, c), x(64) * (3 * c)):
            for e in (Xor(a, y(99)), Xor(y(99), a)):
                yield e // c
                yield e % c


FAMILIES: dict[str, Family] = {
    "x ^ 0, x | 0 -> x,  x & x, x | x -> x,  x & m -> x  if x has no bit outside m": lambda: [
        xors(x(), 0), xors(0, x()), Or(x(), Const(0)), Or(Const(0), x()), And(x(), x()), Or(x(), x()),
        And(x() < 4, x() < 4), *(mask(x(n), 31) for n in range(2, 33)),
        mask(x(64, 8), 56), mask(x() * 4, 252),
    ],
    "c ^ x -> x ^ c,  x ^ c ^ y -> x ^ y ^ c,  x & c & d -> x & (c & d)": lambda: [
        xors(5, x()), And(Const(5), x()), Or(Const(5), x()), xors(x(), 5, y()), Xor(x(), Xor(y(), Const(5))),
        Xor(x(), Xor(y(), Z)), *(mask(mask(x(), c), d) for c, d in product(MASKS, (3, 12, 17))),
    ],
    "x ^ y ^ x -> y": lambda: [
        xors(x(), x()), xors(x(), y(), x()), xors(y(), x(), x()), xors(x(), y(), x(), y()), xors(x(), 5, 3),
        xors(x(), 5, 5), xors(x(), y(), Z, y()), xors(5, x(), 3),
    ],
    "bits that x lacks leave the mask of x, copies of x that m lacks leave the product": absent,
    "(a + b) & m -> (a & m) + (b & m)  if a, b disjoint;  (a ^ b) & m likewise": disjoint_sums,
    "a mask moves inside % // * by a power of two": inside,
    "x & (2^n - 1) -> x % 2^n": lambda: [mask(x(), m) for m in (1, 3, 7, 15, 31, 63, 127)],
    "(x // c & m) * c -> x & m * c,  x // c % d * c -> x & (d - 1) * c  for powers of two": fields,
    "a ^ b, a | b -> a + b  if disjoint": lambda: [
        kind(a, b) for kind in (Xor, Or) for n in (1, 2, 3, 4)
        for a, b in ((x(8) * (1 << n), y(1 << n)), (y(1 << n), x(99, 1 << n)), (x(1 << n) + 32, Const(16)))
    ],
    "(a + b) ^ y -> (a ^ y) + b  if b is disjoint from a and y": free,
    "a * g ^ b * g -> (a ^ b) * g  for a power of two g": products,
    "(a ^ b) // c -> a // c ^ b // c,  (a ^ b) % c -> a % c ^ b % c  for powers of two": divided,
}  # fmt: skip

REFUSED: dict[str, Family] = {
    "x ^ 0, x | 0 -> x,  x & x, x | x -> x,  x & m -> x  if x has no bit outside m": lambda: [
        mask(x(9), 7), mask(x(64, 8), 48), xors(x(), 1), And(x(), y()),
    ],
    "bits that x lacks leave the mask of x, copies of x that m lacks leave the product": lambda: [
        mask(x(64, 8), 56), mask(x(4) * 3, 1), mask(x(5) * 5, 3), mask(x(4) * 5, 15),
    ],
    "(a + b) & m -> (a & m) + (b & m)  if a, b disjoint;  (a ^ b) & m likewise": lambda: [
        mask(x(8) * 8 + y(9), m) for m in MASKS
    ],
    "a mask moves inside % // * by a power of two": lambda: [
        mask(x() % 12, 7), mask(x() % 8, 8), mask(x() % 8, 24), mask(x() * 3, 7),
        mask(x(), 12) // 6, mask(x(), 12) % 6,
    ],
    "x & (2^n - 1) -> x % 2^n": lambda: [mask(x(), m) for m in MASKS if m & (m + 1)],
    "(x // c & m) * c -> x & m * c,  x // c % d * c -> x & (d - 1) * c  for powers of two": lambda: [
        x() // 4 % 8 * 8, x() // 4 % 6 * 4, x() // 3 % 4 * 3, mask(x() // 4, 5) * 8,
    ],
    "a ^ b, a | b -> a + b  if disjoint": lambda: [Xor(x(8) * 8, y(9)), Or(x(8) * 4, y(8))],
    "(a + b) ^ y -> (a ^ y) + b  if b is disjoint from a and y": lambda: [
        Xor(x(8) * 4 + y(9), Z), Xor(x(8) * 4, y(8)), Xor(x(8) * 4 + y(4), Z),
    ],
    "a * g ^ b * g -> (a ^ b) * g  for a power of two g": lambda: [
        Xor(x() * 3, y() * 9), Xor(x() * 4, y()), Xor(x() * 4, Const(8)), Xor(x() * 4 + 1, y() * 4),
    ],
    "(a ^ b) // c -> a // c ^ b // c,  (a ^ b) % c -> a % c ^ b % c  for powers of two": lambda: [
        Xor(x(9), y(99)) // 8, Xor(x(9), y(99)) % 8, Xor(x() * 6, y()) // 6, Xor(x(5), y()) % 6,
    ],
}  # fmt: skip


@each("name", RULES)
def test_a_theorem_holds_and_is_used_and_not_where_its_condition_fails(name: str) -> None:
    prove(RULES[name], FAMILIES[name]())
    refuse(RULES[name], REFUSED[name]() if name in REFUSED else ())


def test_every_family_has_a_rule() -> None:
    assert FAMILIES.keys() == RULES.keys() >= REFUSED.keys()
