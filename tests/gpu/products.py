"""Random products of CuPy and PyTorch arrays, compared with their definition, guard bytes and gaps too.

python -m tests.gpu.products --seed 0 --cases 300                   of both libraries in turn
python -m tests.gpu.products --seed 0 --cases 60 --most 700         larger ones
python -m tests.gpu.products --seed 0 --memcheck 60                 under compute-sanitizer's memcheck

All kernels are planned and compiled first, by processes that see no GPU, and kept in a folder; then one
process runs every case.  Exit status 1 if any case was wrong.  Case n is drawn from the integer SEED + n by
tests/draws/products.py.  PyTorch has no strides below 0, CuPy no bfloat16: what one lacks goes to the other.
"""

from __future__ import annotations

import argparse
import sys

from layoutalg.errors import LayoutAlgError
from tests.draws.products import Case, draw, run
from tests.gpu import views
from tests.gpu.timing import plainly
from tests.judges.view_judge import Arrays, Host, Verdict
from tests.stand_ins.hostgpu import planning_gpu

MOST_ELEMS = 1 << 22


def case_of(n: int, most: int) -> tuple[str, Case]:
    """The case of an integer, and its library."""
    case = draw(n, most=most, most_elems=MOST_ELEMS)
    backwards = any(d < 0 for p in case.arrays.values() for d in p.strides)
    if "bfloat16" in (case.kind, case.result):
        if backwards:
            return case_of(n + 1_000_000, most)
        return "torch", case
    return "cupy" if backwards or n % 2 else "torch", case


def compiled(work: tuple[int, str, argparse.Namespace]) -> None:
    """Plan and compile what the case of an integer launches; what it raises is seen when it runs."""
    number, arch, asked = work
    with planning_gpu(arch) as gpu:
        try:
            run(case_of(number, asked.most)[1], Host(gpu))
        except (LayoutAlgError, AttributeError, TypeError):
            return


def judged(case: Case, library: Arrays) -> Verdict:
    """What became of a case; any error of a call is what is looked for."""
    try:
        why = run(case, library)
    except Exception as error:  # noqa: BLE001
        why = f"{type(error).__name__}: {error}"
    return Verdict("wrong" if why else "right", why)


def run_all(asked: argparse.Namespace) -> int:
    """Run the cases; print those that are wrong, and return how many there are."""
    if asked.compiled:
        plainly()
    libraries: dict[str, Arrays] = {"cupy": views.Cupy(), "torch": views.Torch()}
    drawn = (case_of(n, asked.most) for n in range(asked.seed, asked.seed + asked.cases))
    return views.judged(asked.cases, ((name, case, judged(case, libraries[name])) for name, case in drawn))


def main(args: list[str]) -> int:
    """See the module's text."""
    asked = views.options(__doc__, 300, 150, "m, n and k at most").parse_args(args)
    return views.compiled_and_run(asked, compiled, run_all, "tests.gpu.products")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
