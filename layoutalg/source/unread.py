"""What a kernel may touch and was not read: sites of the census, and statements that were taken out.

The idea.  What is known to touch no memory is listed, and everything else is told.  A call touches none where
its function takes numbers by value, or where nothing but numbers is in its arguments; a statement that was
taken out for an error touches none where it names nothing but numbers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from layoutalg.source.calls import SILENT
from layoutalg.source.front import Kernel, Parsed, Removed, Site, takes_values

_GIVEN = frozenset(
    {"threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "true", "false", "nullptr", "NULL"}
)
_TYPES = re.compile(r"(const_|static_|reinterpret_|dynamic_|bit_)cast\b|(unsigned |signed )?(int|char|short|long)$|"
                    r"(float|double|bool|half|__half|unsigned|size_t|u?int(8|16|32|64)_t|sizeof|alignof|decltype)$")  # fmt: skip


class Untold(NamedTuple):
    """An access that is not read: where, its op, and why."""

    line: int
    column: int
    op: str
    why: str


def untold(
    parsed: Parsed,
    kernel: Kernel,
    reached: Collection[str],
    seen: Collection[tuple[int, int]],
    told: Collection[tuple[int, int]],
) -> Iterator[Untold]:
    """The sites of a kernel that were not seen, then the statements of which nothing is told.

    `reached` are the functions that were read, `seen` the places; `told` those that are in the list.
    """
    names = _functions(parsed, kernel) if kernel.root is None else _read_functions(kernel, reached)
    numbers = _numbers(parsed, kernel)
    known = set(told)
    nodes = {
        (n.line, n.column) for f in kernel.functions.values() if f.body is not None for n in f.body.walk()
    }
    for site in parsed.sites:
        at = (site.line, site.column)
        if site.function not in names or at in seen or at in known:
            continue
        if site.kind == "call" and (harmless(callee(site.text)) or numbers.issuperset(site.names)):
            continue
        known.add(at)
        yield Untold(*at, _op(site), _why(parsed, kernel, site, at in nodes))
    lines = {line for line, _ in known}
    for removed in parsed.removed:
        if removed.function not in names or not lines.isdisjoint(range(removed.first, removed.last + 1)):
            continue
        if not numbers.issuperset(removed.names) and (removed.first, removed.at) not in known:
            known.add((removed.first, removed.at))
            yield Untold(removed.first, removed.at, "", _error(removed))


def callee(text: str) -> str:
    """What a call calls, of its text, without template arguments.

    >>> callee("cute::copy<int>(s, d)"), callee("t.load(p)"), callee("reinterpret_cast<float*>(s)")
    ('cute::copy', 't.load', 'reinterpret_cast')
    """
    return re.split(r"[<(]", text, maxsplit=1)[0].strip()


def harmless(name: str) -> bool:
    """Whether a function, a cast or a type of this name touches no memory that is not among its arguments."""
    return name in SILENT or takes_values(name) or _TYPES.match(name) is not None


def _functions(parsed: Parsed, kernel: Kernel) -> set[str]:
    """The kernel and the functions of the file that it calls, by name."""
    names = {kernel.name.rpartition("::")[2]}
    while True:
        called = {callee(s.text) for s in parsed.sites if s.kind == "call" and s.function in names}
        more = {name.rpartition("::")[2] for name in called} & parsed.functions
        if more <= names:
            return names
        names |= more


def _read_functions(kernel: Kernel, reached: Collection[str]) -> set[str]:
    """The functions that were read, and the destructors of objects, which are not."""
    kinds = {d.type.name.rpartition("::")[2] for d in kernel.declarations.values() if d.type.kind == "record"}
    destructors = {f"~{re.split('<', kind)[0].removeprefix('const ').strip()}" for kind in kinds}
    return {kernel.name.rpartition("::")[2], *reached, *destructors}


def _numbers(parsed: Parsed, kernel: Kernel) -> set[str]:
    """The names that hold numbers, wherever they are declared, or may be given as numbers."""
    plain, others = set(parsed.numbers), set()
    for declared in kernel.declarations.values():
        number = declared.type.kind in ("int", "float") and declared.space == "local"
        (plain if number else others).add(declared.name)
    return (plain - others) | _GIVEN | set(parsed.unknown) | set(parsed.defined)


def _op(site: Site) -> str:
    return f"call {site.text.partition('(')[0][:40]}" if site.kind == "call" else ""


def _why(parsed: Parsed, kernel: Kernel, site: Site, in_tree: bool) -> str:
    name = callee(site.text)
    own = name.rpartition("::")[2] in parsed.functions
    if kernel.root is None:
        return f"what {name} does is not in the file" if site.kind == "call" and not own else kernel.why
    removed = next((r for r in parsed.removed if r.first <= site.line <= r.last), None)
    if removed is not None:
        return _error(removed)
    if in_tree:
        return "it is never reached"
    if site.function.startswith("~"):
        return "a destructor is not read"
    return "it is left out by the preprocessor, or of another instance of the template"


def _error(removed: Removed) -> str:
    return f"the statement has an error: line {removed.line}, column {removed.column}: {removed.why}"
