"""`layoutalg doctor`: what is installed, what it is for, what works without it, and how to get the rest.

The idea.  One record per part.  A required library is imported, and its version held to the bound that this
package states; an optional one is looked up and not imported, which takes seconds of some.  A program is
asked for its version.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.resources
import importlib.util
import platform
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from layoutalg import __version__
from layoutalg.answers import Answer, Count
from layoutalg.cli.output import Table, count, progress, say, say_answer, size_bytes, wants_json
from layoutalg.cli.refusals import FAILED
from layoutalg.errors import LayoutAlgError, UnsupportedError, printable
from layoutalg.optional import import_trouble
from layoutalg.tools import run_tool

_SECONDS = 20.0
"""The longest time that a program may take to print its version."""

_VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True, slots=True)
class Part:
    """A library, a program or a device: its use, and how to get it.

    `look` gives its version and its place, and raises UnsupportedError with the reason where it is missing.
    """

    name: str
    use: str
    get: str
    look: Callable[[], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Found:
    """The state of a part: its version and place, or the reason why it does not count."""

    part: Part
    version: str = ""
    place: str = ""
    reason: str = ""


@dataclass(frozen=True)
class PartAnswer:
    """A part of the installation."""

    name: str
    needed: bool
    """False for what adds to the package."""
    found: bool
    version: str | None
    place: str | None
    reason: str | None
    """Why it was not found."""
    use: str
    get: str
    """The work that does without it, and the way to get it."""


@dataclass(frozen=True)
class CacheState:
    """The folder of compiled kernels, and whether it is used."""

    folder: str | None
    kernels: Count
    bytes: Count
    limit_bytes: Count
    state: str


@dataclass(frozen=True)
class Installation(Answer, command="doctor"):
    """The installation; exit code 1 where the installation is broken."""

    version: str
    python: str
    platform: str
    parts: tuple[PartAnswer, ...]
    cache: CacheState
    broken: tuple[str, ...]


def doctor_command() -> int:
    """Show versions, what is installed, what works without it, how to get the rest, and the cache.

    Exits 1 only where the installation is broken: a library that is always needed is missing, too old or
    does not import, or an analysis does not give its known answer.
    """
    with progress("looking", len(REQUIRED) + len(OPTIONAL)) as step:
        required = [_found(part, step) for part in REQUIRED]
        optional = [_found(part, step) for part in OPTIONAL]
    broken = [f"{state.part.name}: {state.reason}" for state in required if state.reason]
    broken += [] if broken else list(_wrong_answers())
    cache = _cache()
    if wants_json():
        parts = (*(_part(f, needed=True) for f in required), *(_part(f, needed=False) for f in optional))
        where = platform.python_version(), platform.platform()
        say_answer(Installation(__version__, *where, parts, cache, tuple(broken)))
    else:
        absent = [state for state in optional if state.reason]
        say(
            f"layoutalg {__version__}, Python {platform.python_version()}, {platform.platform()}.",
            "",
            Table("Always needed", ("part", "version", "place"), map(_row, required), left=3),
            Table("For more", ("part", "version", "place"), map(_row, optional), left=3),
            *(f"{f.part.name}, for {f.part.use}: {f.reason}. {f.part.get}" for f in absent),
            *([""] if absent else []),
            _cache_words(cache),
            *(f"Broken: {why}." for why in broken),
            *([] if broken else ["The installation works: an analysis gives its known answer."]),
        )
    return FAILED if broken else 0


def _found(part: Part, step: Callable[[], None]) -> Found:
    try:
        version, path = part.look()
    except UnsupportedError as error:
        return Found(part, reason=printable(error.message))
    finally:
        step()
    return Found(part, printable(version), printable(path))


def _row(state: Found) -> tuple[str, str, str]:
    return state.part.name, state.version or ("no" if state.reason else "yes"), state.place


def _part(state: Found, *, needed: bool) -> PartAnswer:
    part, texts = state.part, (state.version or None, state.place or None, state.reason or None)
    return PartAnswer(part.name, needed, not state.reason, *texts, part.use, part.get)


# --- where things are looked for ---------------------------------------------------------------------------


def _version_of(wheel: str) -> str:
    try:
        return importlib.metadata.version(wheel)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _bound(wheel: str) -> str:
    """The least version that this package requires; "" where its metadata are not installed."""
    try:
        needed = importlib.metadata.requires("layoutalg") or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    matches = (re.match(rf"{re.escape(wheel)}\s*>=\s*([\d.]+)", line) for line in needed)
    return next((match[1] for match in matches if match is not None), "")


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


def _required(wheel: str) -> tuple[str, str]:
    """Import a library and check that its version is the required one."""
    if trouble := import_trouble(wheel, f"pip install {wheel}"):
        raise UnsupportedError(trouble)
    version, bound = _version_of(wheel), _bound(wheel)
    if version and bound and _numbers(version) < _numbers(bound):
        raise UnsupportedError(f"version {version} is too old; {bound} is needed")
    return version, _place(wheel)


def _library(module: str, wheel: str = "", beside: str = "") -> tuple[str, str]:
    """A library that is installed; it is not imported.  `beside` is a wheel that breaks it."""
    if importlib.util.find_spec(module) is None:
        raise UnsupportedError(f"{wheel or module} is not installed")
    if beside and _version_of(beside):
        raise UnsupportedError(f"the wheel {beside} is installed beside it and replaces its modules")
    return _version_of(wheel or module), _place(module)


def _place(module: str) -> str:
    spec = importlib.util.find_spec(module)
    origin = spec.origin if spec is not None else None
    return str(Path(origin).parent) if origin else ""


def _program(name: str, *words: str) -> tuple[str, str]:
    """Find a program on PATH by the version that it prints."""
    path = shutil.which(name)
    if path is None:
        raise UnsupportedError(f"{name} is not on PATH")
    return _said_version((path, *words)), path


def _said_version(command: Sequence[str]) -> str:
    try:
        ran = run_tool(command, timeout_s=_SECONDS)
    except (OSError, TimeoutError) as error:
        raise UnsupportedError(f"{command[0]} does not run: {error}") from None
    match = re.search(r"release (\d+\.\d+)", ran.said) or _VERSION.search(ran.said)
    return "" if match is None else match[match.re.groups]


def _nvrtc() -> tuple[str, str]:
    from layoutalg.codegen.gpu import version

    try:
        return ".".join(map(str, version())), _place("nvidia")
    except OSError as error:  # the library is there and does not load
        raise UnsupportedError(f"NVRTC does not load: {error}") from None


def _disassembler() -> tuple[str, str]:
    from layoutalg.codegen.gpu import find_disassembler

    path, _ = find_disassembler()
    return _said_version((path, "--version")), path


def _compiler() -> tuple[str, str]:
    from layoutalg.testing import find_compiler

    command = find_compiler()
    return _said_version((*command, "--version")), command[0]


def _gpu() -> tuple[str, str]:
    from layoutalg.codegen.gpu import gpu_status

    status = gpu_status()
    if not status.available:
        raise UnsupportedError(status.reason)
    return status.arch, status.name


REQUIRED = tuple(
    Part(wheel, "everything", f"pip install {wheel}", functools.partial(_required, wheel))
    for wheel in ("numpy", "sympy", "graphviz", "rich")
)
"""Libraries without which the package does not work."""

OPTIONAL = (
    Part(
        "NVRTC", "compiling kernels: machine code, registers, spills",
        "Without it, kernels are printed, simulated and predicted: pip install 'layoutalg[nvrtc]'.", _nvrtc,
    ),
    Part(
        "nvdisasm", "layoutalg inspect sass",
        "Everything else works without it: pip install 'layoutalg[sass]'.", _disassembler,
    ),
    Part(
        "nvcc", "checking index functions of files that use CUDA's own headers",
        "Without it, types and intrinsics of CUDA are defined for the host: install the CUDA Toolkit.",
        functools.partial(_program, "nvcc", "--version"),
    ),
    Part(
        "C++ compiler", "layoutalg check, and index functions in a file of checks",
        "Python functions are checked without one: apt-get install g++, or name one in CXX.", _compiler,
    ),
    Part(
        "GPU", "running and timing kernels",
        "Everything else works without one; with one, pip install 'layoutalg[cuda13]' or [cuda12].", _gpu,
    ),
    Part(
        "CuPy", "running and timing kernels",
        "pip install 'layoutalg[cuda13]', or [cuda12] for CUDA 12.", functools.partial(_library, "cupy"),
    ),
    Part(
        "NVML", "clocks, power and temperature beside the rates of a bench",
        "Rates are measured without it: pip install 'layoutalg[monitor]'.",
        functools.partial(_library, "pynvml", wheel="nvidia-ml-py"),
    ),
    Part(
        "PyTorch", "timing beside PyTorch, and kernels called on its tensors",
        "Everything else works without it: pip install torch.", functools.partial(_library, "torch"),
    ),
    Part(
        "libclang", "reading the accesses of CUDA sources",
        "Layouts, expressions and offsets are analysed without it: pip install 'layoutalg[source]', and "
        "never the wheel clang beside it.",
        functools.partial(_library, "clang", wheel="libclang", beside="clang"),
    ),
    Part(
        "tree-sitter-cuda", "counting the accesses of CUDA sources that are not read",
        "pip install 'layoutalg[source]'.",
        functools.partial(_library, "tree_sitter_cuda", wheel="tree-sitter-cuda"),
    ),
    Part(
        "ncu-report", "reading reports of Nsight Compute",
        "pip install 'layoutalg[profile]'.", functools.partial(_library, "ncu_report", wheel="ncu-report"),
    ),
    Part(
        "hypothesis", "strategies of layouts for tests of your own",
        "Checks work without it: pip install 'layoutalg[testing]'.",
        functools.partial(_library, "hypothesis"),
    ),
    Part(
        "pytest", "a layoutalg.toml as items of pytest",
        "layoutalg ci runs it without: pip install pytest.", functools.partial(_library, "pytest"),
    ),
    Part(
        "ipywidgets", "sliders for B, M, S and the pad in notebooks",
        "Values show themselves without it: pip install 'layoutalg[notebook]'.",
        functools.partial(_library, "ipywidgets"),
    ),
)  # fmt: skip
"""Libraries, programs and devices that add to it."""


# --- answers and the cache ---------------------------------------------------------------------------------


def _wrong_answers() -> Iterator[str]:
    """The errors of this installation: a missing file, or an analysis whose result is wrong."""
    from layoutalg.analysis import analyze
    from layoutalg.notation import parse

    schema = importlib.resources.files("layoutalg") / "schema" / "output.json"
    if not schema.is_file():
        yield "the file schema/output.json of the package is missing"
    for text, ways in (("(64,64):(64,1)", 8), ("Sw<3,3,3> o 0 o (64,64):(64,1)", 1)):
        try:
            answer = getattr(analyze(parse(text), "ldmatrix.x4", "f16"), "ways", None)  # type: ignore[arg-type]
        except (LayoutAlgError, OSError, ImportError) as error:
            answer = error
        if answer != ways:
            yield f"ldmatrix.x4 on {text} gives {answer} ways instead of {ways}"


def _cache() -> CacheState:
    """The cache of compiled kernels."""
    from layoutalg.codegen.gpu import LIMIT_BYTES, cache_folder, usage

    folder = cache_folder()
    if folder is None:
        return CacheState(None, 0, 0, LIMIT_BYTES, "off")
    kernels, size = usage(folder)
    if not folder.exists():
        state = "not made yet"
    else:
        mode = folder.stat().st_mode & 0o777
        state = "in use" if mode & 0o022 == 0 else f"others may write to it (mode {mode:o}): it is not used"
    return CacheState(str(folder), kernels, size, LIMIT_BYTES, state)


def _cache_words(cache: CacheState) -> str:
    if cache.folder is None:
        return "Compiled kernels are not kept: LAYOUTALG_CACHE is off, or there is no home."
    return (
        f"Compiled kernels: {count(cache.kernels)}, {size_bytes(cache.bytes)} of at most "
        f"{size_bytes(cache.limit_bytes)}, in {cache.folder} ({cache.state})."
    )
