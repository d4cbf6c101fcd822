"""Layouts with symbols as index functions that take them: the expression, and the proof of its text.

The idea.  A symbol is a variable with a range.  A mode's parameter is taken apart into digits by the extents
of its leaves, each digit is multiplied by its stride, and the sum is one expression:

    (32,(8,n)):(ld,(1,8*m))       row * ld + col % 8 + col / 8 * (m * 8)

The proof reads the text again.  In it, quotients and remainders by products of a mode's extents are sums of
digits, by the definition of a coordinate, and what is left are sums and products: a polynomial in digits and
symbols, which is compared with the layout's, coefficient by coefficient.  So it holds for all values, those
of extents too.  A swizzle acts on a name for that polynomial, and is affine over F2 in its bits.

>>> import sympy
>>> ld = sympy.Symbol("ld", integer=True)
>>> made = opened((), 0, Layout((8, 4), (ld, 1)), {"ld": Var("ld", 64, lo=4)}, ("row", "col"))
>>> print(made.at)
row * ld + col
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from layoutalg.codegen.expr import (
    Add,
    And,
    Const,
    Expr,
    FloorDiv,
    Minus,
    Mod,
    Mul,
    Shl,
    Shr,
    Var,
    affine,
    as_expr,
    evaluate,
    simplify,
    substitute,
)
from layoutalg.compose import compose_layouts
from layoutalg.dtype import DType
from layoutalg.errors import (
    ArgumentTypeError,
    MismatchError,
    ResourceError,
    UndecidedError,
    UnsupportedError,
    check_choice,
)
from layoutalg.indexing.lowering import Side, Through, check_word, parameter_names, through_layout
from layoutalg.indexing.proofs import LAYOUT_LINE, as_expression
from layoutalg.indexing.targets import LONG_END, Function, text_of
from layoutalg.layout import Layout, Swizzle, flatten_tree, free_symbols, modes
from layoutalg.limits import Most
from layoutalg.notation import parse
from layoutalg.reading import read_c, read_python
from layoutalg.symbolic import SymbolicLayout, Values, symbolic_access, values_of

PROVED = "proved as a polynomial in digits and symbols, for all their values"


@dataclass(frozen=True, slots=True)
class Opened:
    """A layout with symbols on its parameters: `at` - `less` before its swizzles.

    `digits` are, per parameter, the extents of its leaves; `meant` the polynomial that `at` - `less` is, in
    the symbols and digits, by definition.
    """

    parameters: tuple[Var, ...]
    digits: Mapping[str, tuple[Any, ...]]
    meant: Any
    at: Expr
    less: int
    reader: _Reader


def _digit(parameter: str, k: int, extent: Any) -> Any:
    """The symbol of a digit, by a name that no parameter can have; 0 where it has one value."""
    import sympy

    return sympy.Integer(0) if extent == 1 else sympy.Symbol(f"{parameter}.{k}")


def opened(
    swizzles: Sequence[Swizzle],
    offset: Any,
    layout: Layout,
    symbols: Mapping[str, Var],
    names: Sequence[str],
    scale: int = 1,
) -> Opened:
    """The expression of a layout whose strides, extents and offset hold symbols.

    Raises UnsupportedError, with the fact that is missing, where a number on the way may be below 0.
    """
    import sympy

    what = f"code of {layout}"
    layout, offset = _known(layout, offset, symbols)
    parts = _modes(layout)
    parameters: list[Var] = []
    digits: dict[str, tuple[Any, ...]] = {}
    products: list[tuple[Expr, Any]] = []
    meant, base = sympy.Integer(0), sympy.sympify(offset)
    for name, part in zip(names, parts, strict=True):
        extents, strides = flatten_tree(part.shape), flatten_tree(part.stride)
        digits[name] = extents
        whole = sympy.prod(extents)
        parameter = Var(name, _extent(what, whole, symbols))
        parameters.append(parameter)
        value: Expr = parameter
        for k, (extent, stride) in enumerate(zip(extents, strides, strict=True)):
            meant += _digit(name, k, extent) * stride
            size = _extent(what, extent, symbols)
            digit = value if k == len(extents) - 1 else value % size
            value = value if k == len(extents) - 1 else value // size
            if _is_negative(stride):  # counted from the other end, so that no number on the way is below 0
                base += (extent - 1) * stride
                top = simplify(Minus(as_expr(size), Const(1), exact=True))
                digit, stride = Minus(top, simplify(digit), exact=True), -stride
            products.append((digit, stride))
    reader = _Reader(digits, symbols)
    more, less = _polynomial(what, base * scale, symbols)
    total: Expr = more
    for digit, stride in products:
        plus, minus = _polynomial(what, stride * scale, symbols)
        if minus != Const(0):
            plus = _difference(what, plus, minus, reader, symbols)
        total = total + digit * plus
    total = simplify(total)
    constant = less.value if isinstance(less, Const) else 0
    if not isinstance(less, Const) or (swizzles and constant):
        total, constant = simplify(_difference(what, total, less, reader, symbols)), 0
    return Opened(tuple(parameters), digits, (meant + offset) * scale, total, constant, reader)


def _known(layout: Layout, offset: Any, symbols: Mapping[str, Var]) -> tuple[Layout, Any]:
    """The layout with numbers in place of symbols that have one value."""
    found = free_symbols(layout.shape, layout.stride, offset)
    known = {s: symbols[s.name].facts.lo for s in found if symbols[s.name].facts.is_constant}

    def of(tree: Any) -> Any:
        return (
            tuple(map(of, tree))
            if isinstance(tree, tuple)
            else tree
            if isinstance(tree, int)
            else tree.subs(known)
        )

    return (Layout(of(layout.shape), of(layout.stride)), of(offset)) if known else (layout, offset)


def _extent(what: str, extent: Any, symbols: Mapping[str, Var]) -> Expr | int:
    if isinstance(extent, int) or extent.is_Integer:
        return int(extent)
    plus, minus = _polynomial(what, extent, symbols)
    return simplify(
        plus if minus == Const(0) else _difference(what, plus, minus, _Reader({}, symbols), symbols)
    )


def _is_negative(stride: Any) -> bool:
    """Whether every coefficient is below 0."""
    if isinstance(stride, int):
        return stride < 0
    return all(c < 0 for c in stride.as_coefficients_dict().values())


def _difference(what: str, plus: Expr, minus: Expr, reader: _Reader, symbols: Mapping[str, Var]) -> Expr:
    made = Minus(plus, minus)
    if not made.exact and reader.exists(plus, minus):
        made = Minus(plus, minus, exact=True)
    if not made.exact:
        ranges = ", ".join(f"{v.name} in {v.facts.lo}..{v.facts.hi}" for v in symbols.values())
        raise UnsupportedError(
            f"{what}: {plus} less {minus} may be below 0, as far as is seen, for {ranges}; state "
            f"narrower ranges with where"
        )
    return made


def _polynomial(what: str, value: Any, symbols: Mapping[str, Var]) -> tuple[Expr, Expr]:
    """(plus, minus): a polynomial is their difference, of which none has a coefficient below 0."""
    import sympy

    signs: list[Expr] = [Const(0), Const(0)]
    value = sympy.sympify(value)
    found = sorted(free_symbols(value), key=str)
    try:
        monomials = sympy.Poly(value, *found).terms() if found else [((), value)]
    except sympy.PolynomialError:
        monomials = None
    if monomials is None or not all(c.is_Integer for _, c in monomials):
        raise UnsupportedError(f"{what}: {value} is not a polynomial with integers as coefficients")
    for powers, coefficient in monomials:
        factors = [symbols[s.name] for s, power in zip(found, powers, strict=True) for _ in range(power)]
        product: Expr = Const(abs(int(coefficient)))
        for factor in factors:
            product = factor * product
        sign = int(coefficient) < 0
        signs[sign] = signs[sign] + product
    return simplify(signs[0]), simplify(signs[1])


# --- the function ----------------------------------------------------------------------------------------


class Asked(NamedTuple):
    """The arguments of `code` besides the layout, and bytes per element or 1."""

    to: str
    name: str
    side: Side
    element: DType
    unit: str
    parameters: Sequence[str] | None
    carry: str | None
    scale: int


def open_code(
    layout: Layout | SymbolicLayout,
    asked: Asked,
    through: Through | None,
    where: str | Mapping[str, Values | tuple[int, int]] | None,
) -> str:
    """The function of a layout with symbols, which are its last parameters, as `code` states it.

    >>> import sympy
    >>> from layoutalg.dtype import dtype
    >>> column = Layout((4, 8), (sympy.Symbol("ld", integer=True), 1))
    >>> asked = Asked("c", "at", "src", dtype("f32"), "elements", None, None, 1)
    >>> print(open_code(column, asked, None, "ld in 8..1024, ld % 8 == 0"))
    unsigned at(unsigned row, unsigned col, unsigned ld) {
        // (4,8):(ld,1), in elements
        // row in [0,4), col in [0,8), ld in [8,1025), ld % 8 == 0
        // proved as a polynomial in digits and symbols, for all their values
        return row * ld + col;
    }
    """
    defaults, of = None, str(layout)
    swizzles, offset, inner = parts_of(layout)
    if through is not None:
        front, defaults = _front(through, inner, asked)
        inner, of = compose_layouts(inner, front), f"{layout} of {front}"
    names = parameter_names(asked.parameters, len(_modes(inner)), defaults)
    symbols = variables_of(inner, offset, where)
    for word in (asked.name, *names, *symbols):
        check_word(word)
    clash = next((word for word in names if word in symbols), None)
    if clash is not None:
        raise ArgumentTypeError(f"{clash!r} names a symbol and a mode's parameter: give other parameters")
    outer_scale = asked.scale if swizzles else 1
    made = opened(swizzles, offset, inner, symbols, names, asked.scale // outer_scale)
    note, fixed = "", names
    if asked.carry is not None:
        made, step = _stepped(of, made, asked.carry, swizzles)
        note = f"each step of {asked.carry} adds {step} to the pointer; "
        fixed = tuple("0" if name == asked.carry else name for name in names)
    if max(made.at.facts.hi * outer_scale, made.less) >= LONG_END:
        most = " and ".join(f"{v.name} up to {v.facts.hi}" for v in symbols.values())
        raise ResourceError(f"bits of an offset with {most}", made.at.facts.hi.bit_length(), 62)
    f = Function(
        asked.name, of, (*made.parameters, *symbols.values()), made.at, made.less, asked.unit,
        layout=inner, scale=asked.scale, fixed=fixed,
    )  # fmt: skip
    if asked.to == "cpp":
        proof = _read_back_cute(of, f, inner, swizzles)
    elif swizzles:
        f, proof = _swizzled(of, f, made, swizzles, asked.to)
    else:
        prove_polynomial(of, *_read_back(of, f, asked.to, made), made)
        proof = PROVED
    pointer = "" if asked.carry is None else "base" if "p" in (*names, *symbols) else "p"
    return text_of(replace(f, notes=(note + proof,), pointer=pointer), asked.to)


def parts_of(layout: Layout | SymbolicLayout) -> tuple[tuple[Swizzle, ...], Any, Layout]:
    """The swizzles, the offset and the layout under them."""
    if isinstance(layout, SymbolicLayout):
        return tuple(layout.swizzles), layout.offset, layout.inner
    return (), 0, layout


def _modes(layout: Layout) -> list[Layout]:
    return [*modes(layout)] if isinstance(layout.shape, tuple) else [layout]


def _front(through: Through, inner: Layout, asked: Asked) -> tuple[Layout, tuple[str, str]]:
    """The map in front, of a layout whose extents are integers."""
    if free_symbols(inner.shape):
        raise UnsupportedError(f"code of {inner} through {through}: extents have to be integers for that")
    if isinstance(through, str) and through.strip()[:1].isalpha():
        through = symbolic_access(through, inner, asked.element)
    return through_layout(through, Layout(inner.shape), asked.element, asked.side)


def variables_of(
    inner: Layout, offset: Any, where: str | Mapping[str, Values | tuple[int, int]] | None
) -> dict[str, Var]:
    """The variables of the symbols by name, in alphabetical order."""
    extents = {s.name for s in free_symbols(inner.shape)}
    names = sorted({s.name for s in free_symbols(inner.shape, inner.stride, offset)})
    for name in names:
        check_word(name)
    values = values_of(where, names, dict.fromkeys(extents, 1))
    return {name: Var(name, v.most + 1, "param", v.least, v.modulus, v.residue) for name, v in values.items()}


def _stepped(what: str, made: Opened, carry: str, swizzles: Sequence[Swizzle]) -> tuple[Opened, Any]:
    """The layout where a parameter is 0, and what each step of it adds."""
    import sympy

    check_choice("parameter", carry, [v.name for v in made.parameters])
    (extent,) = made.digits[carry] if len(made.digits[carry]) == 1 else (None,)
    if extent is None or swizzles:
        raise UnsupportedError(f"code of {what}: {carry} does not move by equal steps; no pointer is carried")
    digit = _digit(carry, 0, extent)
    start = made.meant.xreplace({digit: sympy.Integer(0)}) if extent != 1 else made.meant
    moved = next(v for v in made.parameters if v.name == carry)
    at = simplify(substitute(made.at, {moved: Const(0)}))
    rest = tuple(v for v in made.parameters if v != moved)
    digits = {v.name: made.digits[v.name] for v in rest}
    step = sympy.expand(made.meant - start) / digit if extent != 1 else 0
    return replace(made, parameters=rest, digits=digits, meant=start, at=at), step


def _read_back(what: str, f: Function, to: str, made: Opened) -> tuple[Expr, int]:
    """(expression, less): what the text of a function says."""
    read = read_c if to in ("c", "cuda") else read_python
    given = {v.name: v for v in f.parameters}
    return as_expression(what, read(text_of(f, to), f.name).term, given, made.reader.exists)


def _read_back_cute(what: str, f: Function, layout: Layout, swizzles: Sequence[Swizzle]) -> str:
    """Prove that a function in CuTe C++ has its layout, which is read back."""
    if swizzles:
        raise UnsupportedError(
            f"code of {what} in CuTe C++: symbols are printed in layouts without a swizzle"
        )
    symbols = {s.name: s for s in free_symbols(layout.shape, layout.stride)}
    lines = dict(LAYOUT_LINE.findall(text_of(f, "cpp")))
    if parse(lines["layout"], form="cpp", symbols=symbols) != layout:
        raise MismatchError(f"code of {what}: the printed layout is not {layout}")
    return "its layout was read back"


def _equal(a: Expr, b: Expr, v: Var) -> bool:
    """Whether two expressions are equal at every value of a variable of few."""
    few = range(v.facts.hi + 1) if v.facts.hi < Most.LINE.number else ()
    return bool(few) and all(evaluate(a, {v: x}) == evaluate(b, {v: x}) for x in few)


def _swizzled(
    what: str, f: Function, made: Opened, swizzles: Sequence[Swizzle], to: str
) -> tuple[Function, str]:
    """The function whose value is the swizzle of a name for the polynomial, and its proof."""
    taken = {v.name for v in f.parameters}
    name = next(word for word in ("at", "place", "place_of_it") if word not in taken)
    at = Var(name, made.at.facts.hi + 1, "let")
    moved: Expr = at
    for swizzle in reversed(swizzles):
        moved = as_expr(swizzle(moved))
    moved = moved * f.scale
    base, _ = _read_back(what, f, to, made)
    prove_polynomial(what, base, 0, made)
    outer = replace(f, value=simplify(moved), less=0, parameters=(at,))
    read, less = _read_back(what, outer, to, made)
    columns = affine(read)
    known = columns is not None and columns == affine(moved)
    if less or not (known or _equal(read, moved, at)):
        raise UndecidedError(f"{what}: the printed swizzle is not seen to be the layout's")
    whole = replace(f, value=outer.value, lets=((at, made.at),))
    if _read_back(what, whole, to, made) != (substitute(read, {at: base}), 0):
        raise MismatchError(f"{what}: the printed function is not the swizzle of the printed offset")
    return whole, f"{PROVED}, and over F2"


# --- the proof -------------------------------------------------------------------------------------------


def prove_polynomial(what: str, read: Expr, less: int, made: Opened) -> None:
    """Prove that the expression that was read, less a constant, is the polynomial that is meant.

    Raises MismatchError where it is another, which is a defect, UndecidedError where it is none.
    """
    import sympy

    found = made.reader.polynomial(read)
    if found is None:
        raise UndecidedError(f"{what}: {read} is not seen to be a polynomial in the digits of its parameters")
    plain = made.meant.xreplace({s: sympy.Symbol(s.name) for s in made.meant.free_symbols})
    if sympy.expand(found - less - plain) != 0:
        raise MismatchError(f"{what}: the printed function is {found - less}, and the layout is {plain}")


class _Reader:
    """Expressions as polynomials in symbols and digits."""

    def __init__(self, digits: Mapping[str, tuple[Any, ...]], symbols: Mapping[str, Var]) -> None:
        import sympy

        def plain(value: Any) -> Any:
            value = sympy.sympify(value)
            return value.xreplace({s: sympy.Symbol(s.name) for s in value.free_symbols})

        self._extents = {name: [plain(extent) for extent in extents] for name, extents in digits.items()}
        self._least = {sympy.Symbol(v.name): v.facts.lo for v in symbols.values()}

    def exists(self, a: Expr, b: Expr) -> bool:
        """Whether a - b is never below 0: no coefficient is, in digits counted from their ends and symbols
        from their least values on."""
        import sympy

        left, right = self.polynomial(a), self.polynomial(b)
        if left is None or right is None:
            return False
        difference = sympy.expand(left - right)
        lowered = {s for m, c in difference.as_coefficients_dict().items() if c < 0 for s in m.free_symbols}
        ends = {
            _digit(name, k, extent): extent - 1 - _digit(name, k, extent)
            for name, extents in self._extents.items()
            for k, extent in enumerate(extents)
            if extent != 1 and _digit(name, k, extent) in lowered
        }
        shifted = difference.subs(ends, simultaneous=True)
        shifted = sympy.expand(shifted.subs({s: s + n for s, n in self._least.items()}, simultaneous=True))
        return all(c >= 0 for c in shifted.as_coefficients_dict().values())

    def polynomial(self, node: Expr) -> Any:
        """The polynomial of an expression, None where an operator has none."""
        import sympy

        quotient = self._digits(node)
        if quotient is not None:
            return self._sum(*quotient)
        match node:
            case Const(value):
                return sympy.Integer(value)
            case Var(name):
                return sympy.Symbol(name)
            case Add(a, b) | Mul(a, b):
                left, right = self.polynomial(a), self.polynomial(b)
                if left is None or right is None:
                    return None
                return left + right if isinstance(node, Add) else left * right
            case Minus(a, b) if node.exact:
                left, right = self.polynomial(a), self.polynomial(b)
                return None if left is None or right is None else left - right
            case Shl(a, amount):
                left = self.polynomial(a)
                return None if left is None else left * (1 << amount)
        return None

    def _digits(self, node: Expr) -> tuple[str, int, int] | None:
        """(parameter, first, last): its digits from `first` up to `last`, each times the extents before."""
        match node:
            case Var(name) if name in self._extents:
                return name, 0, len(self._extents[name])
            case FloorDiv(a, b) | Mod(a, b):
                divisor = self.polynomial(b)
            case Shr(a, amount):
                divisor = 1 << amount
            case And(a, Const(mask)) if mask & (mask + 1) == 0:
                divisor = mask + 1
            case _:
                return None
        inside = self._digits(a)
        if inside is None or divisor is None:
            return None
        name, first, last = inside
        cut = self._cut(name, first, last, divisor)
        if cut is None:
            return None
        return (name, cut, last) if isinstance(node, (FloorDiv, Shr)) else (name, first, cut)

    def _cut(self, name: str, first: int, last: int, divisor: Any) -> int | None:
        """The digit before which the product of extents from `first` on is the divisor."""
        import sympy

        product = sympy.Integer(1)
        for k in range(first, last + 1):
            if k > first and sympy.expand(product - divisor) == 0:
                return k
            if k < last:
                product *= self._extents[name][k]
        return None

    def _sum(self, name: str, first: int, last: int) -> Any:
        import sympy

        total, weight = sympy.Integer(0), sympy.Integer(1)
        for k in range(first, last):
            total += _digit(name, k, self._extents[name][k]) * weight
            weight *= self._extents[name][k]
        return total
