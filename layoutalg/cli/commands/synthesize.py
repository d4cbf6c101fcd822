"""`layoutalg synthesize`: a layout without conflicts for a set of accesses, or which have none, proved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich.table import Table

from layoutalg.analysis import Report, report_notes
from layoutalg.cli.completions import accesses, one_of
from layoutalg.cli.inputs import ORDERS, or_input, read_layout, storage_order
from layoutalg.cli.options import ArchOption, DtypeOption, JsonOption
from layoutalg.cli.output import count, progress, say, say_json, size_bytes, table
from layoutalg.cli.refusals import header
from layoutalg.cli.reports import report_fields, report_tables
from layoutalg.errors import ShapeError, UndecidedError, UnknownNameError
from layoutalg.layout import AnyLayout, to_text
from layoutalg.notation import parse_int_tuple

if TYPE_CHECKING:
    from layoutalg.synthesis import Form, Order, Synthesis

INFEASIBLE = 1

Payload: TypeAlias = "dict[str, Any]"

_KINDS = {
    "plain": "no swizzle is needed",
    "swizzle": "one swizzle",
    "xor": "a chain of swizzles",
    "padding": "padded rows",
}


def synthesize_command(
    layout: Annotated[
        str,
        typer.Argument(
            help="A tile: '(64,64):(64,1)', or its shape: '(64,64)'; - reads it from standard input.",
            show_default=False,
            callback=or_input,
        ),
    ],
    access: Annotated[
        list[str] | None,
        typer.Option(
            help="OP, OP@row, OP@col or OP@TV layout: everything that touches the tile. Repeats. "
            "Default: loads of one element, by row and by column.",
            show_default=False,
            autocompletion=accesses,
        ),
    ] = None,
    dtype: DtypeOption = "f32",
    order: Annotated[
        str | None,
        typer.Option(
            help="row or col: the mode that is contiguous. Default: the layout's, row for a shape.",
            autocompletion=one_of("row", "col"),
        ),
    ] = None,
    extra_bytes: Annotated[
        int, typer.Option("--max-extra-bytes", help="Memory beyond the tile that padding may use.")
    ] = 0,
    form: Annotated[
        str,
        typer.Option(
            help="any, single (one swizzle) or tma (a mode that TMA and wgmma know).",
            autocompletion=one_of("any", "single", "tma"),
        ),
    ] = "any",
    arch: ArchOption = "sm_90",
    as_json: JsonOption = False,
) -> int:
    """Find a layout of the same shape on which the accesses have no bank conflicts, with a certificate.

    layoutalg synthesize "(64,64):(64,1)" --dtype f16 --access ldmatrix.x4
    """
    from layoutalg.analysis import Access, analyze
    from layoutalg.dtype import dtype as element_type
    from layoutalg.synthesis import storage_layout, synthesize

    element = element_type(dtype)
    given, chosen_order = _tile(layout, order)
    plain = storage_layout(given.shape, chosen_order)
    specs = access or [f"ld.shared.b{element.bits}@row", f"ld.shared.b{element.bits}@col"]
    accesses = [Access.of(spec, plain, element) for spec in specs]
    with progress("searching", quiet=as_json):
        found = synthesize(
            given.shape,
            accesses,
            element=element,
            order=chosen_order,
            max_extra_bytes=extra_bytes,
            form=_form(form),
            arch=arch,
        )
        proof, checked = certificate_sentence(found)
        before = [analyze(given, a, arch) for a in accesses]
    if as_json:
        say_json(_fields(found, specs, before, proof, checked))
    else:
        _show(found, specs, before, proof)
    return 0 if found.layout is not None else INFEASIBLE


def certificate_sentence(found: Synthesis) -> tuple[str, bool]:
    """What is certified, and whether it was proved again, from layout and accesses alone.

    Raises MismatchError when the certificate does not hold.
    """
    from layoutalg.synthesis import check_certificate

    try:
        return f"Certificate, proved again without the search: {check_certificate(found)}.", True
    except UndecidedError as error:
        return f"Certificate ({found.certificate.reason}), not proved again: {error}.", False


def _show(found: Synthesis, specs: list[str], before: list[Report], proof: str) -> None:
    parts: list[str | Table] = []
    if found.layout is None:
        parts.append(_none(found))
    else:
        extra = f"{size_bytes(found.extra_bytes)} of extra memory" if found.extra_bytes else "no extra memory"
        parts += [str(found.layout), f"{_KINDS[found.kind]}, {extra}"]
    parts += ["", *report_tables(list(zip(specs, before, strict=True)), title="As given")]
    if found.layout is not None:
        parts += report_tables(list(zip(specs, found.reports, strict=True)), title="Found")
    parts += [proof, *report_notes([*before, *found.reports])]
    if found.alternatives:
        columns = ("alternative", "kind", "wavefronts", "ideal", "extra memory")
        others = (
            (str(a.layout), a.kind, count(a.total), count(a.ideal_total), size_bytes(a.extra_bytes))
            for a in found.alternatives
        )
        parts += ["", table("Other layouts", columns, others, left=2)]
    say(*parts)


def _none(found: Synthesis) -> str:
    """That no layout was found, and of which layouts alone it is said."""
    from layoutalg.synthesis import ruled_out

    none = f"No conflict-free layout of {to_text(found.shape)} {found.element} for these accesses"
    if found.certificate.classes == ("any-placement",):
        return f"{none}, wherever its words are placed."
    return f"{none} among {ruled_out(found)}. Nothing is said of others."


def _fields(found: Synthesis, specs: list[str], before: list[Report], proof: str, checked: bool) -> Payload:
    claim = found.certificate
    return (
        header("synthesize")
        | {"shape": to_text(found.shape), "order": found.order, "dtype": found.element.name}
        | {"arch": found.arch.name, "form": found.form, "max_extra_bytes": found.max_extra_bytes}
        | {"layout": None if found.layout is None else str(found.layout), "kind": found.kind}
        | {"extra_bytes": found.extra_bytes}
        | {"given": [{"access": s} | report_fields(r) for s, r in zip(specs, before, strict=True)]}
        | {"accesses": [{"access": s} | report_fields(r) for s, r in zip(specs, found.reports, strict=False)]}
        | {
            "certificate": {
                "conflict_free": claim.conflict_free,
                "reason": claim.reason,
                "classes": list(claim.classes),
                "kernel": list(claim.kernel),
                "footprints": [list(f) for f in claim.footprints],
                "clash": list(claim.clash),
                "nodes": claim.nodes,
                "period_bits": claim.period_bits,
                "reached": list(claim.reached),
                "checked": checked,
                "proof": proof,
            }
        }
        | {
            "alternatives": [
                {
                    "layout": str(a.layout),
                    "kind": a.kind,
                    "extra_bytes": a.extra_bytes,
                    "total": a.total,
                    "ideal_total": a.ideal_total,
                }
                for a in found.alternatives
            ]
        }
    )


def _tile(text: str, order: str | None) -> tuple[AnyLayout, Order]:
    """The layout that is asked about, and the storage order of the answer."""
    from layoutalg.synthesis import storage_layout

    wanted = None if order is None else _order(order)
    if ":" not in text:
        return storage_layout(parse_int_tuple(text), wanted or "row"), wanted or "row"
    given = read_layout(text)
    chosen = wanted or storage_order(given)
    if chosen is None:
        raise ShapeError(
            f"synthesize lays a tile out anew, and {given} is neither row nor column major without gaps; "
            f"say which with --order row or --order col"
        )
    return given, chosen


_FORMS: tuple[Form, ...] = ("any", "single", "tma")


def _order(name: str) -> Order:
    for known in ORDERS:
        if known == name:
            return known
    raise UnknownNameError("order", name, ORDERS)


def _form(name: str) -> Form:
    for known in _FORMS:
        if known == name:
            return known
    raise UnknownNameError("form", name, _FORMS)
