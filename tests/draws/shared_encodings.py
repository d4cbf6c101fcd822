"""Padded and linear encodings of shared memory, drawn, and what Triton says of them.

    python -m tests.draws.shared_encodings        writes tests/data/triton_shared.txt; it needs Triton 3.9

A case is the arguments of Gluon's constructor.  The file has Triton's own text of each, as the IR prints it,
behind which the script has read that text back to Gluon's layout, and of a linear one has asked
to_linear_layout for its bases, before it writes a line.
"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any, NamedTuple

FACTS = Path(__file__).parents[1] / "data" / "triton_shared.txt"
COUNT, MOST_BITS = 500, 12


class Encoding(NamedTuple):
    """An encoding: pairs of intervals and pads, none of a linear one, bases of offsets, and the shape."""

    pairs: tuple[tuple[int, int], ...]
    bases: tuple[tuple[int, ...], ...]
    shape: tuple[int, ...]

    @property
    def gluon(self) -> str:
        """The text of Gluon's constructor."""
        pairs, bases, shape = (str(x).replace("(", "[").replace(",)", "]").replace(")", "]") for x in self)
        if not self.pairs:
            return f"SharedLinearLayout(offset_bases={bases})"
        return (
            f"PaddedSharedLayout(interval_padding_pairs={pairs}, offset_bases={bases}, cga_layout=[], "
            f"shape={shape})"
        )


def drawn(seed: int) -> Encoding:
    """An encoding: bits of the dimensions in an order or mixed, of a linear one XORed with one another."""
    rng = random.Random(f"shared encodings {seed}")
    rank = rng.choice((1, 2, 2, 2, 3))
    bits = [rng.randint(1, MOST_BITS // rank) for _ in range(rank)]
    places = [(dim, 1 << j) for dim in rng.sample(range(rank), rank) for j in range(bits[dim])]
    if rng.random() < 0.5:
        rng.shuffle(places)
    bases = [tuple(step if i == dim else 0 for i in range(rank)) for dim, step in places]
    if seed % 3 == 0:
        for j in range(1, len(bases)):
            other = bases[rng.randrange(j)]
            if rng.random() < 0.4:
                bases[j] = tuple(a ^ b for a, b in zip(bases[j], other, strict=True))
        return Encoding((), tuple(bases), tuple(1 << n for n in bits))
    intervals = sorted(rng.sample(range(len(bases)), min(len(bases), rng.randint(1, 3))))
    pairs = tuple((1 << j, 1 << rng.randint(0, 5)) for j in intervals)
    return Encoding(pairs, tuple(bases), tuple(1 << n for n in bits))


def facts() -> list[str]:
    """Triton's text of each drawn encoding."""
    return [line for line in FACTS.read_text().splitlines() if not line.startswith("//")]


def _asked() -> list[str]:
    """The texts, from Triton, each read back by it."""
    from triton import __version__
    from triton._C.libtriton import gluon_ir, ir
    from triton.experimental.gluon.language import _layouts as gluon

    context = ir.context()
    ir.load_dialects(context)
    builder = gluon_ir.GluonOpBuilder(context)
    lines = [f"// Triton {__version__}: #ttg of shared_encodings.drawn(0), drawn(1), ...; see that module"]
    for seed in range(COUNT):
        case = drawn(seed)
        pairs, bases, shape = ([list(x) if isinstance(x, tuple) else x for x in part] for part in case)
        made: Any = (
            gluon.PaddedSharedLayout(pairs, bases, [], shape) if pairs else gluon.SharedLinearLayout(bases)
        )
        kind = builder.get_shared_mem_desc_ty(
            builder.get_float_ty(), [*case.shape], made._to_ir(builder), [*case.shape]
        )
        text = str(kind)
        lines.append(text[text.index("#ttg.") : text.index(", #ttg.shared_memory")])
        if not case.pairs:
            linear = builder.to_linear_layout(made._to_ir(builder), [*case.shape])
            if tuple(map(tuple, linear.offset_bases)) != case.bases:
                raise RuntimeError(f"{case}: {linear}")
    kinds = [
        f"%a{seed}: !ttg.memdesc<{'x'.join(map(str, drawn(seed).shape))}xf32, {text}, #ttg.shared_memory>"
        for seed, text in enumerate(lines[1:])
    ]
    FACTS.with_suffix(".mlir").write_text(f"module {{ tt.func @read({', '.join(kinds)}) {{ tt.return }} }}")
    read = str(ir.parse_mlir_module(str(FACTS.with_suffix(".mlir")), context))
    FACTS.with_suffix(".mlir").unlink()
    aliases = dict(re.findall(r"^(#\w+) = (#ttg\..*>)$", read, re.M))
    if set(lines[1:]) != {text for name, text in aliases.items() if text != "#ttg.shared_memory"}:
        raise RuntimeError("Triton reads another encoding than it prints")
    return lines


if __name__ == "__main__":
    FACTS.write_text("\n".join(_asked()) + "\n")
