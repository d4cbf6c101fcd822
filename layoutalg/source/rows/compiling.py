"""The machine code of a source's kernels: the instructions that touch memory, by the line that they are of.

The idea.  The text is compiled as it is, by nvcc or else by NVRTC, with the folders and values that its
reading has.  Behind it stands, for each kernel, an instance of an empty one that has the kernel as its
argument: that makes the instance that is read, and its mangled name holds that of the kernel.  `-lineinfo`
puts the line beside each instruction, of inlined functions their own.

Nothing of the text is run.  The compiler is another process, started without a shell, with a limit of time
and memory; folders go to it under names of our own.
"""

from __future__ import annotations

import functools
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from layoutalg.codegen.gpu import compile_image, compile_target, disassemble
from layoutalg.errors import CompileError, UnsupportedError
from layoutalg.profiling import instruction_op, never_executed
from layoutalg.source.front import Kernel, Parsed
from layoutalg.source.rows.joined import Code, Place, statement_end, statement_ends
from layoutalg.tools import Ran, run_tool, scratch

SECONDS = 120.0
"""The longest time that compiling a source may take."""

_FUNCTION = re.compile(r"^\.text\.([\w$.]+):$")
_PLACE = re.compile(r'//## File "([^"]*)", line (\d+)( inlined at)?')
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+([^;]*);")
_MARK = re.compile(r"_ZN\d+layoutalg_compiled_(\d+?)(?:15layoutalg_inner)*4markIXadL(_Z\w+)EEEEvv\Z")
_BACK = re.compile(r"S[0-9A-Z]*_")
_ERROR = re.compile(r"^.*\berror\b.*$", re.MULTILINE)
_RUN = "import sys; sys.path[:0] = sys.argv[1:2]; from layoutalg.source.rows.compiling import main; main()"


def machine_code(
    text: str, parsed: Parsed, values: Mapping[str, str], folders: Sequence[str], arch: str
) -> dict[str, Code]:
    """The code of each kernel that is read, by its name.

    Raises UnsupportedError where the compiler or the disassembler is missing, CompileError for a text
    that does not compile, or that takes too long.
    """
    kernels = [kernel for kernel in parsed.kernels if kernel.root is not None]
    whole = "\n".join((text, *(_mark(number, kernel) for number, kernel in enumerate(kernels)), ""))
    defined = [f"-D{name}={value}" for name, value in values.items() if name in parsed.defined]
    with scratch() as spot:
        included = []
        for number, folder in enumerate(folders):
            (spot / f"folder{number}").symlink_to(folder)
            included.append(f"-I{spot / f'folder{number}'}")
        image = _image(whole, spot, [*defined, *included], compile_target(arch))
        functions = dict(_functions(disassemble(image, lines=True), spot / "kernel.cu", parsed.files, text))
    marks = {int(mark[1]): mark[2] for mark in map(_MARK.match, functions) if mark is not None}
    return {kernel.name: functions[_symbol(kernel, marks[n], functions)] for n, kernel in enumerate(kernels)}


def _symbol(kernel: Kernel, marked: str, symbols: Iterable[str]) -> str:
    """The mangled name of a kernel, by the one in the name of its mark, where back references count anew."""
    plain = kernel.name.rpartition("::")[2]
    same = [s for s in symbols if _BACK.sub("S_", s) == _BACK.sub("S_", marked)]
    same = same or [s for s in symbols if s == plain]  # extern "C"
    if len(same) != 1:
        raise CompileError(f"{kernel.name} is {len(same)} functions of the machine code")
    return same[0]


def _mark(number: int, kernel: Kernel) -> str:
    """An empty kernel whose name holds that of a kernel."""
    parts, declared, ends = kernel.instance
    arguments = f"<{', '.join(parts)}>" if kernel.template else ""
    return (
        f"namespace layoutalg_compiled_{number} {{ {declared}\n"
        f"template <auto> __global__ void mark() {{}}\n"
        f"template __global__ void mark<&::{kernel.name}{arguments}>(); }}{ends}"
    )


def _image(text: str, spot: Path, options: list[str], target: str) -> bytes:
    """The CUBIN of a text, which is put into a folder."""
    source, image = spot / "kernel.cu", spot / "kernel.cubin"
    source.write_text(text, encoding="utf-8")
    nvcc = shutil.which("nvcc")
    if nvcc is not None:
        flags = ("-cubin", "-lineinfo", "-w", "-std=c++17", "--expt-relaxed-constexpr", "--extended-lambda")
        command = [nvcc, *flags, f"-arch={target}", *options, str(source), "-o", str(image)]
    else:
        folder = str(Path(__file__).resolve().parents[3])
        command = [sys.executable, "-I", "-c", _RUN, folder, str(source), str(image), target, *options]
    name = "nvcc" if nvcc is not None else "NVRTC"
    try:
        ran = run_tool(command, timeout_s=SECONDS)
    except TimeoutError as error:
        raise CompileError(f"{name} compiles the source for too long: {error}") from None
    if ran.status != 0 or not image.is_file():
        raise CompileError(f"{name} does not compile the source: {_first_error(ran, spot)}", log=ran.said)
    return image.read_bytes()


def _first_error(ran: Ran, spot: Path) -> str:
    """The first error that a compiler prints, with the names that the user knows."""
    error = _ERROR.search(ran.said)
    said = ran.said.strip().rpartition("\n")[2] if error is None else error[0]
    return said.replace(f"{spot}/kernel.cu", "").replace(f"{spot}/", "")[:300]


def _functions(sass: str, main: Path, files: tuple[str, ...], text: str) -> Iterator[tuple[str, Code]]:
    """(mangled name, code) of each function that nvdisasm prints.

    An instruction is of the innermost line that is the user's: what is around it is CUDA's headers.
    """
    ends = statement_ends(text)
    code: dict[Place, Counter[str]] = {}
    place: Place | None = None
    inlined = False
    for line in sass.splitlines():
        if function := _FUNCTION.match(line):
            code = {}
            yield function[1], code
        elif at := _PLACE.search(line):
            name, number = "" if at[1] == str(main) else _known(at[1], files), int(at[2])
            own = None if name is None else (name, number if name else statement_end(ends, number))
            place = (place or own) if inlined else own
            inlined = at[3] is not None
        elif place is not None and (instruction := _INSTRUCTION.search(line)):
            op = None if never_executed(instruction[1]) else instruction_op(instruction[1])
            if op is not None:
                code.setdefault(place, Counter())[op] += 1


@functools.lru_cache(maxsize=256)
def _known(path: str, files: tuple[str, ...]) -> str | None:
    """The name by which the text includes a header of the user's own."""
    ends = ((name, re.sub(r"^(\.{0,2}/)+", "/", f"/{name}")) for name in files if name)
    return next((name for name, end in ends if path.endswith(end)), None)


def main() -> None:
    """Compile with NVRTC: the arguments are the source, the image, the architecture and options."""
    source, image, arch, *options = sys.argv[2:]
    headers = find_spec("nvidia")
    folders = [
        f"-I{path}" for folder in (headers.submodule_search_locations or () if headers else ())
        for path in Path(folder).glob("*/include")
    ]  # fmt: skip
    options += ["--generate-line-info", "-w", "-default-device", *folders]
    try:
        text = Path(source).read_text(encoding="utf-8")
        Path(image).write_bytes(compile_image(text, source.removesuffix(".cu"), arch, options))
    except (CompileError, UnsupportedError) as error:
        sys.exit(error.log if isinstance(error, CompileError) and error.log else error.message)
