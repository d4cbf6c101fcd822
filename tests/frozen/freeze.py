"""What programs and people rely on, frozen: public names with their signatures, and the texts of errors.

    python -m tests.frozen.freeze            the differences between what is stored and what is there now
    python -m tests.frozen.freeze --write    store what is there now

The two files are to be read as a diff in review, they are not an equality: only the names that STABLE lists
have to stay, with signatures that take every call they took, and every call of the table has to be refused
by an error of the same class (its text may become better).  `tests/test_freeze.py` checks that much.

`public_names.json`: the names of each public module, the command's options and the properties of its JSON.
`error_texts.json`: calls as Python expressions and command lines as lists of words, with what refuses them.
A new case is a record with "call" or "command" alone; --write fills in the rest.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from tests.command import run

DATA = Path(__file__).parents[1] / "data"
NAMES, TEXTS = DATA / "public_names.json", DATA / "error_texts.json"
MODULES = (
    *("algebra", "analysis", "arch", "atoms", "decide", "draw", "f2", "indexing", "kernels", "layout"),
    *("legality", "model", "notation", "ops", "reading", "registers", "symbolic", "synthesis", "testing"),
)
"""Public parts of layoutalg beside its root."""

STABLE: Mapping[str, tuple[str, ...]] = {
    "layoutalg": (
        *("Layout", "Swizzle", "ComposedLayout", "LinearLayout", "parse", "LayoutAlgError"),
        *("blocked_product", "coalesce", "complement", "composition", "concat", "cosize", "crd2idx"),
        *("downcast", "flat_divide", "flatten", "footprint", "group", "idx2crd", "image_size"),
        *("is_bijective", "is_injective", "left_inverse", "local_partition", "local_tile"),
        *("logical_divide", "logical_product", "make_identity_layout", "make_layout"),
        *("make_layout_like", "make_ordered_layout", "max_common_vector", "raked_product", "rank"),
        *("recast_layout", "right_inverse", "same_function", "select", "size", "slice_"),
        *("slice_and_offset", "tile_to_shape", "tiled_divide", "upcast", "zipped_divide"),
        *("zipped_product", "find_collision", "make_tiled_mma", "make_tiled_copy"),
    ),
    "layoutalg.algebra": (
        *("dice", "domain_offset", "flat_product", "max_alignment", "max_common_layout", "nullspace"),
        *("tiled_product",),
    ),
    "layoutalg.atoms": ("TiledMMA", "TiledCopy", "MMA_ATOMS", "COPY_ATOMS"),
    "layoutalg.decide": ("is_contiguous", "is_surjective", "overlap", "find_difference"),
    "layoutalg.layout": (
        *("append", "ceil_div", "compatible", "congruent", "crd2crd", "depth", "filter"),
        *("filter_zeros", "make_basis_like", "prepend", "product", "replace", "shape_div", "sort"),
        *("unflatten", "weakly_congruent"),
    ),
    "layoutalg.ops": ("permute", "transpose", "relayout", "reduce", "softmax", "layer_norm"),
    "layoutalg.analysis": ("Access", "GlobalReport", "SharedReport", "analyze", "sectors", "wavefronts"),
    "layoutalg.arch": ("ARCHS", "COPY_ATOMS", "MMA_ATOMS", "SMEM_ATOMS"),
    "layoutalg.synthesis": ("Synthesis", "check_certificate", "synthesize"),
    "layoutalg.testing": (
        *("check_bijective", "check_coalesced", "check_conflict_free", "check_family"),
        *("check_index_function", "check_same_function"),
    ),
}
"""Names that programs may count on: they stay, and take what they took."""

Record = dict[str, Any]


# --- names -----------------------------------------------------------------------------------------------


def described(value: Any) -> Record:
    """Kind of a public value, its signature where it has one, a class's public attributes and methods."""
    if isinstance(value, Mapping) and not inspect.isclass(value):
        return {"kind": type(value).__name__, "keys": sorted(map(str, value))}
    if not callable(value):
        return {"kind": type(value).__name__}
    signature = signature_of(value)
    out: Record = {
        "kind": "class" if inspect.isclass(value) else "function",
        "signature": text_of(signature),
    }
    if signature is not None:
        out["takes"] = taken(signature)
    if inspect.isclass(value):
        out["bases"] = [base.__name__ for base in value.__bases__ if base is not object]
        out["members"] = {
            name: text_of(signature_of(member))
            for owner in reversed(value.__mro__)
            if owner.__module__.startswith("layoutalg")
            for name, member in sorted(vars(owner).items())
            if not name.startswith("_")
        }
    return out


def text_of(signature: inspect.Signature | None) -> str:
    """A signature as text, without the addresses of functions, which every process has anew."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(signature or ""))


def taken(signature: inspect.Signature) -> list[str]:
    """Names of parameters, `=` after those with a default, `*` before those that are given by name alone."""
    out: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind in {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
            continue
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in out:
            out.append("*")
        out.append(parameter.name + "=" * (parameter.default is not inspect.Parameter.empty))
    return out


def signature_of(value: Any) -> inspect.Signature | None:
    """The signature, or None for what cannot be called or does not say."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if not callable(value):
        return None
    try:
        return inspect.signature(value)
    except (TypeError, ValueError):
        return None


def public(module_name: str) -> dict[str, Any]:
    """The public names of a module; a strategy, which needs hypothesis, is named and not loaded."""
    module = importlib.import_module(module_name)
    out = {}
    for name in sorted(module.__all__):
        strategy = module_name == "layoutalg.testing" and name not in {*STABLE[module_name], *vars(module)}
        out[name] = {"kind": "needs hypothesis"} if strategy else described(getattr(module, name))
        if module_name == "layoutalg":
            out[name].pop("keys", None)  # tables of layoutalg.arch
    return out


def options() -> dict[str, list[str]]:
    """Every sub-command of the command, with its options."""
    from layoutalg.cli.parameters import parser_of
    from layoutalg.cli.table import COMMANDS

    known = {name: parser_of(name)._actions[1:] for name in sorted(COMMANDS)}  # the first is --help
    return {
        name: sorted(text for action in known[name] for text in action.option_strings or (action.dest,))
        for name in known
    }


def properties(node: Any, path: str = "") -> Iterator[str]:
    """Paths of the properties that a JSON schema names."""
    if isinstance(node, dict):
        for name, value in node.get("properties", {}).items():
            yield f"{path}.{name}"
            yield from properties(value, f"{path}.{name}")
        for name, value in node.items():
            if name != "properties":
                yield from properties(value, f"{path}/{name}" if name not in {"items", "allOf"} else path)
    elif isinstance(node, list):
        for value in node:
            yield from properties(value, path)


def names_now() -> Record:
    """What stands in public_names.json."""
    schema = json.loads((resources.files("layoutalg") / "schema" / "output.json").read_text(encoding="utf-8"))
    return {
        "modules": {name: public(name) for name in ("layoutalg", *(f"layoutalg.{part}" for part in MODULES))},
        "command": options(),
        "json": sorted(set(properties(schema))),
    }


# --- texts -----------------------------------------------------------------------------------------------


def scope() -> dict[str, Any]:
    """What the calls of the table may name."""
    import numpy
    import sympy

    import layoutalg as la
    from layoutalg import (
        analysis,
        arch,
        atoms,
        draw,
        kernels,
        legality,
        model,
        registers,
        symbolic,
        synthesis,
        testing,
    )
    from tests.frozen import kernel_adapter

    rooms = (analysis, arch, atoms, draw, kernels, legality, model, registers, symbolic, synthesis, testing)
    parts = (*rooms, numpy)
    return {
        **{part.__name__.rpartition(".")[2]: part for part in parts},
        "la": la,
        "L": la.Layout,
        "parse": la.parse,
        "n": sympy.Symbol("n", positive=True, integer=True),
        **{name: getattr(kernel_adapter, name) for name in ("problem", "plan", "configured")},
        "PRODUCT": {"m": 256, "n": 256, "k": 512, "dtype": "f16"},
        "ARRAY": numpy.zeros((3, 3)),
        "ROWS": numpy.zeros((4, 6), "f4"),
    }


def refusal(record: Record, names: dict[str, Any]) -> Record:
    """The record with the class and the text of what refuses it now, "nothing" where it is answered."""
    if "command" in record:
        result = run(*record["command"])
        return {"command": record["command"], "exit": result.exit_code, "text": result.stderr.rstrip("\n")}
    try:
        value = eval(record["call"], dict(names))  # noqa: S307
    except Exception as error:  # noqa: BLE001
        text = re.sub(r"/\S*/layoutalg-\w+/", ".../", str(error))  # folders of this run
        return {"call": record["call"], "error": type(error).__name__, "text": text}
    return {"call": record["call"], "error": "nothing", "text": repr(value)[:200]}


def stored(path: Path) -> Any:
    """What a file holds."""
    return json.loads(path.read_text(encoding="utf-8"))


def texts_now() -> list[Record]:
    """What stands in error_texts.json."""
    names = scope()
    return [refusal(record, names) for record in stored(TEXTS)]


# --- the program -----------------------------------------------------------------------------------------


def written(value: Any, indent: str = "") -> str:
    """As it stands in a file: one line per name or case, so that a diff can be read."""
    if isinstance(value, list) and indent == "":
        return "[\n" + ",\n".join(json.dumps(record, ensure_ascii=False) for record in value) + "\n]\n"
    if isinstance(value, dict) and len(indent) < 3:
        rows = (f"{indent} {json.dumps(name)}: {written(one, indent + ' ')}" for name, one in value.items())
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}" + "\n" * (indent == "")
    return json.dumps(value, ensure_ascii=False)


def main(words: list[str] | None = None) -> None:
    """Print the differences, or write the files."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.frozen.freeze", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--write", action="store_true", help="store what is there now")
    write = parser.parse_args(words).write
    for path, value in ((NAMES, names_now()), (TEXTS, texts_now())):
        now = written(value)
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        if write:
            path.write_text(now, encoding="utf-8")
        else:
            difference = difflib.unified_diff(
                before.splitlines(), now.splitlines(), f"stored {path.name}", "now", n=0, lineterm=""
            )
            print("\n".join(difference) or f"{path.name}: no difference")


if __name__ == "__main__":
    main()
