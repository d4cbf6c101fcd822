"""Values that the shell completes: instructions, element types, architectures, forms.

    typer.Option(autocompletion=accesses)       the names in a table of the library
    typer.Option(autocompletion=one_of("c", "python"))

Tables are imported when a shell asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

Completer: TypeAlias = Callable[[str], list[str]]


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


def terms(incomplete: str) -> list[str]:
    """A term of the glossary."""
    from layoutalg.glossary import GLOSSARY

    return _begun(GLOSSARY, incomplete)


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
