"""Products drawn at random as people call them, each beside the fastest of what its caller has.

python -m tests.gpu.everyday_products SEED out.json              every class
python -m tests.gpu.everyday_products SEED out.json rows gelu    these classes

A class draws shapes, orders of the operands and types from its seed; nothing is fitted to a draw.  Operands
lie along k where a case does not say otherwise.  Contenders are launched in turn, in an order drawn anew
for each round, on normal random data; before each launch a buffer of 256 MB is read, which leaves nothing
of the operands in the L2; the host is ahead of the GPU.  A ratio is the median time of the fastest
contender over ours: above 1 ours is faster.  Each result is compared with a contender's.  "padded" copies
its operands to multiples of 8 within the time; "compiled" is torch.compile; "fused" is cublasLt's epilogue,
whose GELU is the one by tanh; "_scaled_mm" is cublasLt on 8-bit floats, whose sums are accumulated as ours:
added up in float32, or "fast", or multiplied by factors of blocks.
"product alone" is F.linear without what the class adds to it: not a contender, a bound.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from math import exp, log
from statistics import geometric_mean
from typing import Any

import layoutalg
from layoutalg.codegen.gpu import in_processes
from tests.gpu.timing import CALL_CYCLES, Run, Turns, shown, write

WEIGHTS = ((4096, 4096), (14336, 4096), (4096, 14336), (8192, 28672))
"""n and k of the layers of language models."""

LAYERS = ((4096, 4096), (14336, 4096), (4096, 14336), (3072, 768), (1024, 4096), (5120, 1280), (8192, 2048))

BYTES = ("float8_e4m3fn", "float8_e5m2")

TOLERANCE = {
    "bfloat16": 2e-2, "float16": 4e-3, "float32": 2e-5, "float64": 1e-12, "int8": 0.0,
    **dict.fromkeys(BYTES, 2e-2),
}  # fmt: skip
"""Largest difference from a contender's result, as a share of its largest number; TF32 has float16's."""


@dataclass(frozen=True, slots=True)
class Case:
    """activation(A @ B + beta C + bias); operands lie along the modes `a_along` and `b_along`."""

    m: int
    n: int
    k: int
    dtype: str = "bfloat16"
    a_along: str = "k"
    b_along: str = "k"
    batch: int = 0
    bias: bool = False
    activation: str = ""
    beta: float = 0
    tf32: bool = False
    result: str = ""
    """The type of the result, that of the operands by default, of 8-bit floats bfloat16."""
    fast_accumulation: bool = False
    blocks: bool = False
    """Factors of 1 x 128 elements of A and of 128 x 128 of B."""

    def __str__(self) -> str:
        size = " x ".join(str(n) for n in (self.batch, self.m, self.n, self.k) if n)
        along = (("A", self.a_along), ("B", self.b_along))
        return ", ".join([size, *(f"{name} along {mode}" for name, mode in along if mode != "k")])

    def empty(self) -> Any:
        """An array for a result."""
        import torch

        shape = (*((self.batch,) if self.batch else ()), self.m, self.n)
        usual = {"int8": "int32", **dict.fromkeys(BYTES, "bfloat16")}
        kind = self.result or usual.get(self.dtype, self.dtype)
        return torch.empty(shape, device="cuda", dtype=getattr(torch, kind))


def _size(rng: random.Random, least: int, most: int, multiple: int = 8) -> int:
    """A multiple in a range, its logarithm uniform."""
    return max(least, round(exp(rng.uniform(log(least), log(most))) / multiple) * multiple)


Draw = Callable[[random.Random], Case]


def _sixteen_bits(dtype: str, rng: random.Random) -> Case:
    rows = _size(rng, 16, 384) if rng.random() < 0.25 else _size(rng, 512, 12288)
    return Case(rows, _size(rng, 512, 12288), _size(rng, 512, 12288), dtype, b_along=rng.choice("kn"))


def _bytes(fast: bool, rng: random.Random) -> Case:
    rows = _size(rng, 16, 384, 16) if rng.random() < 0.25 else _size(rng, 512, 12288, 16)
    n, k = (_size(rng, 512, 12288, 16) for _ in "nk")
    return Case(rows, n, k, BYTES[0], b_along="k", fast_accumulation=fast)


def _blocks(rng: random.Random) -> Case:
    m = _size(rng, 512, 12288, 16)
    # where k / 128 is not a multiple of 4, cublasLt multiplies by the factors of other blocks
    n, k = _size(rng, 512, 12288, 128), _size(rng, 512, 12288, 512)
    return Case(m, n, k, BYTES[0], blocks=True)


def _few_rows(rows: tuple[int, ...], rng: random.Random) -> Case:
    n, k = rng.choice(WEIGHTS)
    return Case(rng.choice(rows), n, k)


def _layer(activation: str, beta: float, rng: random.Random) -> Case:
    n, k = rng.choice(LAYERS)
    return Case(_size(rng, 256, 16384, 64), n, k, bias=True, activation=activation, beta=beta)


def _typed(dtype: str, a_along: str, b_along: str, rng: random.Random, most: int = 6000, **more: Any) -> Case:
    m, n, k = (_size(rng, 512, most) for _ in "mnk")
    return Case(m, n, k, dtype, a_along, b_along, **more)


def _ordered(dtype: str, orders: Sequence[str], rng: random.Random, **how: Any) -> Case:
    order = rng.choice(orders)
    return _typed(dtype, order[0], order[1], rng, **how)


def _odd(rng: random.Random) -> Case:
    m, n, k = (_size(rng, 512, 8192, 1) | 1 for _ in "mnk")
    return Case(m, n, k, b_along=rng.choice("kn"))


def _batched(rng: random.Random) -> Case:
    m, n, k = (_size(rng, 64, 1024, 16) for _ in "mnk")
    return Case(m, n, k, batch=rng.choice((4, 16, 64)), b_along=rng.choice("kn"))


@dataclass(frozen=True, slots=True)
class Class:
    """So many cases of a draw, and what they are compared with."""

    text: str
    count: int
    draw: Draw
    contenders: tuple[str, ...]
    alone: bool = False

    def cases(self, name: str, seed: int) -> Iterator[Case]:
        """The cases of a seed, each once; every class has draws of its own."""
        rng = random.Random(f"{seed} {name}")
        drawn = dict.fromkeys(self.draw(rng) for _ in range(100 * self.count))
        return islice(drawn, self.count)


BLAS = ("cublas", "cublaslt")
NAMED = {
    "cublas": "cuBLAS", "cublaslt": "cublasLt", "padded": "cuBLAS on padded copies",
    "compiled": "torch.compile", "eager": "PyTorch", "fused": "cublasLt's epilogue",
    "_int_mm": "torch._int_mm", "_scaled_mm": "torch._scaled_mm",
}  # fmt: skip
"""Contenders, as a table names them."""

LAYER = ("eager", "compiled")
CLASSES = {
    "bf16": Class(
        "bf16, any multiples of 8, a quarter with few rows", 28, partial(_sixteen_bits, "bfloat16"), BLAS
    ),
    "f16": Class(
        "f16, any multiples of 8, a quarter with few rows", 8, partial(_sixteen_bits, "float16"), BLAS
    ),
    "rows": Class("1 to 8 rows times weights of language models", 16, partial(_few_rows, (1, 2, 4, 8)), BLAS),
    "more-rows": Class(
        "16 to 64 rows times weights of language models", 12, partial(_few_rows, (16, 24, 32, 48, 64)), BLAS
    ),
    "bias": Class("linear layer with bias", 6, partial(_layer, "", 0), LAYER, alone=True),
    "gelu": Class(
        "linear layer, bias and GELU", 8, partial(_layer, "gelu", 0), (*LAYER, "fused"), alone=True
    ),
    "silu": Class("linear layer, bias and SiLU", 6, partial(_layer, "silu", 0), LAYER, alone=True),
    "beta": Class("beta C and bias", 6, partial(_layer, "", 0.5), LAYER, alone=True),
    "f32-rows": Class("f32, A along k, B along n", 8, partial(_typed, "float32", "k", "n"), BLAS),
    "f32-linear": Class("f32, A along k, B along k", 8, partial(_typed, "float32", "k", "k"), BLAS),
    "f32-m-rows": Class("f32, A along m, B along n", 8, partial(_typed, "float32", "m", "n"), BLAS),
    "f32-m-linear": Class("f32, A along m, B along k", 8, partial(_typed, "float32", "m", "k"), BLAS),
    "tf32": Class("TF32, B along k", 6, partial(_typed, "float32", "k", "k", tf32=True), BLAS),
    "tf32-turned": Class(
        "TF32, A along m or B along n", 9, partial(_ordered, "float32", ("kn", "mk", "mn"), tf32=True), BLAS
    ),
    "f64": Class(
        "f64, any order", 12, partial(_ordered, "float64", ("kn", "kk", "mn", "mk"), most=4096), BLAS
    ),
    "odd": Class("bf16, odd sizes", 9, _odd, (*BLAS, "padded", "compiled")),
    "int8": Class("int8, B along k", 6, partial(_typed, "int8", "k", "k"), ("_int_mm",)),
    "float8": Class("e4m3, a quarter with few rows", 40, partial(_bytes, False), ("_scaled_mm",)),
    "float8-fast": Class(
        "e4m3, fast accumulation, a quarter with few rows", 40, partial(_bytes, True), ("_scaled_mm",)
    ),
    "float8-blocks": Class("e4m3, factors of 1 x 128 and 128 x 128 elements", 20, _blocks, ("_scaled_mm",)),
    "batches": Class("bf16, batches", 10, _batched, BLAS),
}


def operands(case: Case) -> dict[str, Any]:
    """a, b, and what the case adds, drawn from the case."""
    import torch

    torch.manual_seed(case.m + 3 * case.n + 5 * case.k)
    dtype, batch = getattr(torch, case.dtype), (case.batch,) if case.batch else ()

    def drawn(rows: int, columns: int, transposed: bool) -> Any:
        shape = (*batch, columns, rows) if transposed else (*batch, rows, columns)
        if case.dtype == "int8":
            values = torch.randint(-127, 128, shape, device="cuda", dtype=dtype)
        elif case.dtype in BYTES:
            values = torch.randn(*shape, device="cuda", dtype=torch.bfloat16).to(dtype)
        else:
            values = torch.randn(*shape, device="cuda", dtype=dtype)
        return values.mT if transposed else values

    made = {"a": drawn(case.m, case.k, case.a_along == "m"), "b": drawn(case.k, case.n, case.b_along == "k")}
    if case.bias:
        made["bias"] = drawn(1, case.n, False)[0]
    if case.beta:
        made["c"] = drawn(case.m, case.n, False)
    if case.blocks:  # as cublasLt has them
        steps = case.k // 128
        made["scale_a"] = torch.rand(steps, case.m, device="cuda").T + 0.5
        made["scale_b"] = torch.rand(case.n // 128, steps, device="cuda").T + 0.5
    return made


def _options(case: Case, *names: str) -> dict[str, Any]:
    """The options of `ops.matmul` that a case has."""
    every = ("activation", "tf32", "fast_accumulation", *names)
    return {name: getattr(case, name) for name in every if getattr(case, name)}


def _added(made: dict[str, Any]) -> dict[str, Any]:
    """The arrays that the product's epilogue reads."""
    return {name: array for name, array in made.items() if name not in ("a", "b")}


def ours(case: Case, made: dict[str, Any]) -> Run:
    """A call into an array that is there already, as a caller in a loop has it."""
    out = case.empty()
    return lambda: layoutalg.ops.matmul(made["a"], made["b"], out, **_added(made), **_options(case, "beta"))


def _padded(case: Case, made: dict[str, Any]) -> Run:
    """Operands copied to multiples of 8, and the part of the product that was asked for."""
    import torch
    from torch.nn.functional import pad

    def run() -> Any:
        m, n, k = (-size % 8 for size in (case.m, case.n, case.k))
        b = pad(made["b"].mT, (0, k, 0, n)).mT if case.b_along == "k" else pad(made["b"], (0, n, 0, k))
        return torch.matmul(pad(made["a"], (0, k, 0, m)), b)[: case.m, : case.n]

    return run


def _eager(case: Case, made: dict[str, Any]) -> Callable[..., Any]:
    """The case in PyTorch's words, a function of its arrays."""
    import torch
    from torch.nn import functional

    act = {"": lambda x: x, "gelu": functional.gelu, "silu": functional.silu}[case.activation]
    if case.beta:
        return lambda a, b, bias, c: act(torch.addmm(c, a, b, beta=case.beta) + bias)
    if case.bias:
        return lambda a, b, bias: act(functional.linear(a, b.mT, bias))
    return lambda a, b: torch.matmul(a, b)


def _contender(name: str, case: Case, made: dict[str, Any]) -> Run:
    """A launch by what a user of PyTorch has."""
    import torch

    function = _eager(case, made)
    if name in BLAS:
        out = case.empty()

        def blas() -> Any:
            torch.backends.cuda.preferred_blas_library(name)
            if case.result:
                return torch.mm(made["a"], made["b"], out.dtype, out=out)
            return torch.matmul(made["a"], made["b"], out=out)

        return blas
    if name == "_scaled_mm":
        one = torch.ones(1, device="cuda")
        factors = [made.get(x, one) for x in ("scale_a", "scale_b")]
        return lambda: torch._scaled_mm(
            made["a"], made["b"], *factors, out_dtype=torch.bfloat16, use_fast_accum=case.fast_accumulation
        )
    if name == "_int_mm":
        return lambda: torch._int_mm(made["a"], made["b"])
    if name == "padded":
        return _padded(case, made)
    if name == "compiled":
        torch._dynamo.reset()
        function = torch.compile(function)  # pads shapes where that was faster when timed
    if name == "fused":
        return lambda: torch._addmm_activation(made["bias"], made["a"], made["b"], use_gelu=True)
    return lambda: function(*made.values())


def compiled_here(case: Case) -> str:
    """Compile what a case launches into the cache; how it is computed, or why it is refused."""
    import torch

    made = operands(case)
    ours(case, made)()
    torch.cuda.synchronize()
    out = {"out": case.empty()} if case.result else {}
    return str(layoutalg.ops.plan_matmul(made["a"], made["b"], **out, **_added(made), **_options(case)))


def runs_of(case: Case, contenders: Sequence[str], alone: bool = False) -> dict[str, Run]:
    """Ours and the contenders of a case, launched twice; SystemExit where ours differs from the first."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = case.tf32
    torch.backends.cuda.preferred_blas_library("default")
    made = operands(case)
    runs: dict[str, Run] = {"ours": ours(case, made)}
    runs |= {name: _contender(name, case, made) for name in contenders}
    if alone:
        runs["product alone"] = lambda: torch.nn.functional.linear(made["a"], made["b"].mT)
    results: dict[str, Any] = {name: run() for name, run in runs.items()}
    torch.cuda.synchronize()
    right, got = results[contenders[0]].double(), results["ours"].double()
    worst = float((got - right).abs().max() / right.abs().max())
    if not worst <= TOLERANCE["float16" if case.tf32 else case.dtype]:
        raise SystemExit(f"{case}: differs by {worst:.3g} of the largest number")
    del results, right, got
    for run in runs.values():
        run()
    return runs


def summary(group: Class, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A line per thing that the class is compared with: the mean, the least, and the case that has it."""
    others = {", ".join(NAMED[name] for name in group.contenders): group.contenders}
    others |= {"F.linear without what is added": ("product alone",)} if group.alone else {}
    for text, names in others.items():
        ratios = [min(row["us"][name] for name in names) / row["us"]["ours"] for row in rows]
        least = min(range(len(rows)), key=ratios.__getitem__)
        yield {
            "class": group.text, "drawn": len(rows), "compared_with": text, "mean": geometric_mean(ratios),
            "least": ratios[least], "least_case": rows[least]["case"],
        }  # fmt: skip


def main(args: list[str]) -> None:
    """See the module's text."""
    if len(args) < 2 or not args[0].isdecimal() or set(args[2:]) - set(CLASSES):
        raise SystemExit(f"{__doc__}\nClasses: {', '.join(CLASSES)}")
    seed, names, begin = int(args[0]), args[2:] or list(CLASSES), time.monotonic()
    work = [(name, case) for name in names for case in CLASSES[name].cases(name, seed)]
    ways = in_processes(compiled_here, [case for _, case in work])
    print(f"{len(work)} products compiled in {time.monotonic() - begin:.0f} s", flush=True)
    turns, table, rows = Turns(9, seed, CALL_CYCLES), list[dict[str, Any]](), list[dict[str, Any]]()
    for name in names:
        own = [(case, way) for (of, case), way in zip(work, ways, strict=True) if of == name]
        for case, way in own:
            us = turns.medians(runs_of(case, CLASSES[name].contenders, CLASSES[name].alone))
            rows.append({"name": name, "case": str(case), **asdict(case), "way": way, "us": us})
            shown({"name": name, "case": case, **us, "way": way})
        for line in summary(CLASSES[name], rows[-len(own) :]):
            table.append({"name": name, **line})
            text = "| {class} | {drawn} | {compared_with} | {mean:.3f} | {least:.2f} ({least_case}) |"
            print(text.format(**line), flush=True)
        write(args[1], rows, seed=seed, table=table)


if __name__ == "__main__":
    main(sys.argv[1:])
