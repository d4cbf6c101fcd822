"""`layoutalg generate`: the CUDA text of a kernel."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from layoutalg.answers import Answer, Count, Positive, taken
from layoutalg.arch import DEFAULT_ARCH
from layoutalg.cli.commands.kernels.options import (
    ConfigOptions,
    FamilyArgument,
    ProblemOptions,
)
from layoutalg.cli.files import write_whole
from layoutalg.cli.kernel_names import find_kernel
from layoutalg.cli.options import OutputOption, archs, one_of, option
from layoutalg.cli.output import count, progress, say, say_answer, wants_json
from layoutalg.cli.reports import (
    Compiled,
    contract_lines,
    cubin_answer,
    cubin_sentence,
    kernel_sentence,
)
from layoutalg.codegen.printing import LaunchAnswer
from layoutalg.errors import UnsupportedError


@dataclass(frozen=True)
class SharedBuffer:
    """A buffer in shared memory."""

    name: str
    layout: str


@dataclass(frozen=True)
class Generated(Answer, command="generate"):
    """The source of a kernel, and what its launches must give it."""

    family: str
    kernel: str
    problem: str
    arch: str
    threads: Positive
    shared_bytes: Count
    launch: LaunchAnswer
    kernels: tuple[LaunchAnswer, ...]
    """The launches of all kernels in their order; `launch` is one of them."""
    shared: tuple[SharedBuffer, ...]
    output: str | None
    source: str | None
    language: Literal["cuda", "ptx"]
    """The language of the source."""
    part: Positive | None
    """The number of the kernel that the source has, of those launched in order; null: all of several."""
    parts: Positive
    compiled: tuple[Compiled, ...]


def generate_command(
    family: FamilyArgument,
    *,
    asked: ProblemOptions,
    how: ConfigOptions,
    beta: Annotated[float | None, "Refused: beta is an argument of the launch; --c adds beta C."] = None,
    part: Annotated[
        int | None, "Only this kernel, where several are launched in order. Default: all."
    ] = None,
    arch: Annotated[
        str, option("Target architecture: sm_80, sm_90a, RTX4090, ...", complete=archs)
    ] = DEFAULT_ARCH,
    compile_for: Annotated[
        list[str] | None, option("Compile for this target; needs no GPU. May be repeated.", "--compile")
    ] = None,
    launcher: Annotated[
        str | None,
        option(
            "Add a launcher that checks its arguments: cpp, main (cpp with a main() that times it), or "
            "torch or cupy for a Python module.",
            complete=one_of("cpp", "main", "torch", "cupy"),
        ),
    ] = None,
    ptx: Annotated[bool, "Write PTX for --arch, compiled by NVRTC, in place of CUDA."] = False,
    static: Annotated[
        bool, "Build the number of rows, or leading dimensions, into the text. Default: a launch gives them."
    ] = False,
    name: Annotated[
        str | None, "Name of the kernel, of its operator in PyTorch, and of the file where there is no -o."
    ] = None,
    header: Annotated[
        Path | None, "Write the declaration of the launcher of --launcher cpp to this .h or .hpp."
    ] = None,
    output: OutputOption = None,
) -> None:
    """Write the CUDA source of a kernel: for sizes up to m x n (and k), or for one tensor.

    A comment above the source states the sizes, leading dimensions, buffers and addresses that a launch may
    have; with --json, "launch" does. Kernel names contain a hash of the problem, so that files of several
    problems can be linked together.

    layoutalg generate transpose --dtype f32 -o transpose.cu

    layoutalg generate gemm-sm80 --m 8192 --n 8192 --k 8192 -o gemm.cu

    layoutalg generate gemm-sm80 --dtype bf16 --b-major mn --bias n --activation gelu -o linear.cu

    layoutalg generate gemm-sm80 --accumulator f16 --tile 128x128x32 --stages 3 --warps 2x2 -o hgemm.cu

    layoutalg generate gemm-simt --m 256 --n 256 --k 256 --arch sm_86 --ptx

    layoutalg generate gemm-sm90 --m 65536 --n 4096 --k 7168 --groups 8 -o experts.cu

    layoutalg generate permute --shape 128,224,224,3 --axes 0,3,1,2 --dtype f16 -o nchw.cu

    layoutalg generate permute --shape 128,224,224,3 --axes 0,3,1,2 --dtype u8 --result f16 -o planes.cu

    layoutalg generate softmax --shape 4096,1000 --launcher torch --name row_softmax
    """
    from layoutalg.arch import find_target
    from layoutalg.codegen.gpu import compile_ptx, kernel_target, prepare
    from layoutalg.codegen.printing import (
        LIBRARIES,
        buffer_lines,
        cpp_header,
        launch_answers,
        print_kernels,
        with_launcher,
    )
    from layoutalg.codegen.program import printed

    arch = find_target(arch)
    if beta is not None:
        raise UnsupportedError("beta is a parameter of the kernel, which a launch gives: --c adds beta C")
    if launcher is not None and part is not None:
        raise UnsupportedError(
            f"--launcher {launcher} launches all kernels: --part is not accepted beside it"
        )
    if launcher is not None and ptx:
        raise UnsupportedError(f"--launcher {launcher} is of CUDA text: --ptx is not accepted beside it")
    kind = "ptx" if ptx else "py" if launcher in LIBRARIES else "cu"
    output = Path(f"{name}.{kind}") if output is None and name is not None else output
    if output is not None and output.suffix != f".{kind}":
        written = output.parent / f"{output.stem or family}.{kind}"
        raise UnsupportedError(f"-o {output}: {written} is what is written")
    if header is not None and (launcher != "cpp" or header.suffix not in (".h", ".hpp")):
        raise UnsupportedError(f"--header {header}: a .h or .hpp beside --launcher cpp is accepted")
    with progress(f"writing {family}"):
        number = 1 if part is None else part
        located = find_kernel(
            family, asdict(asked), arch, part=number, linked=name or "", free=not static, **asdict(how)
        )
        problem, kernel, parts, record = located.problem, located.kernel, located.parts, located.record
        chosen = [printed(k, arch) for k in (located.kernels if part is None else (kernel,))]
        source = with_launcher(print_kernels(chosen, buffer_lines(record)), record, launcher)
        if ptx:
            texts = [compile_ptx(print_kernels([k]), k.name, kernel_target(k, arch)) for k in chosen]
            source = "\n".join(texts)
        compiled = [
            prepare(k, target, print_kernels([k])).cubin for target in compile_for or () for k in chosen
        ]
    if output is not None:
        write_whole(output, source.encode())
    if header is not None:
        write_whole(header, cpp_header(record).encode())
    if wants_json():
        launches = launch_answers(record)
        say_answer(
            taken(
                Generated, kernel, family=family, kernel=kernel.name, problem=problem, arch=arch,
                launch=launches[located.part - 1], kernels=launches,
                output=output, source=source if output is None else None,
                language="ptx" if ptx else "cuda", part=part if parts > 1 else 1, parts=parts,
                compiled=map(cubin_answer, compiled),
            )
        )  # fmt: skip
        return
    if parts > 1:
        which = f"{parts} kernels" if part is None else f"kernel {part} of {parts}"
        print(f"{which}, to be launched in order: --part chooses", file=sys.stderr)
    if output is None:
        sys.stdout.write(source)
    else:
        lines = count(len(source.splitlines()))
        say(f"wrote {output}: {lines} lines, {', '.join(k.name for k in chosen)} for {problem}")
        for each in chosen:
            say(kernel_sentence(each), *contract_lines(each))
        say(*(cubin_sentence(cubin) for cubin in compiled))
