"""Attention: O = softmax(score(scale Q K^T)) V for every head, and the logarithm of each row's sum.

    q (b, h, m, d)    k, v (b, h / group, n, d)    o (b, h, m, d)    lse (b, h, m)

A query sees the keys from `left` before its own place to `right` behind it; None sets no limit.  The place of
query i is key i + shift: with the shift n - m the last query stands at the last key ("bottom-right", as in
cuDNN and FlashAttention), with 0 the first at the first ("top-left", as in PyTorch's `is_causal`).  Causal is
right = 0.  A query that sees no key gives zeros, and -inf as its sum.

A score is a function of (score, batch, head, query, key), an f32 behind the scale and four s32, to a formula
of the kernel language; what a window leaves out is -inf behind it:

    lambda s, b, h, i, j: s - (i - j).to("f32") * exp2(h.to("f32") * -0.5)      ALiBi of 16 heads

NaN in a query makes its row NaN, in a key the rows that see it, in v its column of those rows.  A kernel
weighs a v that a query does not see by 0: where that v is not finite, its column of the query may be NaN too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy

from layoutalg.codegen import instr
from layoutalg.codegen.terms import Arithmetic, Value
from layoutalg.dtype import DType
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import ArgumentTypeError, ShapeError, UnsupportedError, shown

Align: TypeAlias = Literal["bottom-right", "top-left"]
Score: TypeAlias = Callable[[Any, Any, Any, Any, Any], Any]
"""The score of (scaled product, batch, head, query, key)."""

Steps: TypeAlias = tuple[int, int, int]
"""The strides of an array along batch, head and row, in elements."""

ARRAYS = "q", "k", "v", "o"

HEAD_DIMS = (64, 128, 256)
MOST_LENGTH = 1 << 20


@dataclass(frozen=True, slots=True)
class AttentionProblem:
    """Sizes and options of an attention; see the module's text.

    >>> p = attention_problem(2, 8, 512, 512, 128, causal=True, group=4)
    >>> p.kv_heads, p.shift, str(p)
    (2, 0, 'bf16 2x8/4x512x512x128 causal')
    """

    batch: int
    heads: int
    m: int
    n: int
    d: int
    element: DType
    group: int = 1
    left: int | None = None
    right: int | None = None
    align: Align = "bottom-right"
    scale: float = 0.0
    score: Score | None = None
    sums: bool = True
    strides: tuple[Steps, ...] = ()

    @property
    def kv_heads(self) -> int:
        """Heads of k and v."""
        return self.heads // self.group

    def shape(self, name: str) -> tuple[int, int, int, int]:
        """The shape of q, k, v or o."""
        of_q = name in "qo"
        return self.batch, self.heads if of_q else self.kv_heads, self.m if of_q else self.n, self.d

    def steps(self, name: str) -> Steps:
        """The strides of q, k, v or o."""
        if self.strides:
            return self.strides[ARRAYS.index(name)]
        _, heads, rows, d = self.shape(name)
        return heads * rows * d, rows * d, d

    @property
    def shift(self) -> int:
        """The key at which query 0 stands; below 0 in front of all keys."""
        return self.n - self.m if self.align == "bottom-right" else 0

    @property
    def reach(self) -> int:
        """The keys in front of which query 0 sees: of query i those below i + reach."""
        return self.shift + (self.right if self.right is not None else 0) + 1

    @property
    def begin(self) -> int:
        """The first key that query 0 sees, below 0 too: of query i key i + begin."""
        return self.shift - (self.left if self.left is not None else 0)

    @property
    def plain(self) -> bool:
        """Whether the scores are products times a positive number, which softmax may join to its exponent."""
        return self.score is None and self.scale > 0

    @property
    def seen(self) -> Any:
        """An array (m, n) of truth values: query i sees key j."""
        i, j = numpy.arange(self.m)[:, None], numpy.arange(self.n)
        ends = i + self.reach if self.right is not None else 0 * i + self.n
        return (j < ends) & (j >= (i + self.begin if self.left is not None else 0))

    @property
    def flops(self) -> int:
        """Multiplications and additions of the keys that are seen."""
        i = numpy.arange(self.m, dtype=numpy.int64)
        end = numpy.full_like(i, self.n) if self.right is None else numpy.clip(i + self.reach, 0, self.n)
        first = numpy.zeros_like(i) if self.left is None else numpy.clip(i + self.begin, 0, self.n)
        return 4 * self.d * self.batch * self.heads * int(numpy.maximum(end - first, 0).sum())

    def __str__(self) -> str:
        heads = f"{self.heads}/{self.group}" if self.group > 1 else str(self.heads)
        sides = "" if (self.left, self.right) == (None, None) else f" window {self.left} {self.right}"
        if (self.left, self.right) == (None, 0):
            sides = " causal"
        align = f" {self.align}" if sides and self.align != "bottom-right" else ""
        scale = "" if self.scale == 1 / math.sqrt(self.d) else f" scale {self.scale:g}"
        score = " score" if self.score else ""
        return f"{self.element} {self.batch}x{heads}x{self.m}x{self.n}x{self.d}{sides}{align}{scale}{score}"


def attention_problem(
    batch: int, heads: int, m: int, n: int | None = None, d: int = 128, dtype: Any = "bf16", *,
    group: int = 1, causal: bool = False, window: tuple[int | None, int | None] = (None, None),
    align: Align = "bottom-right", scale: float | None = None, score: Score | None = None,
    sums: bool = True, strides: Sequence[Steps] = (),
) -> AttentionProblem:  # fmt: skip
    """Return the problem of `m` queries and `n` keys, as many by default, in heads of `d` elements.

    `group` heads of q share one of k and v; `window` are the keys to the left and right of its own place that
    a query sees; `scale` is 1 / sqrt(d) by default; `sums` says whether the logarithms of sums are wanted;
    `strides` are those of q, k, v and o, of dense arrays by default.  Raises ShapeError, ArgumentTypeError or
    UnsupportedError where no kernel exists.

    >>> print(attention_problem(1, 2, 100, 300, 64, "f16", window=(128, 0)))
    f16 1x2x100x300x64 window 128 0
    """
    n = m if n is None else n
    for name, x in {"batch": batch, "heads": heads, "m": m, "n": n, "group": group}.items():
        least = int(name in ("heads", "group"))
        if isinstance(x, bool) or not isinstance(x, int):
            raise ArgumentTypeError(f"attention with {name} = {shown(x)}: an integer is needed")
        if not least <= x <= MOST_LENGTH:
            raise ShapeError(f"attention with {name} = {x}: {least} to {MOST_LENGTH} are accepted")
    element = find_dtype(dtype)
    if element.name not in ("bf16", "f16"):
        raise UnsupportedError(f"attention of {element}: bf16 and f16 are accepted")
    if d not in HEAD_DIMS:
        known = ", ".join(map(str, HEAD_DIMS))
        raise UnsupportedError(
            f"attention in heads of {shown(d)} elements: {known} are there; pad with zeros"
        )
    if heads % group:
        raise ShapeError(f"{heads} heads in groups of {group}: a divisor of the heads is needed")
    sides = [None if x is None or x < 0 else x for x in window]
    if causal:
        sides[1] = 0 if sides[1] is None else min(sides[1], 0)
    factor = 1 / math.sqrt(d) if scale is None else float(scale)
    if not math.isfinite(factor):
        raise ArgumentTypeError(f"attention with scale = {scale}: a finite number is needed")
    if align not in ("bottom-right", "top-left"):
        raise ArgumentTypeError(f"align = {shown(align)}: 'bottom-right' or 'top-left' is needed")
    return AttentionProblem(
        batch, heads, m, n, d, element, group, sides[0], sides[1], align, factor, score, sums, tuple(strides)
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Numbers(Arithmetic):
    """Numbers in a formula, of which the definition is computed."""

    array: Any


def _numbers(x: Any) -> Any:
    """The numbers of a formula, in float64 and int64."""
    match x:
        case _Numbers(array):
            return array
        case Value(op, args):
            parts = list(map(_numbers, args))
            if op.startswith("to "):
                return numpy.asarray(parts[0], numpy.int64 if op.endswith("32") and op != "to f32" else float)
            known = instr.OPERATIONS[op]
            return (known.exact or known.effect)(*map(numpy.asarray, parts))
    return x


def reference(p: AttentionProblem, q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    """Return o and lse by the definition, in float64, of arrays of numbers.

    >>> p = attention_problem(1, 1, 2, 1, 64, causal=True)
    >>> o, lse = reference(p, *(numpy.ones((1, 1, x, 64)) for x in (2, 1, 1)))
    >>> o[0, 0, :, 0].tolist(), lse[0, 0].tolist()
    ([0.0, 1.0], [-inf, 8.0])
    """
    wide = [numpy.asarray(x, numpy.float64) for x in (q, k, v)]
    k, v = (numpy.repeat(x, p.group, axis=1) for x in wide[1:])
    seen, finite = p.seen, numpy.isfinite(v)
    with numpy.errstate(all="ignore"):
        s = wide[0] @ k.swapaxes(2, 3) * p.scale
        if p.score is not None:
            shape = (p.batch, 1, 1, 1), (p.heads, 1, 1), (p.m, 1), (p.n,)
            places = [_Numbers(numpy.arange(x[0]).reshape(x)) for x in shape]
            s = _numbers(p.score(_Numbers(s), *places))
        s = numpy.where(seen, s, -numpy.inf)
        top = s.max(axis=-1, keepdims=True, initial=-numpy.inf)
        e = numpy.exp(s - numpy.where(top == -numpy.inf, 0, top))
        total = e.sum(axis=-1, keepdims=True)
        o = e @ numpy.where(finite, v, 0)
        for key in numpy.flatnonzero(~finite.all(axis=(0, 1, 3))):  # 0 times infinity of what is seen alone
            added = e[..., key, None] * numpy.where(finite, 0, v)[..., key, None, :]
            o += numpy.where(seen[:, key, None], added, 0)
        o = numpy.where(total == 0, 0, o / numpy.where(total == 0, 1, total))
        return o, (numpy.log(total) + numpy.where(top == -numpy.inf, 0, top))[..., 0]
