"""`layoutalg doctor demo`: the whole way from a layout to a verified kernel, in one guided run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from layoutalg import __version__
from layoutalg.analysis import sentence
from layoutalg.answers import Amount, Answer, Positive, taken
from layoutalg.cli.commands.layouts.draw import wants_color
from layoutalg.cli.commands.layouts.synthesize import certificate_sentence
from layoutalg.cli.options import JsonOption
from layoutalg.cli.output import PAGE, progress, say, say_answer
from layoutalg.cli.reports import (
    AccessAnswer,
    Compiled,
    Verified,
    access_answer,
    contract_lines,
    cubin_answer,
    cubin_sentence,
    kernel_sentence,
    report_tables,
    verify_tables,
)
from layoutalg.errors import UnsupportedError
from layoutalg.layout import ComposedLayout, Layout, Swizzle

if TYPE_CHECKING:
    from layoutalg.kernels.matrix import MatrixProblem
    from layoutalg.synthesis import Synthesis

FAILED = 1

TARGETS = ("sm_80", "sm_90a")
"""The architectures that the kernel is compiled for."""

LARGEST = (16384, 16384)
"""The largest sizes that the kernel is generated for."""

SIMULATED = (200, 136)
"""The matrix that is transposed on the CPU: neither side is a multiple of the tile."""

ON_GPU = (4100, 3004)
"""The matrix that is transposed on a GPU."""

Tell = Callable[..., None]


@dataclass(frozen=True)
class Analyzed:
    """1: what ldmatrix costs on a plain tile."""

    passed: bool
    layout: str
    report: AccessAnswer


@dataclass(frozen=True)
class Synthesized:
    """2: the swizzle that serves the stores of the tile and its loads."""

    passed: bool
    layout: str | None
    reports: tuple[AccessAnswer, ...]
    certificate_holds: bool


@dataclass(frozen=True)
class Written:
    """3: a kernel written from such a layout."""

    passed: bool
    kernel: str
    layout: str
    lines: Positive


@dataclass(frozen=True)
class Assembled:
    """5: machine code without a GPU."""

    passed: bool
    reason: str
    """Why nothing was compiled, empty when it was."""
    compiled: tuple[Compiled, ...]


@dataclass(frozen=True)
class Executed:
    """6: the same on hardware, where there is any."""

    passed: bool
    ran: bool
    reason: str
    report: Verified | None


@dataclass(frozen=True)
class DemoSteps:
    """A record per step."""

    analyze: Analyzed
    synthesize: Synthesized
    generate: Written
    simulate: Verified
    compile: Assembled
    gpu: Executed


@dataclass(frozen=True)
class Demo(Answer, command="doctor demo"):
    """The whole way from a layout to a verified kernel."""

    passed: bool
    seconds: Amount
    steps: DemoSteps


def demo_command(as_json: JsonOption = False) -> int:
    """Analyse a layout, find a better one, generate a kernel from it, simulate it, compile it, run it.

    Takes well under a minute and needs neither a GPU nor the CUDA toolkit.
    """
    tell: Tell = _silent if as_json else say
    started = time.monotonic()
    tell(f"layoutalg {__version__}: from a layout to a verified kernel", "")
    from layoutalg.testing import all_pass

    steps = DemoSteps(
        _analyze(tell), _synthesize(tell), _generate(tell), _simulate(tell, quiet=as_json), _compile(tell),
        _gpu(tell, quiet=as_json),
    )  # fmt: skip
    each = {step.name: getattr(steps, step.name) for step in fields(steps)}
    seconds = time.monotonic() - started
    passed = all_pass("steps", (step.passed for step in each.values()))
    if as_json:
        say_answer(Demo(passed, round(seconds, 3), steps))
    else:
        left_out = [name for name, step in each.items() if getattr(step, "reason", "")]
        done = "Everything that was run passed" if left_out else "Everything passed"
        tell(
            f"{done if passed else 'SOMETHING FAILED'}, in {seconds:.1f} s"
            f"{'; not run: ' + ', '.join(left_out) if left_out else ''}."
        )
    return 0 if passed else FAILED


def _analyze(tell: Tell) -> Analyzed:
    """1: what ldmatrix costs on a plain tile."""
    from layoutalg.analysis import Access, analyze

    tile = Layout((64, 64), (64, 1))
    _title(tell, 1, "Analyse", f"a 64 x 64 tile of f16, row-major, {tile}, read by ldmatrix")
    report = analyze(tile, Access.default("ldmatrix.x4", tile, "f16"))
    tell(*report_tables([("ldmatrix.x4", report)]), sentence("ldmatrix.x4", report))
    tell("Counted in closed form, as a rank over F2: no lane was enumerated, and size does not matter.", "")
    return Analyzed(True, str(tile), access_answer(report))


def _synthesize(tell: Tell) -> Synthesized:
    """2: the swizzle that serves the stores of the tile and its loads."""
    from layoutalg.synthesis import synthesize

    _title(tell, 2, "Synthesise", "a layout that serves 16-byte stores and ldmatrix without conflicts")
    specs = ["st.shared.b128", "ldmatrix.x4"]
    synthesis = synthesize((64, 64), specs, element="f16")
    proof, checked = certificate_sentence(synthesis)
    tell(f"Found: {synthesis.layout}")
    tell(*report_tables(list(zip(specs, synthesis.reports, strict=True))), proof, "")
    _draw(tell, synthesis)
    free = synthesis.layout is not None and all(r.conflict_free for r in synthesis.reports)
    layout = None if synthesis.layout is None else str(synthesis.layout)
    return Synthesized(checked and free, layout, tuple(map(access_answer, synthesis.reports)), checked)


def _generate(tell: Tell) -> Written:
    """3: a kernel written from such a layout."""
    from layoutalg.codegen.gpu import to_cuda

    _title(tell, 3, "Generate", "a CUDA kernel: transpose m x n matrices of f32, up to 16384 x 16384")
    family, problem = _problem(*LARGEST)
    kernel = family.build(problem, _config())
    source = to_cuda(kernel)
    lines = len(source.splitlines())
    tell(f"{kernel.name}: {lines} lines, {kernel_sentence(kernel)}", *contract_lines(kernel))
    tell("To read it: layoutalg generate transpose --dtype f32 -o transpose.cu", "")
    return Written(True, kernel.name, str(kernel.shared[0].layout), lines)


def _simulate(tell: Tell, *, quiet: bool) -> Verified:
    """4: that kernel on the CPU, every access traced and held against its prediction."""
    from layoutalg.kernels.checks import verify

    _title(tell, 4, "Simulate", "that kernel on the CPU, thread by thread, every access traced")
    family, problem = _problem(*SIMULATED)
    with progress("simulating", quiet=quiet):
        report = verify(family, problem, _config())
    tell(*verify_tables([report]), "")
    return taken(Verified, report)


def _compile(tell: Tell) -> Assembled:
    """5: machine code without a GPU."""
    from layoutalg.codegen.gpu import prepare

    _title(tell, 5, "Compile", f"for {' and '.join(TARGETS)}, without a GPU")
    family, problem = _problem(*LARGEST)
    cubins = []
    for target in TARGETS:
        kernel = family.build(problem, _config())
        try:
            cubins.append(prepare(kernel, target).cubin)
        except UnsupportedError as error:
            tell(f"Not compiled: {error}.", "")
            return Assembled(True, str(error), ())
    tell(*(cubin_sentence(cubin) + "." for cubin in cubins), "")
    return Assembled(True, "", tuple(map(cubin_answer, cubins)))


def _gpu(tell: Tell, *, quiet: bool) -> Executed:
    """6: the same on hardware, where there is any."""
    from layoutalg.codegen.gpu import gpu_status
    from layoutalg.kernels.checks import verify

    status = gpu_status()
    _title(tell, 6, "Run", "on a GPU, and compare")
    if not status.available:
        tell(f"Not run: {status.reason}.", "")
        return Executed(True, False, status.reason, None)
    family, problem = _problem(*ON_GPU)
    with progress("running", quiet=quiet):
        report = verify(family, problem, _config(), target="gpu")
    tell(f"On {status.name}:", *verify_tables([report]), "")
    return Executed(report.passed, True, "", taken(Verified, report))


def _problem(m: int, n: int) -> tuple[Any, MatrixProblem]:
    """The family of transposes, and an m x n matrix of f32."""
    from layoutalg.kernels.registry import find_family

    family = find_family("transpose")
    return family, family.problem(m=m, n=n, dtype="f32")


def _config() -> Any:
    """The configuration that every step uses: the best for large matrices."""
    family, problem = _problem(*LARGEST)
    return family.configs(problem, "sm_90")[0]


def _draw(tell: Tell, synthesis: Synthesis) -> None:
    """Draw where the swizzle puts the 16-byte chunks of the tile's first rows: 8 chunks span the 32 banks."""
    from layoutalg.draw import Cell, as_text, swizzle_picture

    layout = synthesis.layout
    if tell is not say or not isinstance(layout, ComposedLayout) or len(layout.swizzles) != 1:
        return
    swizzle = layout.swizzles[0]
    if swizzle.base < 3:
        return
    chunks = ComposedLayout(Swizzle(swizzle.bits, swizzle.base - 3, swizzle.shift), 0, Layout((8, 8), (8, 1)))
    picture = swizzle_picture(chunks)
    panels = tuple(
        replace(
            panel,
            title=title,
            cells=tuple(tuple(Cell(str(int(c.text) % 8), c.hue) for c in row) for row in panel.cells),
        )
        for title, panel in zip(("as given", "swizzled"), picture.panels, strict=True)
    )
    tell(
        "The banks of its first rows, a digit for the 4 banks of a 16-byte chunk; ldmatrix reads a column:",
        "",
    )
    unicode = "utf" in sys.stdout.encoding.lower()
    text = as_text(replace(picture, panels=panels), width=PAGE, color=wants_color(None), unicode=unicode)
    print("\n".join(text.splitlines()[2:-1]))


def _title(tell: Tell, number: int, verb: str, what: str) -> None:
    tell(f"{number}  {verb}  {what}")


def _silent(*parts: object) -> None:
    """Print nothing: --json prints its object alone."""
