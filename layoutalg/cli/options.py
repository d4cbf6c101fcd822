"""Options that several commands share, each written once.

The values that the shell completes are those of a table of the library, or of words that are listed:

    option("Element type.", complete=dtypes)
    option("Language.", complete=one_of("c", "python"))

Tables are imported when a shell asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, TypeAlias

from layoutalg.cli.parameters import Completer, Parameter, Stdin


def one_of(*words: str) -> Completer:
    """The completion of one of these words.

    >>> one_of("auto", "f2", "gcd")("")
    ['auto', 'f2', 'gcd']
    """
    return lambda incomplete: _begun(words, incomplete)


def accesses(incomplete: str) -> list[str]:
    """An instruction, and behind @ the ways of lanes over a tile.

    >>> accesses("ldmatrix.x4@"), accesses("ldmatrix.x4")
    (['ldmatrix.x4@row', 'ldmatrix.x4@col'], ['ldmatrix.x4', 'ldmatrix.x4.trans'])
    """
    op, at, _ = incomplete.partition("@")
    return _begun((f"{op}@row", f"{op}@col"), incomplete) if at else instructions(incomplete)


def instructions(incomplete: str) -> list[str]:
    """An instruction of any architecture."""
    from layoutalg.arch import INSTRUCTIONS

    return _begun(INSTRUCTIONS, incomplete)


def dtypes(incomplete: str) -> list[str]:
    """An element type.

    >>> dtypes("bf")
    ['bf16']
    """
    from layoutalg.dtype import DTYPES

    return _begun(DTYPES, incomplete)


def archs(incomplete: str) -> list[str]:
    """A compiler's name of an architecture.

    >>> archs("sm_9")
    ['sm_90', 'sm_90a']
    """
    from layoutalg.arch import ARCHS

    return _begun((target for arch in ARCHS.values() for target in arch.targets), incomplete)


def families(incomplete: str) -> list[str]:
    """A family of kernels, or an operation of one."""
    from layoutalg.kernels.registry import FAMILIES

    return _begun(FAMILIES, incomplete)


FUNCTION_NAMES = "relu, gelu, gelu_tanh, silu"
"""The functions of one number, as the help and completions have them, which import no kernels."""


def operations(incomplete: str) -> list[str]:
    """An operation to explain."""
    from layoutalg.explanation import OPERATIONS

    return _begun(("analyze", "synthesize", *OPERATIONS), incomplete)


def targets(incomplete: str) -> list[str]:
    """A language of index functions.

    >>> targets("c")
    ['c', 'cuda', 'cpp']
    """
    from layoutalg.indexing import TARGETS

    return _begun(TARGETS, incomplete)


def forms(incomplete: str) -> list[str]:
    """A notation that is written.

    >>> forms("cpp")
    ['cpp', 'cpp-type']
    """
    from layoutalg.notation import FORMS

    return _begun((name for name, form in FORMS.items() if form.write is not None), incomplete)


def helped(incomplete: str) -> list[str]:
    """A command, or a term of the glossary."""
    from layoutalg.cli.table import FIRST
    from layoutalg.glossary import GLOSSARY

    return _begun((*FIRST, "glossary", *GLOSSARY), incomplete)


def atoms(incomplete: str) -> list[str]:
    """A copy atom."""
    from layoutalg.atoms import COPY_ATOMS

    return _begun(COPY_ATOMS, incomplete)


def operands(incomplete: str) -> list[str]:
    """An operand of an MMA atom.

    >>> operands("SM80_8x8x4_F64F64F64F64_TN:")
    ['SM80_8x8x4_F64F64F64F64_TN:A', 'SM80_8x8x4_F64F64F64F64_TN:B', 'SM80_8x8x4_F64F64F64F64_TN:C']
    """
    from layoutalg.atoms import MMA_ATOMS

    return _begun((f"{name}:{operand}" for name in MMA_ATOMS for operand in "ABC"), incomplete)


def _begun(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def option(
    text: str, *names: str, complete: Completer | None = None, stdin: Stdin | None = None
) -> Parameter:
    """An option with its text of help; without names it is called as its parameter is.

    What None stands for is said in the text.
    """
    return Parameter(text, names, complete, stdin)


def argument(text: str, *, complete: Completer | None = None, stdin: Stdin | None = None) -> Parameter:
    """An argument with its text of help, which says its default."""
    return Parameter(text, None, complete, stdin)


LayoutArgument: TypeAlias = Annotated[
    str,
    argument(
        "A layout in CuTe notation, such as '(64,64):(64,1)' or 'Sw<3,3,3> o 0 o (8,64):(64,1)'; "
        "- reads it from standard input.",
        stdin="text",
    ),
]
WhereOption: TypeAlias = Annotated[
    str | None,
    "Values of the names in a layout: 'ld in 32..4096, ld % 8 == 0'. Default: those of C's int.",
]
DtypeOption: TypeAlias = Annotated[str, option("Element type: f16, bf16, f32, u8, ...", complete=dtypes)]
ArchOption: TypeAlias = Annotated[
    str, option("Architecture or GPU: sm_80, sm_90, 12.0, H100, RTX4090, ...", complete=archs)
]
OutputOption: TypeAlias = Annotated[
    Path | None, option("Write to this file; it is replaced only when complete.", "--output", "-o")
]
GroupsOption: TypeAlias = Annotated[
    int | None,
    "Grouped GEMM by gemm-sm90: this many groups of rows, each with its own B; m counts the rows of "
    "all groups. Default: none.",
]
ProblemsOption: TypeAlias = Annotated[
    str | None,
    'A JSON file with a list of problems, each an object of arguments: [{"m": 64, "n": 4096}].',
]
