"""`layoutalg legal`: whether the hardware accepts a request; which rule it breaks, where, and the fix."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from layoutalg.answers import Answer, taken
from layoutalg.arch import DEFAULT_ARCH, TCGEN05_ARCH
from layoutalg.cli.inputs import read_layout, read_tree
from layoutalg.cli.options import DtypeOption, archs, argument, instructions, one_of, option
from layoutalg.cli.output import say, say_answer, say_verbatim, wants_json
from layoutalg.cli.refusals import FAILED
from layoutalg.errors import ArgumentTypeError, ShapeError, UnknownNameError
from layoutalg.layout import AnyLayout, IntTuple, Layout, to_text

if TYPE_CHECKING:
    from layoutalg.legality import Legality, Repair

_TYPES = re.compile(r"[a-z0-9]{1,8}(?:,[a-z0-9]{1,8}){2}")


_LOAD_MODES = ("tile", "tile::gather4", "tile::scatter4")


class _Subject(NamedTuple):
    """A question: its check, the arguments of it by name, and the option that says each of them."""

    check: Callable[..., Legality[Any]]
    arguments: dict[str, Any]
    options: Mapping[str, str]


def _subjects(incomplete: str) -> list[str]:
    """The names that complete `incomplete`: the engines, and every instruction."""
    return [*one_of("tma", "wgmma", "tcgen05")(incomplete), *instructions(incomplete)]


@dataclass(frozen=True)
class RuleAnswer:
    """A rule that the request was held against."""

    rule: str
    text: str
    source: str
    provenance: Literal["measured", "documented", "assumed"]
    holds: bool


@dataclass(frozen=True)
class Broken:
    """A rule that the request breaks."""

    rule: str
    asked: str
    accepted: str
    nearest: str
    witness: str | None
    """A coordinate of the layout at which the rule fails."""
    fix: Mapping[str, str]


@dataclass(frozen=True)
class RepairAnswer:
    """The nearest legal request, asked again."""

    changes: Mapping[str, str]
    command: str


@dataclass(frozen=True)
class LegalAnswer(Answer, command="legal"):
    """Whether the hardware accepts a request; exit code 1 where it does not."""

    subject: str
    legal: bool
    result: str | None
    """The legal request in words."""
    rules: tuple[RuleAnswer, ...]
    broken: tuple[Broken, ...]
    notes: tuple[str, ...]
    repair: RepairAnswer | None
    """null where it is legal or none is known."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options that say what is asked of the layout."""

    dtype: DtypeOption = "f16"
    box: Annotated[str | None, "tma: sides of the box, 64x128 or (64,128)."] = None
    mode: Annotated[
        str | None,
        option("tma: swizzle mode: none, 32B, 64B or 128B.", complete=one_of("none", "32B", "64B", "128B")),
    ] = None
    interleave: Annotated[int | None, "tma: bytes of the interleave: 0, 16 or 32."] = None
    element_strides: Annotated[str | None, "tma: traversal strides, one per leaf of the tensor: 1x2."] = None
    load_mode: Annotated[
        str | None, option("tma: tile, tile::gather4 or tile::scatter4.", complete=one_of(*_LOAD_MODES))
    ] = None
    nan_fill: Annotated[bool, "tma: fill out-of-bounds elements with NaN."] = False
    shared: Annotated[str | None, "tma: the shared-memory layout that the kernel expects."] = None
    shared_alignment: Annotated[
        int | None, "tma: alignment of the box in shared memory, in bytes. Default: 1024."
    ] = None
    alignment: Annotated[int | None, "Alignment of the layout's base address, in bytes. Default: 256."] = None
    operand: Annotated[str | None, option("wgmma, tcgen05: A (usual) or B.", complete=one_of("A", "B"))] = (
        None
    )
    major: Annotated[
        str | None, "wgmma, tcgen05: K or MN; of an instruction K,MN for A and B. Default: detected."
    ] = None
    m: Annotated[int | None, "tcgen05: M of the instruction."] = None
    n: Annotated[int | None, "wgmma, tcgen05: N of the instruction."] = None
    kind: Annotated[str | None, "tcgen05: the .kind. Default: that of the types."] = None
    scale: Annotated[str | None, "tcgen05: type and block of the scale factors: ue8m0,32."] = None
    ctas: Annotated[int | None, "tcgen05, tma: CTAs of the instruction, 1 or 2. Default: 1."] = None
    ws: Annotated[bool, "tcgen05: the weight-stationary form."] = False
    warp: Annotated[int | None, "tcgen05.ld, .st: the warp. Default: 0."] = None
    lane: Annotated[int | None, "tcgen05.ld, .st: the first lane. Default: the warp's."] = None
    column: Annotated[int | None, "tcgen05: the first column in tensor memory. Default: 0."] = None
    base: Annotated[int | None, "wgmma, tcgen05: the operand's address in bytes. Default: 0."] = None
    descriptor: Annotated[
        str | None, "wgmma, tcgen05: the kernel's descriptor: 64 bits of an operand, 32 of a product."
    ] = None
    tile: Annotated[str | None, "wgmma, tcgen05: what an atom is repeated to: 128x64."] = None
    a_source: Annotated[
        str | None,
        option("wgmma, tcgen05: where A lies.", complete=one_of("shared", "registers", "tensor")),
    ] = None
    tv: Annotated[str | None, "Instructions: TV layout to the flat index. Default: the whole tile."] = None
    source: Annotated[str | None, "cp.async: the layout in global memory."] = None
    source_alignment: Annotated[int | None, "cp.async: alignment of the source, in bytes. Default: 256."] = (
        None
    )
    source_bytes: Annotated[int | None, "cp.async: bytes that each copy reads; the rest is zero-filled."] = (
        None
    )
    arch: Annotated[
        str | None, option("Architecture or GPU. Default: sm_90, of tcgen05 sm_100.", complete=archs)
    ] = None


def legal_command(
    what: Annotated[
        str,
        argument(
            "tma, wgmma, tcgen05, or an instruction: ldmatrix.x4.trans, cp.async.cg.16, ld.shared.v4.f32, "
            "tcgen05.ld.16x256b.x4, ...",
            complete=_subjects,
        ),
    ],
    layout: Annotated[
        str,
        argument(
            "tma: the tensor in global memory. wgmma, tcgen05: the operand in shared memory, an atom's name "
            "with --tile, or the types A,B,ACCUMULATOR of an instruction. tcgen05.ld, .st: the accumulator, "
            "a layout to lane + 128 column. Otherwise the tile that is accessed. - reads it from stdin.",
            stdin="text",
        ),
    ],
    *,
    asked: Wanted,
) -> int:
    """Check a layout against the rules of TMA, wgmma, tcgen05, ldmatrix, cp.async or vector accesses.

    layoutalg legal tma "(4096,1024):(1024,1)" --box 64x128 --mode 128B

    layoutalg legal wgmma "Sw<3,3,3> o 0 o (128,64):(64,1)" --operand A

    layoutalg legal wgmma f16,f16,f32 --n 100 --major K,MN

    layoutalg legal tcgen05 e4m3,e4m3,f32 --m 64 --n 256 --scale ue8m0,32

    layoutalg legal tcgen05.ld.16x256b.x4 "((16,4),96):((1,32),128)" --warp 1

    layoutalg legal ldmatrix.x4.trans "(64,64):(68,1)" --dtype f32

    layoutalg legal cp.async.cg.16 "(64,64):(72,1)" --source "(64,64):(100,1)"

    layoutalg legal ld.shared.v4.f32 "(32,32):(33,1)" --dtype f32

    Exits 0 where it is legal, 1 where it is not, 2 where the request is not understood.
    """
    requested = {
        f"--{field.name.replace('_', '-')}": _READ.get(field.name, _as_it_is)(value)
        for field in fields(asked)
        if (value := getattr(asked, field.name)) is not None and value is not False
    }
    dtype, arch = requested.pop("--dtype"), requested.pop("--arch", _usual(what))
    subject = _subject(what, layout, dtype, arch, requested)
    from layoutalg.legality import nearest_legal

    try:
        report = subject.check(**subject.arguments)
    except UnknownNameError as error:
        if error.kind != "instruction":
            raise
        raise UnknownNameError("instruction", what, _subjects("")) from error
    repair = None if report.legal else nearest_legal(subject.check, subject.arguments)
    command = None if repair is None else _command(subject, repair, what)
    if wants_json():
        say_answer(_answer(report, repair, command))
    else:
        _show(report, repair, command)
    return 0 if report.legal else FAILED


def _usual(what: str) -> str:
    """The architecture of who names none."""
    return TCGEN05_ARCH if what.strip().lower().startswith("tcgen05") else DEFAULT_ARCH


# --- what is asked -------------------------------------------------------------------------------------

_SPELLED = {
    "element": "--dtype", "global_alignment_bytes": "--alignment", "source_bytes": "--source-bytes",
    **dict.fromkeys(("op", "tensor", "layout", "a", "b", "accumulator", "a_major", "b_major"), ""),
}  # fmt: skip
"""Options that are not called as their argument is; "" for what no option says alone."""


def _options_of(check: Callable[..., Any]) -> dict[str, str]:
    """The option that says each argument of a check."""
    return {
        name: _SPELLED.get(name, f"--{name.removesuffix('_bytes').replace('_', '-')}")
        for name in inspect.signature(check).parameters
    }


def _subject(what: str, layout: str, dtype: str, arch: str, requested: dict[str, Any]) -> _Subject:
    """The question that the words ask; raises for an option that it does not have."""
    from layoutalg import legality

    kind = what.strip().lower()
    if kind in ("wgmma", "tcgen05") and _TYPES.fullmatch(layout):
        return _product(kind, layout, arch, requested)
    fixed: dict[str, Any] = {"element": dtype, "arch": arch}
    check: Callable[..., Any]
    if kind == "tma":
        if "--box" not in requested:
            raise ArgumentTypeError("tma needs --box, the sides of the box: --box 64x64")
        check = legality.check_tma
        fixed |= {"tensor": _plain(layout)}
    elif kind in ("wgmma", "tcgen05"):
        check = legality.check_tcgen05_operand if kind == "tcgen05" else legality.check_wgmma
        stored = "u8" if kind == "tcgen05" and dtype in ("e2m3", "e3m2") else dtype
        fixed |= {"layout": _operand(layout, stored, requested.pop("--tile", None))}
        requested.setdefault("--operand", "A")
    elif kind.startswith("tcgen05."):
        check = legality.check_tcgen05_access
        fixed = {"op": kind, "accumulator": _plain(layout), "arch": arch}
    else:
        check = legality.check_memory
        fixed |= {"op": what, "layout": read_layout(layout)}
    options = _options_of(check)
    names = {option: name for name, option in options.items()}
    unknown = [option for option in requested if option not in names]
    if unknown:
        raise ArgumentTypeError(f"{what} has no {' and no '.join(unknown)}; see layoutalg legal --help")
    return _Subject(check, fixed | {names[o]: value for o, value in requested.items()}, options)


def _product(kind: str, types: str, arch: str, requested: dict[str, Any]) -> _Subject:
    """The question of an instruction wgmma.mma_async or tcgen05.mma."""
    from layoutalg.legality import check_tcgen05, check_wgmma_instruction

    check: Callable[..., Any] = check_tcgen05 if kind == "tcgen05" else check_wgmma_instruction
    options = _options_of(check)
    needed = [option for option in ("--m", "--n") if option in options.values()]
    a, b, accumulator = types.split(",")
    majors = str(requested.pop("--major", "K,K")).split(",")
    unknown = [option for option in requested if option not in options.values()]
    if unknown or not set(needed) <= set(requested) or len(majors) != 2:
        raise ArgumentTypeError(
            f"an instruction {kind} takes {', '.join(needed)}, --major A,B (such as K,MN) and --a-source"
            + (f", not {' and '.join(unknown)}" if unknown else "")
        )
    arguments = {
        "a": a, "b": b, "accumulator": accumulator, "a_major": majors[0], "b_major": majors[1], "arch": arch,
        "a_source": "shared", **{name: requested[o] for name, o in options.items() if o in requested},
    }  # fmt: skip
    return _Subject(check, arguments, options)


_ATOM = re.compile(r"(?:cute::)?(?:SM90::)?(?:GMMA::)?(\w+)(?:<\s*(?:cute::|cutlass::)?(\w+)\s*>)?", re.ASCII)
"""An atom's name, as it is here or in CUTLASS, perhaps with its element type."""


def _operand(text: str, dtype: str, tile: IntTuple | None) -> AnyLayout:
    """An operand's layout: as it is, or an atom repeated to a tile."""
    from layoutalg.arch import SMEM_ATOMS, atom_layout
    from layoutalg.dtype import dtype as find_dtype

    named = _ATOM.fullmatch(text.strip())
    names = (named[1], f"Layout_{named[1]}_Atom") if named else ()
    name = next((name for name in names if name in SMEM_ATOMS), None)
    if name is None and ":" in text:
        if tile is not None:
            raise ArgumentTypeError("--tile is what an atom is repeated to; a layout has its own shape")
        return read_layout(text)
    if named is None or name is None:
        raise UnknownNameError("shared-memory atom", text, SMEM_ATOMS)
    if named[2] and find_dtype(named[2]) != find_dtype(dtype):
        raise ArgumentTypeError(f"{text} is an atom of {find_dtype(named[2])}, and --dtype is {dtype}")
    if tile is None:
        raise ArgumentTypeError(f"{name} needs --tile, what it is repeated to: --tile 128x64")
    from layoutalg.algebra import tile_to_shape

    return tile_to_shape(atom_layout(name, dtype), tile)


def _plain(text: str) -> Layout:
    layout = read_layout(text)
    if not isinstance(layout, Layout):
        raise ShapeError(f"{layout} is swizzled; a tensor in global memory is a plain layout")
    return layout


def _ints(text: str) -> IntTuple:
    """64x128, 64,128 or (64,128)."""
    read = read_tree(text)
    return read if isinstance(read, tuple) else (read,)


def _bits(text: str) -> int:
    if not re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20}", text):
        raise ShapeError(f"--descriptor {text}: 64 bits are needed, such as 0x4000004000010040")
    return int(text, 0)


def _as_it_is(value: Any) -> Any:
    return value


_READ: Mapping[str, Callable[[Any], Any]] = {
    "box": _ints, "element_strides": _ints, "tile": _ints, "descriptor": _bits,
    "shared": read_layout, "tv": read_layout, "source": read_layout,
}  # fmt: skip
"""The reader of each option that is a text."""


# --- what is said --------------------------------------------------------------------------------------


def _show(report: Legality[Any], repair: Repair | None, command: str | None) -> None:
    say(f"{report.subject}: {'legal' if report.legal else 'not legal'}.")
    for violation in report.violations:
        say("", f"{violation}.", f"  Rule: {violation.rule.text}. Source: {violation.rule.source}.")
    if report.result is not None:
        say(f"{report.result}")
    if report.holding:
        say("", f"Rules that hold: {', '.join(report.holding)}.")
    for note in report.notes:
        say(f"Note: {note}.")
    if command is not None:
        say("", "The nearest request that is legal, asked again:")
        say_verbatim(command)
    elif not report.legal:
        say("", "No change of the arguments is known that makes it legal.")


def _command(subject: _Subject, repair: Repair, what: str) -> str:
    """The command that asks the repaired question."""
    arguments = subject.arguments | repair.changes
    if "a" in arguments:
        words = [what, ",".join(str(arguments[name]) for name in ("a", "b", "accumulator"))]
        words += ["--major", f"{arguments['a_major']},{arguments['b_major']}"]
    else:
        positional = next(name for name, flag in subject.options.items() if not flag and name != "op")
        words = [str(arguments.get("op", what)), str(arguments[positional])]
    for name, flag in subject.options.items():
        value = arguments.get(name)
        if not flag or value is None or value is False or (name == "arch" and value == _usual(what)):
            continue
        words += [flag] if value is True else [flag, _said(name, value)]
    return shlex.join(["layoutalg", "legal", *words])


def _said(name: str, value: object) -> str:
    if name == "descriptor" and isinstance(value, int):
        return f"{value:#x}" if value < 1 << 32 else f"{value:#018x}"
    return to_text(value) if isinstance(value, tuple) else str(value)


def _answer(report: Legality[Any], repair: Repair | None, command: str | None) -> LegalAnswer:
    """The record of a report and of its repair."""
    broken = tuple(
        taken(
            Broken, violation, rule=violation.rule.name, nearest=violation.change,
            witness=None if violation.witness is None else to_text(violation.witness),  # type: ignore[arg-type]
            fix={name: _said(name, value) for name, value in violation.fix},
        )
        for violation in report.violations
    )  # fmt: skip
    rules = tuple(
        taken(RuleAnswer, rule, rule=rule.name, holds=rule.name not in report.broken) for rule in report.rules
    )
    changes = {} if repair is None else {name: _said(name, value) for name, value in repair.changes.items()}
    asked_again = None if command is None else RepairAnswer(changes, command)
    return taken(LegalAnswer, report, rules=rules, broken=broken, repair=asked_again)
