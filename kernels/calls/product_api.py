"""The product of matrices: matmul of arrays on a GPU or the CPU, with the semantics of numpy.matmul.

The idea.  As in api, an array is an address, a shape and strides; the product of some forms is determined
once (product_plan), and so is the kernel for the alignments of arrays of these forms.  Sizes, leading
dimensions, steps of a batch, alpha and beta are parameters: another size that is computed in the same tiles
compiles nothing, and a batch is a single launch.

    y = layoutalg.ops.matmul(x, w, bias=b, activation="gelu")       a linear layer
    layoutalg.ops.matmul(x, y, out=d, alpha=2, beta=1, c=d)         d = 2 x @ y + d

Notes.  float16 and bfloat16 are added up in float32, float32 too, in fused multiply-adds: TF32 is used only
on request.  int8 is added up in int32, modulo 2^32.  Every result is rounded once.

`plan_matmul` is the plan of a product, without computing it.

    print(layoutalg.ops.plan_matmul(x, w))

    4095 x 4095 x 4095 f16 TN, lda 4096, ldb 4096 on sm_90: gemm-sm90, 256x128x64, 4 stages, clusters of
    1x2x1, 230 us expected on H200-SXM, 51 us of it copies
      a is copied into rows of 4096 elements (4095 x 4095)
      b is copied into rows of 4096 elements (4095 x 4095)
    otherwise gemm-sm80, 64x64x32, 2 stages, 1458 us expected on H200-SXM

Times are those of the cost model, with a cold cache: they choose among ways, and promise nothing.  They are
stated for the board that the law of the family was fitted on; on others the law only chooses.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd, inf, prod
from numbers import Real
from typing import Any

from layoutalg.arch import DEFAULT_ARCH, find_arch
from layoutalg.codegen.expr import GRID_LIMITS
from layoutalg.codegen.gpu import gpu_status
from layoutalg.codegen.instr import ScalarFunction
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import ArgumentTypeError, ShapeError, UnsupportedError, shown
from layoutalg.kernels import gemm
from layoutalg.kernels.calls.api import permute_of
from layoutalg.kernels.calls.arrays import (
    KEPT_FORMS,
    UNIT_BYTES,
    Form,
    View,
    flag,
    form_of,
    in_simulator,
    new_array,
)
from layoutalg.kernels.calls.factors import BYTE_KINDS
from layoutalg.kernels.calls.operation import Call, Operation, Step, nothing, simulated, words_in
from layoutalg.kernels.calls.product_choice import Way, chosen_family, ways
from layoutalg.kernels.calls.product_plan import PITCH_BYTES, Copy, Product, find_product, plan_of
from layoutalg.kernels.elements import ELEMENT, bits_of, kind_of, numbers_of
from layoutalg.kernels.modes import compact_strides
from layoutalg.kernels.plan_cache import LOADED_PLANS, gpu_arch, plan_on_gpu
from layoutalg.kernels.registry import FAMILIES

MOST_TILES, LEAST_TILE = 1 << 21, 64
"""The most tiles of all products of a launch of several, and the rows and columns of the smallest tile."""


def matmul(
    a: Any, b: Any, out: Any = None, *, alpha: Real | float = 1, beta: Real | float = 0, c: Any = None,
    bias: Any = None, scale_a: Any = None, scale_b: Any = None,
    activation: str | ScalarFunction | None = None, out_dtype: Any = None, tf32: bool = False,
    fast_accumulation: bool = False, a_dtype: Any = None, b_dtype: Any = None, copy: bool = True,
    simulate: bool = False,
) -> Any:  # fmt: skip
    """activation(alpha scale_a scale_b a @ b + beta c + bias), with modes as numpy.matmul has them.

    a and b are both float16, bfloat16, float32, float64 or int8, or any floats of 8 bits, float8_e4m3fn or
    float8_e5m2; modes before the last two are a batch and broadcast.  The result has their type, or
    `out_dtype` or that of `out`, which may be float32 for 16-bit types; for int8 it is int32, for floats of 8
    bits bfloat16, float32 (the usual one where a library has no bfloat16) or float16.  c broadcasts to the
    result, bias is (n,), a number per column, or (m, 1), one per row; both have the result's type.
    activation is a name of `layoutalg.codegen.FUNCTIONS`, such as "gelu", or a function like those.  `tf32`
    multiplies float32 on tensor cores, which take 11 bits of each number: rounded by gemm-sm90, cut by
    gemm-sm80.  Arrays with strides that no kernel reads or
    writes are copied, unless `copy` is False.  `out` may be c itself, and has exactly the result's shape.
    Arrays on the CPU are computed in float64 and rounded once; `simulate` runs the kernel in the simulator.

    scale_a and scale_b are float32, one number each, or (m, 1), one per row, and (1, n), one per column; of
    8-bit floats together one per block, (m, k / 128) and (k / 128, n / 128), rounded up.  Sums of 8-bit
    floats on tensor cores have 14 bits: those of every 128 of k are added up in float32, or with
    `fast_accumulation` all are left to tensor cores.  `a_dtype` and `b_dtype` are types of 8-bit floats that
    arrays of uint8 carry.

    Raises ArgumentTypeError for what is not an array or a number, arrays of several types, libraries or
    devices, a c without a beta and a beta without c, and an `out` that overlaps what is read; ShapeError for
    shapes that do not go together; UnsupportedError for other types and for what has to be copied and may not
    be; NotInjectiveError for an `out` that has one place for two results; ResourceError for more elements
    than are simulated, or than memory holds.

    >>> import numpy
    >>> x, w = numpy.array([[1, 2], [3, 4]], "f4"), numpy.array([[1, 0], [0, -1]], "f4")
    >>> matmul(x, w, bias=numpy.array([0, 3], "f4"), activation="relu").tolist()
    [[1.0, 1.0], [3.0, 0.0]]
    """
    options = (alpha, beta, activation, out_dtype, tf32, copy, fast_accumulation, a_dtype, b_dtype)
    return MATMUL.compute(options, (a, b, c, bias, scale_a, scale_b, out), simulate)


def _multiplied(
    call: Call, alpha: Any, beta: Any, activation: Any, out_dtype: Any, tf32: Any, copy: Any, fast: Any,
    a_dtype: Any, b_dtype: Any,
) -> Callable[[], object]:  # fmt: skip
    given = call.views
    carry(given, a=a_dtype, b=b_dtype)
    product = asked_of(given, activation, out_dtype, tf32, copy, fast)
    words = _words(product, alpha, beta)
    call.result(product.shape, (product.kind,), in_place="c")
    in_simulator(call.simulated, given["out"])
    if product.empty:
        return nothing
    adds_up = product.k > 0
    if not adds_up:
        product = _of_zeros(product, given)

    def load() -> Callable[[], object]:
        steps, end = _loaded(product, starts_of(given))
        scalars = {name: (0, word) for name, word in words.items()}
        return call.launched(
            [(sequence, {**scalars, **where}) for sequence, where in steps], end, kept=adds_up
        )

    return call.run(
        functools.partial(_compute, product, given, alpha, beta),
        functools.partial(_simulate, product, given, words),
        load,
    )


MATMUL = Operation(
    "matmul", ("a", "b", "c", "bias", "scale_a", "scale_b", "out"),
    ("alpha", "beta", "activation", "out_dtype", "tf32", "copy", "fast_accumulation", "a_dtype", "b_dtype"),
    _multiplied, needed=2,
)  # fmt: skip


def asked_of(
    given: Mapping[str, View], activation: Any = None, out_dtype: Any = None, tf32: Any = False,
    copy: Any = True, fast: Any = False,
) -> Product:  # fmt: skip
    """Return the product of a call's arrays, which are given by name; equal products are the same object.

    >>> import numpy
    >>> from layoutalg.kernels.calls.arrays import view
    >>> asked_of({x: view(numpy.ones((4, 4))) for x in "ab"}).shape
    (4, 4)
    """
    if activation is not None and not isinstance(activation, str | ScalarFunction):
        raise ArgumentTypeError(f"activation is {shown(activation)}: a name or None is needed")
    return _product(
        *[given[x].form if x in given else None for x in MATMUL.arrays],
        activation or "none", None if out_dtype is None else kind_of(out_dtype), flag("tf32", tf32),
        flag("copy", copy), flag("fast_accumulation", fast),
    )  # fmt: skip


def carry(given: dict[str, View], **types: Any) -> None:
    """See arrays of uint8 as those of the 8-bit floats that they carry.

    Raises ArgumentTypeError for other arrays and other types, UnknownNameError for what is not a type.

    >>> import numpy
    >>> from layoutalg.kernels.calls.arrays import view
    >>> given = {"a": view(numpy.zeros((2, 2), "u1"))}
    >>> carry(given, a="e4m3")
    >>> given["a"].form.kind
    'float8_e4m3fn'
    """
    kinds = {of: kind for kind, of in BYTE_KINDS.items()}
    for name, of in types.items():
        if of is None:
            continue
        kind, form = kinds.get(find_dtype(str(of).removeprefix("torch.")).name), given[name].form
        if kind is None or form.kind not in ("uint8", kind):
            known = " and ".join(kinds)
            raise ArgumentTypeError(
                f"{name} holds {form.kind}, and {name}_dtype is {shown(of)}: uint8 and {known} are accepted"
            )
        own = form_of(form.library, form.device, kind, form.itemsize, form.shape, form.strides)
        given[name] = given[name]._replace(form=own)


def starts_of(given: Mapping[str, View]) -> tuple[tuple[str, int], ...]:
    """Return the bytes after a multiple of 16 at which each array of a call starts; 0 for an absent one.

    >>> import numpy
    >>> from layoutalg.kernels.calls.arrays import view
    >>> starts_of({"b": view(numpy.zeros(64, "f4"))})[2:]
    (('c', 0), ('bias', 0), ('scale_a', 0), ('scale_b', 0), ('out', 0))
    """
    return tuple([(x, given[x].address % UNIT_BYTES if x in given else 0) for x in MATMUL.arrays])


_product = functools.lru_cache(KEPT_FORMS)(find_product)
"""The product of forms, determined once."""


# --- arguments -----------------------------------------------------------------------------------------


def _words(product: Product, alpha: Any, beta: Any) -> Mapping[str, int]:
    """alpha and beta as kernels take them."""
    try:
        return _scalars(product, alpha, beta)
    except TypeError as error:
        if isinstance(error, ArgumentTypeError):
            raise
        name, value = ("alpha", alpha) if not isinstance(alpha, Real) else ("beta", beta)
        raise ArgumentTypeError(f"{name} is {shown(value)}: a number is needed") from error  # it has no hash


@functools.lru_cache(KEPT_FORMS, typed=True)
def _scalars(product: Product, alpha: Any, beta: Any) -> Mapping[str, int]:
    least = gemm.gemm_problem(1, 1, 1, product.element)
    words = gemm.scalar_words(least, "alpha", alpha) | gemm.scalar_words(least, "beta", beta)
    if "c" in product.forms and beta == 0:
        raise ArgumentTypeError("c is given and beta is 0, so that c would not count: take beta=1, or no c")
    if "c" not in product.forms and beta != 0:
        raise ArgumentTypeError(f"beta is {shown(beta)} and no c is given: give c, or take beta=0")
    return words


def _of_zeros(product: Product, given: dict[str, View]) -> Product:
    """The product of operands without k as one of zeros along one k, which take their places."""
    if product.arithmetic == gemm.BLOCKS:  # of which there are none
        del given["scale_a"], given["scale_b"]
    for name, axis in (("a", -1), ("b", -2)):
        shape = list(given[name].form.shape)
        shape[max(axis, -len(shape))] = 1
        made, form = new_array(given[name], tuple(shape), zeros=True), given[name].form
        given[name] = made._replace(form=form.laid(made.shape, made.strides))  # of what uint8 carries too
    return again(product, given)


def again(product: Product, given: Mapping[str, View]) -> Product:
    """The product of other arrays in the same way."""
    return asked_of(
        given, product.activation, None, product.element == "tf32", product.copy,
        product.arithmetic == gemm.FAST,
    )  # fmt: skip


# --- on a GPU ------------------------------------------------------------------------------------------


@functools.lru_cache(LOADED_PLANS)
def _loaded(
    product: Product, starts: tuple[tuple[str, int], ...]
) -> tuple[list[Step], int]:  # fmt: skip
    """The launches of a product on the current GPU, and the bytes of scratch memory, where copies lie behind
    what kernels have there."""
    arch, device, forms = gpu_arch(), product.forms["a"].device, product.forms
    way = ways(product, starts, arch)[0]
    parts = [
        (plan_on_gpu(way.family if p == way.plan.p else chosen_family(p, arch)[1], p, device), offsets)
        for p, offsets in chunks(way.plan.p)
    ]
    end = max(part.sequence.scratch_bytes for part, _ in parts)
    where = {name: (n, 0) for n, name in enumerate(MATMUL.arrays, 1) if name in {*forms, "out"}}
    before, behind = list[Step](), list[Step]()
    for name, part in way.plan.copies.items():
        lies, at = where[name], -(-end // PITCH_BYTES) * PITCH_BYTES
        end, where[name] = at + prod(part.room) * forms[name].itemsize, (len(MATMUL.arrays) + 1, at)
        sides = (where[name], lies) if name == "out" else (lies, where[name])
        (behind if name == "out" else before).append(_move(forms[name], part, dict(starts)[name], *sides))
    where["d"] = where.pop("out")
    if way.plan.turned:
        where["a"], where["b"] = where["b"], where["a"]
    for plan, offsets in parts:
        before.append((plan.sequence, {x: (n, at + offsets.get(x, 0)) for x, (n, at) in where.items()}))
    return before + behind, end


def _move(form: Form, part: Copy, start: int, src: tuple[int, int], dst: tuple[int, int]) -> Step:
    """The launch that copies an operand, which starts so many bytes behind a 16-byte unit, to scratch memory,
    or `out` from there.  Rows that only get another pitch have a kernel for all sizes."""
    rows, ends = part.rows, {"src": src, "dst": dst}
    neighbours = part.strides[-1] == form.itemsize
    if part.pitch and neighbours and rows is not None and rows[1] >= part.shape[-1] * form.itemsize:
        p = FAMILIES["tiled_copy"].problem(
            rows[0], part.shape[-1], f"u{8 * form.itemsize}", rows[1] // form.itemsize, part.pitch,
            align_bytes=gcd(UNIT_BYTES, start),
        )  # fmt: skip
        return plan_on_gpu("tiled_copy", p, form.device).sequence, ends
    steps = tuple(d * form.itemsize for d in compact_strides(part.room))
    here, dense = (form.laid(part.shape, strides) for strides in (part.strides, steps))
    at, order = (start + here.low) % UNIT_BYTES - here.low, tuple(range(len(part.shape)))
    ends = {name: (n, more if n > len(MATMUL.arrays) else -at) for name, (n, more) in ends.items()}
    of, to = (here, dense) if src[0] < dst[0] else (dense, here)
    p = permute_of(of, order, to, at if of is here else 0, at if to is here else 0)
    return plan_on_gpu("permute", p, form.device).sequence, ends


def chunks(p: gemm.GemmProblem) -> Iterator[tuple[gemm.GemmProblem, Mapping[str, int]]]:
    """Problems of as many products as a launch has, with the bytes from each operand's start to theirs; a
    product that has all tiles of a launch is no batch.

    >>> from layoutalg.kernels.gemm import BatchMode, gemm_problem
    >>> p = gemm_problem(2, 2, 2, "f32", batch=[BatchMode(100_000, a=4, d=4)])
    >>> [(str(q), dict(further)) for q, further in chunks(p)][1]
    ('50000 x 2 x 2 x 2 f32 TN', {'a': 800000, 'b': 0, 'c': 0, 'd': 800000})
    """
    tiles = -(-p.m // LEAST_TILE) * -(-p.n // LEAST_TILE) * p.products
    if p.products == 1 or (p.products <= GRID_LIMITS[2] and tiles <= MOST_TILES):
        yield p if p.products > 1 else replace(p, batch=()), {}
        return
    i = max(range(len(p.batch)), key=lambda i: p.batch[i].extent)
    mode = p.batch[i]
    bytes_of = dict.fromkeys("ab", p.operand.nbytes) | dict.fromkeys("cd", p.result.nbytes)
    half = -(-mode.extent // 2)
    for start, extent in ((0, half), (half, mode.extent - half)):
        part = replace(p, batch=(*p.batch[:i], replace(mode, extent=extent), *p.batch[i + 1 :]))
        own = {x: start * getattr(mode, x) * nbytes for x, nbytes in bytes_of.items()}
        for q, offsets in chunks(part):
            yield q, {x: n + offsets.get(x, 0) for x, n in own.items()}


# --- on the CPU ----------------------------------------------------------------------------------------


def _compute(product: Product, given: Mapping[str, View], alpha: Any, beta: Any) -> None:
    """The definition, in float64, rounded once; of integers exact, modulo 2^32."""
    import numpy

    numbers = {x: _numbers(v) for x, v in given.items() if x != "out"}
    target = given["out"]
    with numpy.errstate(all="ignore"):
        scales = [numbers["scale_a"], numbers["scale_b"].T] if product.arithmetic == gemm.BLOCKS else []
        total = gemm.multiplied(numbers["a"], numbers["b"], *scales)
        shape = (*product.batch, product.m, product.n)
        total = total.reshape(shape)
        if "c" in numbers:
            numbers["c"] = numpy.broadcast_to(numbers["c"], product.shape).reshape(shape)
        numbers |= {x: numbers[x].reshape(-1) for x in ("bias", *product.scales) if x in numbers}
        if product.integers:
            bits = _integers(product, total, numbers, int(alpha), int(beta))
        else:
            scaled = numbers | {"alpha": float(alpha), "beta": float(beta)}
            exact, _ = product.epilogue.definition(total, 0.0, scaled, 0.0)
            bits = bits_of(numpy.asarray(exact), ELEMENT[product.kind])
    words_in(target)[...] = bits.reshape(product.shape)


def _numbers(v: View) -> Any:
    """The numbers of an array on the CPU, as float64, that of bfloat16 and of tensors too."""
    import numpy

    if v.form.kind == "bfloat16":
        return (v.host.view("u2").astype("u4") << 16).view("f4").astype(float)
    if v.form.kind in BYTE_KINDS:
        return numbers_of(words_in(v), BYTE_KINDS[v.form.kind])
    return v.host.view(v.form.kind).astype(float) if v.form.elems else numpy.zeros(v.form.shape)


def _integers(product: Product, total: Any, numbers: Mapping[str, Any], alpha: int, beta: int) -> Any:
    """The bits of the epilogue of integer sums, modulo 2^32; sums themselves are exact in float64."""

    def wrapped(x: Any, factor: int = 1) -> Any:
        return (x.astype("i8") * (factor % (1 << 32))).astype("u4")

    value = wrapped(total, alpha)
    if "c" in numbers:
        value += wrapped(numbers["c"], beta)
    if "bias" in numbers:
        value += wrapped(numbers["bias"] if product.along == "n" else numbers["bias"][:, None])
    for f in product.epilogue.functions:
        value = wrapped(f.meaning(value.view("i4").astype("i8")))
    return value


def _simulate(product: Product, given: Mapping[str, View], words: Mapping[str, int]) -> None:
    """The same by the kernels that are printed, in the simulator, on dense copies, b by rows of k, which all
    kernels read."""
    copies = {
        name: dense_copy(v, product.shape if name == "c" else v.shape, by_k=name == "b" and len(v.shape) > 1)
        for name, v in given.items()
    }
    plan = plan_of(again(product, copies), {})
    memory = {name: copy.host.ravel("K") for name, copy in copies.items()}
    if plan.turned:
        memory["a"], memory["b"] = memory["b"], memory["a"]
    memory["d"] = memory.pop("out")
    ran = simulated(gemm.expected_family(plan.p)[1], plan.p, memory, words)
    words_in(given["out"])[...] = ran["d"][: prod(product.shape)].reshape(product.shape)


def dense_copy(v: View, shape: tuple[int, ...], *, by_k: bool) -> View:
    """A copy of an array on the CPU, broadcast to a shape: row-major, or its matrices column-major.

    >>> import numpy
    >>> from layoutalg.kernels.calls.arrays import view
    >>> dense_copy(view(numpy.ones((2, 3), "f4")), (5, 2, 3), by_k=True).strides
    (24, 4, 8)
    """
    import numpy

    bits = numpy.broadcast_to(words_in(v), shape)
    copy = bits.swapaxes(-1, -2).copy().swapaxes(-1, -2) if by_k else bits.copy()
    return View(copy, 0, form_of("numpy", None, v.form.kind, bits.itemsize, shape, copy.strides), copy)


@dataclass(frozen=True, eq=False)
class MatmulPlan:
    """The ways to compute a product on an architecture, the one that `matmul` takes first.

    `problem` is what its kernel computes, b^T a^T where the result lies in columns.  Times are nanoseconds on
    the board that `asked` names.

    >>> import numpy
    >>> plan = plan_matmul(numpy.ones((1, 4096), "f4"), numpy.ones((4096, 4096), "f4"), arch="sm_90")
    >>> plan.family, str(plan.problem)
    ('gemv', '1 x 4096 x 4096 f32 TT')
    """

    arch: str
    ways: tuple[Way, ...]
    asked: str

    @property
    def problem(self) -> gemm.GemmProblem:
        """The problem that the kernel computes."""
        return self.ways[0].plan.p

    @property
    def family(self) -> str:
        """The family of kernels."""
        return self.ways[0].family

    @property
    def config(self) -> gemm.Config | gemm.GemvConfig | None:
        """The configuration of the family; None where none fits, and a call is refused."""
        return self.ways[0].config

    @property
    def copies(self) -> tuple[str, ...]:
        """The arrays that are copied before, or "out" after."""
        return tuple(sorted(self.ways[0].plan.copies))

    @property
    def expected_ns(self) -> float:
        """The time that the call is expected to take, copies included.

        Raises UnsupportedError where no law exists for the board that `asked` names, see `Family.machine_on`.
        """
        if _by_law(self.ways[0]):
            FAMILIES[self.family].machine_on(self.asked)
        return self.ways[0].ns

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        first, *rest = self.ways
        yield f"{self.problem} on {self.arch}: {_said(first, self.asked)}"
        for name, part in sorted(first.plan.copies.items()):
            shape = " x ".join(map(str, part.shape))
            verb = "is computed apart and moved" if name == "out" else "is copied"
            yield f"  {name} {verb}{f' into rows of {part.pitch} elements' if part.pitch else ''} ({shape})"
        for way in rest:
            copied = f", copying {' and '.join(sorted(way.plan.copies))}" if way.plan.copies else ""
            yield f"otherwise {_said(way, self.asked)}{copied}"


def _by_law(way: Way) -> bool:
    """Whether a way was chosen by the law of its family, not by a lock file."""
    return way.source == "cost model"


def _said(way: Way, asked: str) -> str:
    if way.ns == inf:
        return f"{way.family}, which has no configuration for it"
    where = ""
    if _by_law(way):
        try:
            where = f" on {FAMILIES[way.family].machine_on(asked).board}"
        except UnsupportedError as error:
            return f"{way.family}, {way.config} ({error})"
    copies = f", {way.copies_ns / 1e3:.0f} us of it copies" if way.copies_ns else ""
    source = "" if _by_law(way) else f", by the {way.source}"
    return f"{way.family}, {way.config}, {way.ns / 1e3:.0f} us expected{where}{copies}{source}"


def plan_matmul(
    a: Any, b: Any, out: Any = None, *, c: Any = None, bias: Any = None, scale_a: Any = None,
    scale_b: Any = None, activation: str | ScalarFunction | None = None, out_dtype: Any = None,
    tf32: bool = False, fast_accumulation: bool = False, a_dtype: Any = None, b_dtype: Any = None,
    copy: bool = True, arch: str | None = None,
) -> MatmulPlan:  # fmt: skip
    """Return the plan of `matmul` for these arrays: family, configuration, copies, expected time.

    Arrays on the CPU are treated as arrays on a GPU with the same strides and alignment.  `arch` names an
    architecture, a GPU or a board: that of the current GPU, or sm_90 where there is none.  Nothing is
    computed or compiled.  Raises as `matmul` does, ShapeError for a product without elements,
    UnknownNameError for another architecture.

    >>> import numpy
    >>> x, w = numpy.ones((4096, 4096), "f2"), numpy.ones((4096, 4096), "f2")
    >>> plan = plan_matmul(x, w.T, arch="sm_90")
    >>> plan.family, plan.copies
    ('gemm-sm90', ())
    >>> print(plan_matmul(x[:, 1:], w[:, 1:].T, arch="sm_90").family)
    gemm-sm90
    """
    given = Call(MATMUL, (), (a, b, c, bias, scale_a, scale_b, out)).views
    carry(given, a=a_dtype, b=b_dtype)
    product = asked_of(given, activation, out_dtype, tf32, copy, fast_accumulation)
    name, chip = planned_for(product, given, arch)
    return MatmulPlan(chip, ways(product, starts_of(given), chip), name)


def planned_for(product: Product, given: Mapping[str, View], arch: str | None) -> tuple[str, str]:
    """The name that a plan is asked for, and its architecture.  Raises ShapeError without elements."""
    if product.empty or not product.k:
        shapes = " and ".join(str(given[x].form.shape) for x in "ab")
        raise ShapeError(f"a product of {shapes} has no elements to add up: no kernel is launched")
    name = arch or gpu_status().arch or DEFAULT_ARCH
    return name, find_arch(name).name
