"""Attention of drawn problems on a GPU, against float64: masks, odd lengths, functions of scores, NaN.

python -m tests.gpu.checked_attention SEED out.json [COUNT]

A problem has any lengths up to 2000, groups of heads, a mask, bf16 or f16, dense arrays or ones that are
turned, start late or have other pitches, numbers of N(0, 1) or larger, NaN in q, k or v, and a function of
scores that may be -inf.  The definition is computed here by PyTorch in float64, apart from that of the
kernels; a result has to be within the bound of `kernels.checks.attention`, NaN where the definition is, and
have the same bits twice.  Processes on all cores have the problems of some kernels each.  Under a sanitizer
PYTORCH_NO_CUDA_MEMORY_CACHING=1 gives arrays allocations of their own.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from layoutalg import ops
from layoutalg.codegen.gpu import in_processes
from layoutalg.codegen.terms import exp2, tanh, where
from layoutalg.kernels import FAMILIES, elements
from layoutalg.kernels.attention import AttentionProblem, attention_problem
from tests.gpu.timing import free, torch_type, write

COUNT = 500
LENGTHS = (1, 2, 17, 63, 64, 65, 127, 128, 129, 192, 193, 1024)
"""Lengths of which half of the problems have one; the others have any to 2000."""


def alibi(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    """A penalty for distance, of each head another."""
    return s - (i - j).to("f32") * exp2(h.to("f32") * -1.0 - 1.0)


def capped(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    """Scores between -5 and 5."""
    return tanh(s / 5.0) * 5.0


def banned(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    """No score for the keys of every third block of 16 and for those before 9."""
    return where((j < 9) | ((j >> 4) % 3).eq(2), -math.inf, s)


SCORES: dict[Callable[..., Any], Callable[..., Any]] = {
    alibi: lambda x, s, h, i, j: s - (i - j) * x.exp2(-1.0 - h),
    capped: lambda x, s, h, i, j: x.tanh(s / 5) * 5,
    banned: lambda x, s, h, i, j: s.masked_fill((j < 9) | ((j >> 4) % 3 == 2), -math.inf),
}
"""Functions of scores, and the same for tensors of float64."""


@dataclass(frozen=True)
class Drawn:
    """A problem, the factor of its queries, the array that has a NaN, how arrays lie."""

    p: AttentionProblem
    size: float
    nan: str
    lies: str


def drawn(seed: int, number: int) -> Drawn:
    """A problem of a seed.

    >>> print(drawn(7, 0).p, drawn(7, 0).lies)
    bf16 3x6/2x64x2x128 window 269 0 top-left pitched
    """
    rng = random.Random(f"checked attention {seed} {number}")
    group = rng.choice((1, 1, 2, 4))
    left, right = (rng.choice((None, None, rng.randint(0, 300))) for _ in "lr")
    score = rng.choice((None, None, None, *SCORES))
    batch, heads = rng.randint(1, 3), group * rng.randint(1, 3)
    m, n = (rng.choice(LENGTHS) if rng.random() < 0.5 else rng.randint(1, 2000) for _ in "mn")
    p = attention_problem(
        batch, heads, m, n, rng.choice((64, 128, 256)),
        rng.choice(("bf16", "f16")), group=group, causal=rng.random() < 0.4, window=(left, right),
        align=rng.choice(("bottom-right", "top-left")), scale=rng.choice((None, None, None, -0.05)),
        score=score,
    )  # fmt: skip
    nan = rng.choice("qkv") if rng.random() < 0.2 else ""
    lies = rng.choice(("dense", "dense", "turned", "late", "pitched"))
    return Drawn(p, rng.choice((1.0, 1.0, 8.0, 200.0)), nan, lies)


def kernel_of(p: AttentionProblem) -> tuple[Any, ...]:
    """The properties that problems of one kernel share."""
    sides = p.left is None, p.right is None
    return p.d, p.element, sides, p.score, p.plain, FAMILIES["attention"].choose(p)


def arrays(case: Drawn, seed: int) -> list[Any]:
    """q, k and v on the GPU."""
    import torch

    p, made = case.p, []
    generator = torch.Generator("cuda").manual_seed(seed)
    for name in "qkv":
        x = torch.randn(p.shape(name), generator=generator, device="cuda")
        x = (x * case.size if name == "q" else x).to(torch_type(p.element.name))
        if name == case.nan:
            x[:, :, x.shape[2] // 2, 5] = math.nan
        if case.lies == "turned":
            x = x.transpose(1, 2).contiguous().transpose(1, 2)
        if case.lies in ("late", "pitched"):
            room = x.new_empty((*x.shape[:3], p.d + 8))
            x = room[..., 3 : p.d + 3].copy_(x) if case.lies == "late" else room[..., : p.d].copy_(x)
        made.append(x)
    return made


def wrong(case: Drawn, number: int) -> tuple[str, float]:
    """The difference of results from the definition, or of equal calls, and the most of the bound."""
    import torch

    p, (q, k, v) = case.p, arrays(case, number)
    call = partial(
        ops.attention, q, k, v, window=(p.left, p.right), align=p.align, scale=p.scale, score_mod=p.score,
        return_lse=True,
    )  # fmt: skip
    (o, lse), again = call(), call()
    bits = [[x.view(torch.uint8) for x in pair] for pair in ((o, lse), again)]
    same = all(map(torch.equal, *bits))
    q, k, v = q.double(), *(x.double().repeat_interleave(p.group, 1) for x in (k, v))
    i, j = (torch.arange(x, device="cuda") for x in (p.m, p.n))
    place = i[:, None] + (p.n - p.m if p.align == "bottom-right" else 0)
    seen = (j >= 0) & (place == place)
    if p.right is not None:
        seen &= j <= place + p.right
    if p.left is not None:
        seen &= j >= place - p.left
    s = q @ k.mT * p.scale
    if p.score is not None:
        heads = torch.arange(p.heads, device="cuda")[:, None, None]
        s = SCORES[p.score](torch, s, heads, i[:, None], j)
    s = s.masked_fill(~seen, -math.inf)
    wanted_lse = torch.logsumexp(s, -1)
    w = torch.exp(s - wanted_lse.masked_fill(wanted_lse == -math.inf, 0)[..., None])
    finite = v.nan_to_num()
    wanted, size = w @ finite, w @ finite.abs()
    met = (seen.double() @ v.isnan().double()) > 0  # a NaN that the row sees, and one that it does not
    hidden = ((~seen).double() @ v.isnan().double()) > 0
    wanted = wanted.masked_fill(met, math.nan)
    most = (q.nan_to_num().abs() * k.nan_to_num().abs().amax(2, keepdim=True)).sum(3, keepdim=True)
    t = abs(p.scale) * most * (p.d + 4) * 2.0**-23 + 2.0**-21
    if p.score is not None:  # what is added is rounded too
        t = t + s.nan_to_num(neginf=0.0).abs().amax(3, keepdim=True) * 2.0**-21
    t = torch.expm1(t)
    half, least = (x[p.element.name] for x in (elements.HALF_PLACE, elements.SMALLEST_SUM))
    allowed = (half + 2 * t + p.n * 2.0**-22) * size * (1 + half) + half * wanted.abs() + least
    if p.element.name == "f16":
        allowed += 2.0**-25 * p.n * finite.abs().max()
    of_sums = t[..., 0] + p.n * 2.0**-22 + wanted_lse.abs() * 2.0**-22
    share = 0.0
    for name, got, exact, bound in (("o", o, wanted, allowed), ("lse", lse, wanted_lse, of_sums)):
        apart = (got.double() - exact).abs()
        equal = (got == exact) | (got.isnan() & exact.isnan())
        right = equal | (apart <= bound)
        right |= hidden if name == "o" else False
        if not right.all():
            return f"{name}: {int((~right).sum())} of {right.numel()}", math.inf
        known = (apart / bound)[~(equal | (hidden if name == "o" else False))]
        share = max(share, float(known.max()) if known.numel() else 0.0)
    return "" if same else "other bits the second time", share


def checked(seed: int, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Rows of some problems."""
    rows = list[dict[str, Any]]()
    for n in numbers:
        case = drawn(seed, n)
        why, share = wrong(case, n)
        free()
        row = {"number": n, "problem": str(case.p), "size": case.size, "nan": case.nan, "lies": case.lies}
        rows.append({**row, "why": why, "share": share})
    return rows


def main(words: Sequence[str]) -> int:
    """See the module's text."""
    seed, path, alike = int(words[0]), words[1], dict[tuple[Any, ...], list[int]]()
    for n in range(int(words[2]) if words[2:] else COUNT):
        alike.setdefault(kernel_of(drawn(seed, n).p), []).append(n)
    rows = list(chain.from_iterable(in_processes(partial(checked, seed), alike.values())))
    write(path, rows, seed=seed)
    bad = [row for row in rows if row["why"]]
    print(*bad[:9], sep="\n")
    most = max(row["share"] for row in rows if not row["why"])
    print(f"{len(rows)} problems, {len(alike)} kernels, {len(bad)} wrong, at most {most:.3f} of the bound")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
