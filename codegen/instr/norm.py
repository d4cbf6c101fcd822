"""The steps of softmax and layer norm on floats in registers: exponentials of differences, and moments.

The idea.  n values v of a lane belong to one statistic (accumulators = 1) or to n of them, side by side:

    softmax      fold("max")                   m = the largest value
                 rescale(k)                    s *= e^(old - m) where the maximum has grown
                 add_exp(n, k)                 s += e^(v - m)
                 apply_softmax(n, k)           v = e^(v - m) * r,   r = 1 / s  (reciprocal)
    layer norm   add_square(n, k)              q += (v - mean)^2
                 average(k)                    mean = sum / count
                 merge_moments(k)              (count, mean, q) of a part joins those of what came before it
                 apply_norm(n, k)              v = (v - mean) * r,  r = rsqrt(q / count + eps)

An online softmax keeps (m, s) and rescales; a stable variance keeps (mean, q) and merges.  A maximum of
-infinity, of values that are all -infinity so far, counts as 0 while sums are made: their exponentials are 0.
The last step uses the true one, so that such a row becomes NaN, as -inf - -inf is.

Notes.  e^x is 2^(x log2 e) by ex2.approx.ftz.f32.  It is approximate: within 2 units of the last place, the
bound of exp2f, which is this instruction; subnormal results are 0.  The simulator computes the nearest float
instead, so that results of the two agree within a bound, not to the bit.  Differences are taken before the
product, so that values near the largest float do not overflow.  All else is rounded to the nearest float on
both sides.

Sources: PTX ISA 9.0, 9.7.3.21 (ex2.approx); CUDA C++ Programming Guide, "Mathematical Functions" (exp2f);
M. Milakov, N. Gimelshein, "Online normalizer calculation for
softmax", 2018; T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for
computing sample variances", 1979.
"""

from __future__ import annotations

import functools

from layoutalg.codegen.instr.lanewise import Block, Value, lanewise
from layoutalg.codegen.instr.record import Instr, into, updated, value
from layoutalg.errors import UnsupportedError

LOG2_E = 0x3FB8AA3B
"""log2 e as the word of the nearest float."""


def _shares(n: int, k: int) -> None:
    if k not in (1, n):
        raise UnsupportedError(f"{n} values of {k} statistics: 1 or {n} are accepted")


def _added(sums: str, n: int, k: int) -> Block:
    """The values e of n elements added to k sums: to one as a tree."""
    return Block({sums: ("add", sums, "e" if k == n else ("tree", "add", "e"))}, k)


@functools.cache
def add_exp(n: int, k: int) -> Instr:
    """s += e^(v - m) of n values of k statistics, 1 or n; where m is -infinity it counts as 0.

    Raises UnsupportedError for another k.

    >>> add_exp(8, 1).name
    'add_exp_8_to_1'
    """
    _shares(n, k)
    most: dict[str, Value] = {"most": ("finite", "m")}
    power: dict[str, Value] = {"e": ("exp", ("sub", "v", "most"))}
    blocks = (Block(most), Block(power, n)) if k == 1 else (Block(most | power, n),)
    operands = updated("s", k), into("v", n), into("m", k)
    return lanewise(f"add_exp_{n}_to_{k}", operands, *blocks, _added("s", n, k), arrays={"e": n})


@functools.cache
def rescale(k: int) -> Instr:
    """s *= e^(old - m) for k sums whose maximum was `old` and is m; where m is -infinity s stays.

    >>> rescale(4).operands[1].name
    'old'
    """
    steps = {"most": ("finite", "m"), "s": ("mul", "s", ("exp", ("sub", "old", "most")))}
    return lanewise(f"rescale_{k}", (updated("s", k), into("old", k), into("m", k)), Block(steps, k))


@functools.cache
def apply_softmax(n: int, k: int) -> Instr:
    """v = e^(v - m) * r for n values of k statistics, 1 or n.  Raises UnsupportedError for another k.

    >>> apply_softmax(4, 4).name
    'apply_softmax_4_of_4'
    """
    _shares(n, k)
    steps = {"v": ("mul", ("exp", ("sub", "v", "m")), "r")}
    operands = updated("v", n), into("m", k), into("r", k)
    return lanewise(f"apply_softmax_{n}_of_{k}", operands, Block(steps, n))


@functools.cache
def reciprocal(k: int) -> Instr:
    """d[i] = 1 / d[i], rounded to the nearest, for k floats.

    >>> reciprocal(1).name
    'reciprocal_1'
    """
    return lanewise(f"reciprocal_{k}", (updated("d", k),), Block({"d": ("reciprocal", "d")}, k))


@functools.cache
def add_square(n: int, k: int) -> Instr:
    """q += (v - mean)^2 of n values of k statistics, 1 or n.  Raises UnsupportedError for another k.

    >>> add_square(8, 1).name
    'add_square_8_to_1'
    """
    _shares(n, k)
    square = Block({"c": ("sub", "v", "mean"), "e": ("mul", "c", "c")}, n)
    operands = updated("q", k), into("v", n), into("mean", k)
    return lanewise(f"add_square_{n}_to_{k}", operands, square, _added("q", n, k), arrays={"e": n})


@functools.cache
def merge_moments(k: int) -> Instr:
    """(count, mean, q) of k statistics joined with those of another part, which has `more` values.

    count and more are one float for all k; a part without values changes nothing.

    >>> merge_moments(1).name
    'merge_moments_1'
    """
    operands = (
        updated("count", 1), updated("mean", k), updated("q", k), into("more", 1), into("mean_b", k),
        into("q_b", k),
    )  # fmt: skip
    share = ("if_positive", "all", ("mul", "more", ("reciprocal", "all")), 0.0)
    square = ("add", "q_b", ("mul", ("mul", "d", "count"), "step"))
    joined = {
        "d": ("sub", "mean_b", "mean"), "step": ("mul", "d", "share"), "q": ("add", "q", square),
        "mean": ("add", "mean", "step"),
    }  # fmt: skip
    counted = Block({"all": ("add", "count", "more"), "share": share})
    return lanewise(f"merge_moments_{k}", operands, counted, Block(joined, k), Block({"count": "all"}))


@functools.cache
def average(k: int) -> Instr:
    """d[i] /= count for k sums and one count; they stay where it is 0.

    >>> average(1).name
    'average_1'
    """
    share = Block({"share": ("if_positive", "count", ("reciprocal", "count"), 1.0)})
    operands = updated("d", k), into("count", 1)
    return lanewise(f"average_{k}", operands, share, Block({"d": ("mul", "d", "share")}, k))


@functools.cache
def deviation(k: int) -> Instr:
    """d[i] = 1 / sqrt(d[i] * scale + eps) for k floats: the reciprocal of a standard deviation.

    >>> deviation(1).name
    'deviation_1'
    """
    steps = {"d": ("rsqrt_rn", ("add", ("mul", "d", "scale"), "eps"))}
    return lanewise(f"deviation_{k}", (updated("d", k), value("scale"), value("eps")), Block(steps, k))


@functools.cache
def apply_norm(n: int, k: int) -> Instr:
    """v = (v - mean) * r for n values of k statistics, 1 or n.  Raises UnsupportedError for another k.

    >>> apply_norm(8, 1).name
    'apply_norm_8_of_1'
    """
    _shares(n, k)
    operands = updated("v", n), into("mean", k), into("r", k)
    return lanewise(f"apply_norm_{n}_of_{k}", operands, Block({"v": ("mul", ("sub", "v", "mean"), "r")}, n))


@functools.cache
def multiply(n: int, k: int) -> Instr:
    """v[i] *= w[i] for n floats and as many factors, or one.  Raises UnsupportedError for another k.

    >>> multiply(4, 1).name
    'multiply_4_by_1'
    """
    _shares(n, k)
    operands = updated("v", n), into("w", k)
    return lanewise(f"multiply_{n}_by_{k}", operands, Block({"v": ("mul", "v", "w")}, n))


@functools.cache
def add_one(n: int) -> Instr:
    """v[i] += b for n floats and one summand; for n summands see instr_reduce.fold.

    >>> add_one(4).name
    'add_one_4'
    """
    return lanewise(f"add_one_{n}", (updated("v", n), into("b", 1)), Block({"v": ("add", "v", "b")}, n))
