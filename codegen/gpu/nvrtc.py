"""Compile CUDA text to a CUBIN through NVRTC: no GPU, no driver, no CUDA toolkit needed.

The library comes with the wheel `nvidia-cuda-nvrtc` (`pip install 'layoutalg[nvrtc]'`) or from a system
toolkit, and is called through ctypes.  The CUBIN is machine code for one architecture, so that the version
of the driver that later loads it does not have to match the version of the compiler.

What the assembler calls a potential performance loss is a line of information in the log of a compile that
succeeds: a pipeline of wgmma that it has serialized, a setmaxnreg that it has ignored, a wait that it has put
in.  A kernel with such a line is not the one that was written, so that it is refused here, with what helps.
"""

from __future__ import annotations

import ctypes
import functools
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from layoutalg.arch import ARCHS, find_arch, find_target
from layoutalg.errors import CompileError, UnknownNameError, UnsupportedError

OLDEST = (7, 5)
"""The first compute capability that NVRTC 13 compiles for."""

MINIMAL = (12, 9)
"""From this version on NVRTC is set to leave out what kernels do not use; older ones may not know how."""

TARGETS = tuple(t for arch in ARCHS.values() if arch.compute_capability >= OLDEST for t in arch.targets)
"""Architectures a kernel can be compiled for."""

_USED = re.compile(r"Used (\d+) registers")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_SMEM = re.compile(r"(\d+) bytes smem")

_LOSS = re.compile(
    r"^ptxas .*?(\(C\d+\) (?:Potential Performance Loss: |wgmma\.wait_group is injected).*)$", re.M
)
"""The warnings that the assembler departed from the text: codes C7504 to C7519 of NVRTC 13."""

_CURES = (
    ("unable to determine register count", "__launch_bounds__ with the blocks per multiprocessor behind the "
     "threads says how many registers a thread starts with"),
    ("'extern' call", "calls that stay calls have registers of their own: inline them"),
    ("minimum register", "the count of setmaxnreg is below what the threads need: a larger one helps"),
    ("'setmaxnreg' ignored", "compile the kernel whole and without -G"),
    ("Extern calls", "calls that stay calls cannot stand in a pipeline of wgmma: inline them"),
    ("crossing function boundary", "fence, wgmma, commit and wait belong in one function: inline what is "
     "called between them"),
    ("insufficient register resources", "accumulators of wgmma in flight need registers of their own: a "
     "smaller tile, more threads, or no other instruction on them before wgmma.wait_group"),
    ("defining input registers", "registers of A may be written again only behind wgmma.wait_group"),
    ("reading accumulator", "accumulators may be read only behind wgmma.wait_group"),
    ("defining accumulator", "accumulators may be written only behind wgmma.wait_group, and a loop has to "
     "wait in its body"),
    ("ill formed pipeline", "every path needs wgmma.fence, wgmma.mma_async, wgmma.commit_group and "
     "wgmma.wait_group in this order"),
    ("divergent path", "all threads of a warpgroup execute wgmma and its fence, commit and wait: a branch "
     "around one of them has to be the same for the block or for whole warpgroups"),
    ("wait_group is injected", "accumulators are used where no wgmma.wait_group has finished them: write the "
     "wait"),
)  # fmt: skip
"""The remedies, by a part of the line."""


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code of one kernel and what the assembler says of it.

    `registers` per thread; `spill_bytes` are stores and loads together; `shared_bytes` is static shared
    memory; `log` is the compiler's whole output.
    """

    name: str
    arch: str
    image: bytes
    registers: int
    stack_bytes: int
    spill_bytes: int
    shared_bytes: int
    log: str


def compile_cubin(source: str, name: str, arch: str = "sm_90a") -> Cubin:
    """Compile the kernel `name` of a CUDA source for `arch`, one of TARGETS or another name of it.

    Raises UnsupportedError when NVRTC is not installed, CompileError when the source does not compile, or
    compiles to something else than was written (see above): the source and the log are kept, and the message
    names both files.

    >>> compile_cubin('extern "C" __global__ void nothing() {}', "nothing", "sm_80").spill_bytes
    0
    """
    arch = compile_target(arch)
    image, log = _compile(source, name, arch, compile_options(arch), "CUBIN")
    used, spills, smem = _USED.search(log), _SPILLS.search(log), _SMEM.search(log)
    if (lost := _LOSS.search(log)) is not None:
        what = f"{lost[1]}; {_cure(lost[1])}"
        raise _failure(source, name, arch, log, f"{name} for {arch} is not what was written: {what}")
    if used is None or spills is None:
        raise CompileError(f"NVRTC did not report the registers of {name}", log=log)
    stack, stores, loads = map(int, spills.groups())
    shared = int(smem.group(1)) if smem else 0
    return Cubin(name, arch, image, int(used.group(1)), stack, stores + loads, shared, log)


def compile_ptx(source: str, name: str, arch: str = "sm_90a") -> str:
    """The PTX of the kernel `name` of a CUDA source for an architecture.

    A driver that knows its version of PTX compiles it when it loads it, for any GPU that is as new or newer.

    Raises UnsupportedError when NVRTC is not installed, CompileError when the source does not compile.

    >>> ".target sm_75" in compile_ptx('extern "C" __global__ void nothing() {}', "nothing", "sm_75")
    True
    """
    target = compile_target(arch)
    options = (f"--gpu-architecture={target.replace('sm', 'compute')}", "--std=c++17")
    return _compile(source, name, target, options, "PTX")[0].rstrip(b"\0").decode()


def compile_image(source: str, name: str, arch: str, options: Iterable[str]) -> bytes:
    """The machine code of a CUDA source, compiled with further options.

    Raises UnsupportedError when NVRTC is not installed, CompileError when the source does not compile.

    >>> compile_image('extern "C" __global__ void nothing() {}', "nothing", "sm_90", ["-w"])[1:4]
    b'ELF'
    """
    return _compile(source, name, arch, (*compile_options(arch), *options), "CUBIN")[0]


def _compile(source: str, name: str, arch: str, options: tuple[str, ...], what: str) -> tuple[bytes, str]:
    """Compile a source to `what`, "CUBIN" or "PTX", and return it with the compiler's log."""
    lib = _library()
    program = ctypes.c_void_p()
    file_name = f"{name}.cu".encode()
    _check(lib, lib.nvrtcCreateProgram(ctypes.byref(program), source.encode(), file_name, 0, None, None))
    try:
        flags = [flag.encode() for flag in (*options, *_quicker())]
        status = lib.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
        log = _text(lib, program, "ProgramLog")
        if status != 0:
            first = next((line for line in log.splitlines() if "error" in line), log.strip()[:200])
            raise _failure(source, name, arch, log, f"{name} does not compile for {arch}: {first}")
        return _bytes(lib, program, what), log
    finally:
        lib.nvrtcDestroyProgram(ctypes.byref(program))


def _quicker() -> tuple[str, ...]:
    """Options that save time and change no byte of the result: no declarations of textures and surfaces."""
    return ("--minimal",) if version() >= MINIMAL else ()


def compile_target(arch: str) -> str:
    """The name in TARGETS of an architecture given by any of its names.

    Raises UnknownNameError for one that is not known, or that NVRTC does not compile for.

    >>> compile_target("H100")
    'sm_90'
    """
    target = find_target(arch)
    if target not in TARGETS:
        older = find_arch(target).compute_capability < OLDEST
        hint = "NVRTC 13 has none below sm_75: simulate the kernel, or compile its text with CUDA 12; "
        raise UnknownNameError("compile target", target, TARGETS, hint=hint if older else "")
    return target


def compile_options(arch: str) -> tuple[str, ...]:
    """The options of NVRTC.  Its own cache would not repeat the assembler's report.

    >>> compile_options("sm_80")[0]
    '--gpu-architecture=sm_80'
    """
    return (f"--gpu-architecture={arch}", "--std=c++17", "--no-cache", "--ptxas-options=-v")


def version() -> tuple[int, int]:
    """Version of the NVRTC library.  Raises UnsupportedError when there is none.

    >>> version() >= (13, 0)
    True
    """
    major, minor = ctypes.c_int(), ctypes.c_int()
    lib = _library()
    _check(lib, lib.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


def _candidates() -> Iterator[Path]:
    spec = find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield from sorted(Path(folder).glob("*/lib/libnvrtc.so*"), reverse=True)
    for folder in ("/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"):
        yield from sorted(Path(folder).glob("libnvrtc.so*"), reverse=True)


@functools.cache
def _library() -> ctypes.CDLL:
    for path in _candidates():
        for builtins in path.parent.glob("libnvrtc-builtins.so*"):
            ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
        return ctypes.CDLL(str(path))
    raise UnsupportedError(
        "compiling CUDA needs NVRTC, which is not installed: pip install 'layoutalg[nvrtc]' brings it"
    )


def _check(lib: ctypes.CDLL, status: int) -> None:
    if status != 0:
        lib.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise CompileError(f"NVRTC: {lib.nvrtcGetErrorString(status).decode()}")


def _bytes(lib: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(lib, getattr(lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(lib, getattr(lib, f"nvrtcGet{what}")(program, buffer))
    return buffer.raw


def _text(lib: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> str:
    return _bytes(lib, program, what).rstrip(b"\0").decode(errors="replace")


def _cure(line: str) -> str:
    """The remedy for a potential performance loss."""
    return next((cure for part, cure in _CURES if part in line), "the log says where")


def _failure(source: str, name: str, arch: str, log: str, what: str) -> CompileError:
    """The error that says `what`, with the source and the log in files that it names."""
    folder = Path(tempfile.mkdtemp(prefix="layoutalg-"))
    text_file, log_file = folder / "kernel.cu", folder / "kernel.log"
    text_file.write_text(source, encoding="utf-8")
    log_file.write_text(log, encoding="utf-8")
    return CompileError(f"{what} (source in {text_file}, log in {log_file})", log=log, source=str(text_file))
