"""Drawn products of everyday use on a GPU, value by value against float64.

python -m tests.gpu.checked_products SEED out.json [CLASS ...]

The products are the smaller half of those that tests.gpu.everyday_products draws of a class.  The definition
is computed here by PyTorch in float64, apart from that of the kernels.  Every value has to be within the
bound, and have the same bits twice: u is the roundoff of the type that sums have, |A| |B| the product of
absolute values, and the last term rounds to the type of the result:

    2 (k + 4) u |A| |B|,  of TF32 operands 2^-9 |A| |B| more, of 8-bit floats those of tensor cores
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from layoutalg.codegen.gpu import in_processes
from layoutalg.kernels import elements
from tests.gpu.everyday_products import BYTES, CLASSES, Case, compiled_here, operands, ours
from tests.gpu.timing import free, write

TENSOR_SUM = 2.0**-14
"""The roundoff of tensor cores in sums of 8-bit floats."""

FUNCTION_SHARE, FUNCTION_LEAST = 2.0**-12, 2.0**-34
"""The error of GELU and SiLU on their way to 16 bits, beside that of their argument, whose slope is 1.13."""

NAMES = {"bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64"}


def smaller(name: str, seed: int) -> list[Case]:
    """The half of the cases of a class with the fewest multiplications.

    >>> [str(case) for case in smaller("odd", 3)][:1]
    ['601 x 2979 x 837']
    """
    cases = sorted(CLASSES[name].cases(name, seed), key=lambda x: x.m * x.n * x.k * max(1, x.batch))
    return cases[: -(-len(cases) // 2)]


def defined(case: Case, made: dict[str, Any]) -> tuple[Any, Any]:
    """The result in float64, and how far each value may be from it before it is rounded."""
    import torch
    from torch.nn import functional

    a, b = made["a"].double(), made["b"].double()
    if case.blocks:
        a = a * made["scale_a"].double().repeat_interleave(128, 1)
        b = b * made["scale_b"].double().repeat_interleave(128, 0).repeat_interleave(128, 1)
    value, size = a @ b, a.abs() @ b.abs()
    if case.dtype == "int8":
        return value, torch.zeros_like(size)
    u = elements.HALF_PLACE["f64" if case.dtype == "float64" else "f32"]
    share = 2 * (case.k + 4) * u * (2 if case.dtype == "float64" else 1)  # the definition is rounded too
    if case.tf32:
        share += 2.0**-9
    if case.dtype in BYTES:
        share += 2 * ((case.k if case.fast_accumulation else 128) + 4) * TENSOR_SUM
    error = share * size
    for name, factor in (("c", case.beta), ("bias", 1.0)):
        if name in made:
            value = value + factor * made[name].double()
            error = error + 2 * u * (value.abs() + abs(factor) * made[name].double().abs())
    if case.activation:
        value = {"gelu": functional.gelu, "silu": functional.silu}[case.activation](value)
        error = 1.13 * error + FUNCTION_SHARE * value.abs() + FUNCTION_LEAST
    return value, error


def wrong(case: Case) -> tuple[str, float]:
    """The difference of a result from the definition, or of equal calls, and the most of the bound."""
    import torch

    made = operands(case)
    run: Callable[[], Any] = ours(case, made)
    first = run().clone()
    if not torch.equal(first.view(torch.uint8), run().view(torch.uint8)):
        return "other bits the second time", 0.0
    value, error = defined(case, made)
    name = NAMES.get(str(first.dtype).removeprefix("torch."), "")
    half, least = (x.get(name, 0.0) for x in (elements.HALF_PLACE, elements.SMALLEST_SUM))
    allowed = error + half * (value.abs() + error) + least
    apart = (first.double() - value).abs()
    right = apart <= allowed
    if not right.all():
        return f"{int((~right).sum())} of {right.numel()} values", float((apart / allowed).nan_to_num().max())
    return "", float((apart / allowed.clamp(min=1e-300)).max())


def main(args: list[str]) -> int:
    """See the module's text."""
    if len(args) < 2 or not args[0].isdecimal() or set(args[2:]) - set(CLASSES):
        raise SystemExit(f"{__doc__}\nClasses: {', '.join(CLASSES)}")
    begin, names = time.monotonic(), args[2:] or list(CLASSES)
    work = [(name, case) for name in names for case in smaller(name, int(args[0]))]
    ways = in_processes(compiled_here, [case for _, case in work])
    print(f"{len(work)} products compiled in {time.monotonic() - begin:.0f} s", flush=True)
    rows = list[dict[str, Any]]()
    for (name, case), way in zip(work, ways, strict=True):
        why, share = wrong(case)
        rows.append({"name": name, "case": str(case), "way": way, "wrong": why, "share": share})
        if why:
            print(name, case, way, why, share, flush=True)
        free()
    for name in names:
        own = [row for row in rows if row["name"] == name]
        shares = [row["share"] for row in own]
        bad = sum(bool(row["wrong"]) for row in own)
        print(f"{name}: {len(own)} products, {bad} wrong, at most {max(shares):.3f} of the bound, "
              f"{median(shares):.3f} in the median", flush=True)  # fmt: skip
    write(args[1], rows, seed=int(args[0]))
    print(f"{time.monotonic() - begin:.0f} s")
    return int(any(row["wrong"] for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
