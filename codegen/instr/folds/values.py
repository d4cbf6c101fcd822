"""Values of several words, and how they join: records with text and effect.

    sum_s64, prod_s64, max_s64, min_s64     integers of 64 bits, modulo 2^64
    arg           an index carried with its value, as one number of 64 bits: the value, so that what comes
                  first is greater and NaN is the greatest, above the complement of the index
    arg_s64       the same of integers of 64 bits, in four words
    logsumexp     a maximum m and s = sum e^(v - m)
    nll           the same, the element that a label names, and the label: minus the logarithm of a share
    moments       (count, mean, sum of squares from the mean)

The idea.  The greatest of numbers made of a value and the complement of its index is the first of the
greatest values, so that the join of `arg` is a maximum of integers: exact, in any order.  The others join in
the order of a kernel, and round as text and effect do alike.

Notes.  In a butterfly of moments lanes differ in the last place: the first one's counts.  A maximum that is
not finite counts as 0 while exponentials are made, so that one of -infinity has a sum of 0, and one of
infinity a sum that is infinite.

Sources: PTX ISA 9.0, 9.7.3.12 (max.NaN), 9.7.3.21 (ex2.approx); T. F. Chan, G. H. Golub,
R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy

from layoutalg.codegen.instr.words import EXP2, MAX_NAN, Array, float_words, floats


def wide(a: Array) -> Array:
    """Values of two words, low half first, as numbers of 64 bits."""
    return a[..., 0].astype(numpy.uint64) | a[..., 1].astype(numpy.uint64) << numpy.uint64(32)


def words_of(numbers: Array) -> Array:
    """The inverse."""
    low = (numbers & numpy.uint64(0xFFFFFFFF)).astype(numpy.uint32)
    return numpy.stack([low, (numbers >> numpy.uint64(32)).astype(numpy.uint32)], axis=-1)


def _integers(function: Callable[[Array, Array], Array], *, signed: bool = True) -> Callable[..., Array]:
    def joined(a: Array, b: Array) -> Array:
        x, y = wide(a), wide(b)
        if signed:
            x, y = x.view(numpy.int64), y.view(numpy.int64)
        with numpy.errstate(over="ignore"):
            return words_of(function(x, y).view(numpy.uint64))

    return joined


def _greater_of_four(a: Array, b: Array) -> Array:
    x, y = wide(a), wide(b)
    after = (y > x) | ((y == x) & (b[..., 2] > a[..., 2]))
    return numpy.where(after[..., None], b, a)


_LOG2_E = 1.44269502
"""log2 e, which nine digits tell from all other floats."""


def exponential(x: Array) -> Array:
    """e^x as the hardware approximates it, except for its error."""
    scaled = (x * numpy.float32(_LOG2_E)).astype(numpy.float64)
    power = numpy.exp2(scaled).astype(numpy.float32)
    return numpy.where(power < numpy.finfo(numpy.float32).tiny, numpy.float32(0), power)


def _add_exponentials(a: Array, b: Array) -> Array:
    with numpy.errstate(all="ignore"):
        (m, s), (n, t) = ([floats(x[..., i]) for i in range(2)] for x in (a, b))
        most = numpy.maximum(m, n)
        base = numpy.where(numpy.isfinite(most), most, numpy.float32(0))
        total = s * exponential(m - base) + t * exponential(n - base)
        return numpy.stack([float_words(most), float_words(total)], axis=-1)


def _add_labelled(a: Array, b: Array) -> Array:
    with numpy.errstate(all="ignore"):
        named = float_words(floats(a[..., 2]) + floats(b[..., 2]))
    label = numpy.maximum(a[..., 3], b[..., 3])
    return numpy.concatenate(
        [_add_exponentials(a[..., :2], b[..., :2]), named[..., None], label[..., None]], axis=-1
    )


def _merge(a: Array, b: Array) -> Array:
    with numpy.errstate(all="ignore"):
        (n, mean, q), (k, other, r) = ([floats(x[..., i]) for i in range(3)] for x in (a, b))
        every = n + k
        share = k / every
        apart = other - mean
        both = numpy.float32(apart * apart) * numpy.float32(n * share)
        merged = numpy.stack(
            [
                float_words(every),
                float_words(mean + apart * share),
                float_words((q + r) + both),
                numpy.zeros_like(a[..., 3]),
            ],
            axis=-1,
        )
        return numpy.where((k == 0)[..., None], a, numpy.where((n == 0)[..., None], b, merged))


def _long(x: str) -> str:
    return f"((u64){x}[1] << 32 | {x}[0])"


def _integer_text(name: str, value: str) -> str:
    return (
        f"void join_{name}(u32* a, const u32* b) {{\n"
        f"    const u64 x = {_long('a')}, y = {_long('b')};\n"
        f"    const u64 d = {value};\n    a[0] = (u32)d;\n    a[1] = (u32)(d >> 32);\n}}"
    )


_FOUR_TEXT = f"""void join_arg_s64(u32* a, const u32* b) {{
    const u64 x = {_long("a")}, y = {_long("b")};
    const bool after = y > x || (y == x && b[2] > a[2]);
    #pragma unroll
    for (int i = 0; i < 3; ++i) a[i] = after ? b[i] : a[i];
}}"""

_EXPONENTIALS_TEXT = """void join_logsumexp(u32* a, const u32* b) {
    const float m = __uint_as_float(a[0]), n = __uint_as_float(b[0]), most = max_nan(m, n);
    const float base = fabsf(most) < INFINITY ? most : 0.0f;
    const float x = exp2_approx(__fmul_rn(__fsub_rn(m, base), 1.44269502f));
    const float y = exp2_approx(__fmul_rn(__fsub_rn(n, base), 1.44269502f));
    const float s = __fadd_rn(__fmul_rn(__uint_as_float(a[1]), x), __fmul_rn(__uint_as_float(b[1]), y));
    a[0] = __float_as_uint(most);
    a[1] = __float_as_uint(s);
}"""

_LABELLED_TEXT = """void join_nll(u32* a, const u32* b) {
    join_logsumexp(a, b);
    a[2] = __float_as_uint(__fadd_rn(__uint_as_float(a[2]), __uint_as_float(b[2])));
    a[3] = max(a[3], b[3]);
}"""

_MERGE_TEXT = """void join_moments(u32* a, const u32* b) {
    const float n = __uint_as_float(a[0]), k = __uint_as_float(b[0]), every = __fadd_rn(n, k);
    const float mean = __uint_as_float(a[1]), apart = __fsub_rn(__uint_as_float(b[1]), mean);
    const float share = __fdiv_rn(k, every), both = __fmul_rn(__fmul_rn(apart, apart), __fmul_rn(n, share));
    const float q = __fadd_rn(__fadd_rn(__uint_as_float(a[2]), __uint_as_float(b[2])), both);
    const float at = __fadd_rn(mean, __fmul_rn(apart, share));
    if (n == 0.0f) {
        a[0] = b[0];
        a[1] = b[1];
        a[2] = b[2];
    } else if (k != 0.0f) {
        a[0] = __float_as_uint(every);
        a[1] = __float_as_uint(at);
        a[2] = __float_as_uint(q);
    }
}"""


@dataclass(frozen=True, slots=True)
class Fold:
    """A way to join values of several words: the words of one that changes nothing, text and effect.

    `effect` joins arrays of words whose last axis is that of a value.
    """

    neutral: tuple[int, ...]
    text: str
    effect: Callable[[Array, Array], Array]
    uses: tuple[str, ...] = ()

    @property
    def words(self) -> int:
        """Words of a value: 2 or 4."""
        return len(self.neutral)


TOP = 1 << 31
"""The sign of a word."""

_LEAST, _MOST = (0, TOP), (0xFFFFFFFF, TOP - 1)
_SIGNED = "(long long)x {} (long long)y ? x : y"

FOLDS: Mapping[str, Fold] = MappingProxyType(
    {
        "sum_s64": Fold((0, 0), _integer_text("sum_s64", "x + y"), _integers(numpy.add)),
        "prod_s64": Fold((1, 0), _integer_text("prod_s64", "x * y"), _integers(numpy.multiply)),
        "max_s64": Fold(
            _LEAST, _integer_text("max_s64", _SIGNED.format(">")), _integers(numpy.maximum)
        ),
        "min_s64": Fold(_MOST, _integer_text("min_s64", _SIGNED.format("<")), _integers(numpy.minimum)),
        "arg": Fold(
            (0, 0), _integer_text("arg", "x > y ? x : y"), _integers(numpy.maximum, signed=False)
        ),
        "arg_s64": Fold((0, 0, 0, 0), _FOUR_TEXT, _greater_of_four),
        "logsumexp": Fold(
            (0xFF800000, 0), _EXPONENTIALS_TEXT, _add_exponentials, (MAX_NAN, EXP2)
        ),
        "nll": Fold(
            (0xFF800000, 0, 0, 0), _LABELLED_TEXT, _add_labelled, (MAX_NAN, EXP2, _EXPONENTIALS_TEXT)
        ),
        "moments": Fold((0, 0, 0, 0), _MERGE_TEXT, _merge),
    }
)  # fmt: skip
"""The folds of values of several words, by name."""
