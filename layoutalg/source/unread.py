"""Accesses that may be made and were not read: calls without a body, unknown forms, sites of the census.

The idea.  The forms that touch no memory are listed here, and everything else is reported.  A call touches
none where its function is one of CUDA's that takes numbers by value; other calls with only numbers in
their arguments list no access, and are reported as parts that are not followed.  An object may hold a
pointer unless its members are seen to be numbers.  A statement that was taken out for an error touches
no memory where it names only numbers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from layoutalg.errors import UnsupportedError
from layoutalg.source.front import Function, Kernel, Node, Parsed, Removed, Site, Type, takes_values
from layoutalg.source.machine import State
from layoutalg.source.values import Address, Unknown, Value

if TYPE_CHECKING:
    from layoutalg.source.rows import KernelReading

SILENT = frozenset(
    {
        "__pipeline_commit", "__pipeline_wait_prior", "__syncthreads", "__syncwarp", "__threadfence",
        "__threadfence_block", "__builtin_assume", "__isConstant", "__isGlobal", "__isLocal", "__isShared",
        "__trap", "__nanosleep", "assert", "clock", "clock64", "fill_fragment", "mma_sync", "printf",
    }
)  # fmt: skip
"""Functions that touch no memory that is counted."""

_GIVEN = frozenset(
    {"threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "true", "false", "nullptr", "NULL"}
)
_TYPES = re.compile(
    r"((const_|static_|reinterpret_|dynamic_|bit_)cast|(unsigned |signed )?(int|char|short|long)|float|"
    r"double|bool|half|__half|unsigned|size_t|u?int(8|16|32|64)_t|sizeof|alignof|decltype)\Z"
)


_FORMS = {
    "CXX_FOR_RANGE_STMT": "range-based for", "CXX_NEW_EXPR": "new", "CXX_DELETE_EXPR": "delete",
    "StmtExpr": "statement expression", "CXX_TRY_STMT": "try", "CXX_CATCH_STMT": "catch",
}  # fmt: skip
"""Forms that are not read, by libclang's names, and what they are called."""


_NUMBERS = frozenset(
    {"__nv_bfloat16", "__nv_bfloat162", "__half2", "__nv_fp8_e4m3", "__nv_fp8_e5m2", "layoutalg_any", "dim3"}
)
"""Records of CUDA's headers, and of a call that is not known, whose operators take and give numbers."""


def is_number(given: Type | None) -> bool:
    """Whether a type is a number, or one of CUDA's records of numbers."""
    return given is not None and (
        given.kind in ("int", "float") or given.name.removeprefix("const ") in _NUMBERS
    )


def may_reach(given: Type) -> bool:
    """Whether an object of a record's type may hold a pointer: its members are not all seen to be numbers."""
    if given.kind == "array" and given.to is not None:
        return may_reach(given.to)
    if given.kind != "record":
        return False
    if "cooperative_groups" in given.name:
        return False
    if "layoutalg_any" in given.name or "(lambda" in given.name:
        return True
    end = max((at + kind.bytes for _, at, kind in given.fields), default=1)
    hidden = given.bytes > -(-end // given.align) * given.align  # members of a base
    return hidden or any(
        kind.kind in ("pointer", "reference", "other", "void") or may_reach(kind)
        for _, _, kind in given.fields
    )


class Unread(State):
    """The reports of forms and calls that the reader does not read, and what a text may do or set."""

    def handed(self, child: Node, name: str) -> Value:
        """The value of an argument; of a place in memory that is handed on as a reference, its address."""
        if child.kind not in ("name", "subscript", "member", "unary") or takes_values(name):
            return self.value(child)
        if child.kind == "unary" and child.value != "*":
            return self.value(child)
        place = self.place(child)
        if place.address is not None and place.address.array.space != "local":
            return place.address
        return self.load(child, place)

    def reaching(self, name: str, given: list[Node], found: list[Value]) -> str | None:
        """The array, or "", that a function may reach through its arguments; None where they are numbers."""
        for child, value in zip(given, found, strict=True):
            inner = child.children[0] if child.kind == "cast" and child.children else None
            if child.kind == "text" or (inner is not None and inner.kind == "text"):
                continue
            kind = child.type
            if isinstance(value, Address) and value.array.space != "local":
                return value.array.name
            to = kind.to if kind is not None and kind.kind == "pointer" else None
            if to is not None and (
                isinstance(value, Unknown) or (isinstance(value, Address) and may_reach(to))
            ):
                return ""
            if name.startswith("operator") and is_number(kind):
                continue
            if kind is not None and not takes_values(name) and may_reach(kind):
                return ""
        return None

    def unlisted(self, node: Node) -> None:
        """Report a form that is not known, unless it names only numbers in registers."""
        leaf = not node.children and node.type is not None and node.type.kind not in ("other", "void")
        if leaf or self.names_memory(node):
            self.fence()
            form = _FORMS.get(str(node.value), "")
            self.refuse(node, form, "", f"{form or node.value or node.kind} is not read")

    def names_memory(self, node: Node) -> bool:
        """Whether memory, a pointer, an object that may hold one, or a function is named below a node."""
        for inner in node.walk():
            if inner.kind in ("call", "asm", "this"):
                return True
            if inner.kind == "construct" and self.touches_memory(self.kernel.functions.get(inner.value)):
                return True
            if inner.kind == "name":
                declared = self.declaration(inner.value)
                kind = declared.type
                if (
                    declared.space != "local"
                    or kind.kind in ("pointer", "reference", "other")
                    or may_reach(kind)
                ):
                    return True
        return False

    def touches_memory(self, constructor: Function | None) -> bool:
        """Whether a constructor's body or initializers name memory, a pointer or a function."""
        if constructor is None or constructor.body is None:
            return False
        return self.names_memory(constructor.body) or any(
            inner.kind in ("other", "subscript") or (inner.kind, inner.value) == ("unary", "*")
            for inner in constructor.body.walk()
        )

    def acts(self, top: Node) -> bool:
        """True where an expression may load, store or set something."""
        return any(
            n.kind not in ("const", "name", "cast", "binary", "cond", "member", "unary")
            or (n.kind == "name" and self.declaration(n.value).space != "local")
            or (n.kind == "member" and any(c.type and c.type.kind == "pointer" for c in n.children if c))
            or (n.kind == "unary" and n.value not in ("+", "-", "~", "!"))
            for n in top.walk()
        )

    def changed_in(self, top: Node, keys: dict[int, None], entered: set[int]) -> None:
        """Add the variables that a part of the text sets, and the functions that it calls."""
        for node in top.walk():
            targets: list[Node | None] = []
            if node.kind == "assign" or (
                node.kind == "unary" and node.value in ("x++", "x--", "++x", "--x", "&")
            ):
                targets = [node.children[0]]
            elif node.kind == "asm" and node.value is not None:
                targets = list(node.children[: node.value["outputs"]])
            elif node.kind == "call":
                number = node.value["function"]
                function = self.kernel.functions.get(number)
                if function is not None and function.body is not None and number not in entered:
                    entered.add(number)
                    self.changed_in(function.body, keys, entered)
            elif node.kind == "var" and node.children and node.children[0] is not None:
                declared = self.declaration(node.value[0])
                if declared.type.kind == "reference":
                    targets = [node.children[0]]
            for target in targets:
                key = self._root(target)
                if key is not None:
                    if key in self.references:
                        place = self.references[key]
                        while place.base is not None:
                            place = place.base
                        if place.variable >= 0:
                            keys[place.variable] = None
                        elif place.address is not None and place.address.array.space == "local":
                            keys[place.address.array.key] = None
                    else:
                        keys[key] = None

    def _root(self, node: Node | None) -> int | None:
        """The variable that an expression sets, through members, elements and casts; None for memory."""
        through = False
        while node is not None:
            if node.kind == "name":
                kind = self.declaration(node.value).type.kind
                return None if through and kind == "pointer" else int(node.value)
            part, address = node.kind in ("subscript", "member"), node.kind == "unary" and node.value in "&*"
            held = part and node.type is not None and node.type.kind == "pointer"
            if not (part or address or node.kind == "cast") or not node.children or (through and held):
                return None
            through = through or node.kind == "subscript" or (address and node.value == "*")
            node = node.children[0]
        return None


# --- the census -----------------------------------------------------------------------------------------


LEFT_OUT = "the preprocessor leaves it out, or no call that is followed executes it"
"""The reason why an access that the front end lacks is not read."""

NEVER_REACHED = "it is never reached"
"""Why an access has no counts where no thread comes to it: nothing is left to be read."""


def untold(
    parsed: Parsed,
    kernel: Kernel,
    reached: Collection[tuple[str, tuple[int, int]]],
    seen: Collection[tuple[int, int]],
    told: Collection[tuple[int, int]],
) -> Iterator[tuple[int, int, str, str, str]]:
    """(line, column, op, why, function) of the sites of a kernel that were not seen, then of the statements
    without a reported access.

    `reached` are the functions that were read, with their first and last lines, `seen` the places that were
    read, and `told` the places that are in the list.
    """
    lines_of: dict[str, list[tuple[int, int]]] = {}
    for name, extent in reached:
        lines_of.setdefault(name, []).append(extent)
    names = _functions(parsed, kernel) if kernel.root is None else _read_functions(kernel, lines_of)
    numbers = _numbers(parsed, kernel)
    known = set(told)
    nodes: dict[tuple[int, int], list[Node]] = {}
    for function in kernel.functions.values():
        for node in function.nodes():
            nodes.setdefault((node.line, node.column), []).append(node)
    lacking = [c for c in parsed.choices if _is_lacking(nodes.get(c.place, ()), c.taken)]
    for site in parsed.sites:
        at = (site.line, site.column)
        if site.function not in names or at in seen or at in known:
            continue
        around = lines_of.get(site.function)  # a name may be that of several functions
        if around is not None and not any(first <= site.line <= last for first, last in around):
            continue
        if site.kind == "call" and (
            harmless(callee(site.text))
            or numbers.issuperset(site.names)
            or is_silent(parsed, callee(site.text))
        ):
            continue
        known.add(at)
        never = at in nodes or any(c.start <= at < c.end for c in lacking)
        never = never or any(first <= site.line <= last for first, last in parsed.absent)
        yield *at, _op(site), _why(parsed, kernel, site, never), site.function
    lines = {line for line, _ in known}
    for removed in parsed.removed:
        if removed.function not in names or not lines.isdisjoint(range(removed.first, removed.last + 1)):
            continue
        if not numbers.issuperset(removed.names) and (removed.first, removed.at) not in known:
            known.add((removed.first, removed.at))
            yield removed.first, removed.at, "", _error(parsed, removed), removed.function


def _is_lacking(nodes: Collection[Node], taken: bool) -> bool:
    """Whether no instance of an `if constexpr` has its branch for a condition that holds, or does not."""
    values = [node.value for node in nodes if node.kind == "if"]
    return bool(values) and all(value is not None and bool(value) != taken for value in values)


def callee(text: str) -> str:
    """The name that a call calls, of its text, without template arguments.

    >>> callee("cute::copy<int>(s, d)"), callee("t.load(p)"), callee("reinterpret_cast<float*>(s)")
    ('cute::copy', 't.load', 'reinterpret_cast')
    """
    return re.split(r"[<(]", text, maxsplit=1)[0].strip()


def harmless(name: str) -> bool:
    """Whether a function, a cast or a type of this name touches no memory that is not among its arguments."""
    return name in SILENT or takes_values(name) or _TYPES.match(name) is not None


def is_silent(parsed: Parsed, name: str) -> bool:
    """Whether a function is one of CuTe's that touches no memory, in a text that includes CuTe."""
    last = re.split(r"::|\.|->", name)[-1]
    return last in parsed.silent and last not in parsed.functions


def _functions(parsed: Parsed, kernel: Kernel) -> set[str]:
    """The kernel and the functions of the file that it calls, by name."""
    names = {kernel.name.rpartition("::")[2]}
    while True:
        callees = {callee(s.text) for s in parsed.sites if s.kind == "call" and s.function in names}
        more = {name.rpartition("::")[2] for name in callees} & parsed.functions
        if more <= names:
            return names
        names |= more


def _read_functions(kernel: Kernel, reached: Collection[str]) -> set[str]:
    """The functions that were read, and the destructors of objects, which are not."""
    destructors = {
        destructor(name) for kind in objects(kernel) for name in (kind.name, *kind.bases, *kind.others)
    }
    return {kernel.name.rpartition("::")[2], *reached, *destructors}


def destructor(name: str) -> str:
    """The name of the destructor of a record of this name."""
    return f"~{re.split('<', name.removeprefix('const '))[0].rpartition('::')[2].strip()}"


def objects(kernel: Kernel) -> list[Type]:
    """The records of which a kernel may have an object: variables, temporaries, parts of both."""
    waiting = [d.type for d in kernel.declarations.values()]
    for function in kernel.functions.values():
        made = (n.type for n in function.nodes() if n.kind in ("construct", "call", "init"))
        waiting += [kind for kind in made if kind is not None]
    records: dict[str, Type] = {}
    while waiting:
        kind = waiting.pop()
        while kind.kind == "array" and kind.to is not None:
            kind = kind.to
        name = kind.name.removeprefix("const ")
        if kind.kind == "record" and name not in records:
            records[name] = kind
            waiting += [part for _, _, part in kind.fields]
    return list(records.values())


def _numbers(parsed: Parsed, kernel: Kernel) -> set[str]:
    """The names that hold numbers, wherever they are declared, or may be given as numbers."""
    plain: set[str] = set(parsed.numbers)
    others: set[str] = set()
    for declared in kernel.declarations.values():
        number = declared.type.kind in ("int", "float") and declared.space == "local"
        (plain if number else others).add(declared.name)
    return (plain - others) | _GIVEN | set(parsed.unknown) | set(parsed.defined)


def _op(site: Site) -> str:
    return f"call {site.text.partition('(')[0][:40]}" if site.kind == "call" else ""


def _why(parsed: Parsed, kernel: Kernel, site: Site, never: bool) -> str:
    if kernel.root is None:
        return kernel.why
    removed = next((r for r in parsed.removed if r.first <= site.line <= r.last), None)
    if removed is not None:
        return _error(parsed, removed)
    if site.function.startswith("~"):
        return f"when {site.function}() is executed is not followed"
    if never:
        return NEVER_REACHED
    return LEFT_OUT


def _error(parsed: Parsed, removed: Removed) -> str:
    return f"the statement has an error: {parsed.removal(removed)}"


def not_followed(node: Node) -> str:
    """A node that may touch memory, or change what is executed, in ways that its parts do not show; or ""."""
    if node.kind == "call" and not node.value["name"] and not node.value.get("through"):
        return "a call through a pointer"
    plain = node.kind != "other" or (
        node.value.isidentifier() and not node.value.endswith(("_EXPR", "_STMT"))
    )
    return "" if plain else f"a part that the reader has no form for ({node.value})"


def foreign(kernel: Kernel, node: Node) -> str:
    """The function that a node calls where it is neither in the text nor in CUDA's headers; or ""."""
    if node.kind not in ("call", "construct"):
        return ""
    number = node.value if node.kind == "construct" else node.value["function"]
    function = kernel.functions.get(number)
    if function is None or not function.foreign:
        return ""
    known = function.library and (
        takes_values(function.name)
        or function.name in SILENT
        or function.name in ("memcpy", "memmove", "memset")
    )
    return "" if known else function.name


MOST_TOLD = 8
"""Accesses that a refusal names."""


def refuse_unread(reading: KernelReading) -> None:
    """Raise UnsupportedError where nothing of a source could be read, saying what would help.

    An access that is never reached is known: it costs nothing.
    """
    memory = reading.memory
    unknown = [a for a in memory if not a.read and a.reached]
    if any(a.read for a in memory) or not (unknown or (reading.unfollowed and not memory)):
        return
    hint = f"; --set is wanted for {', '.join(reading.wanted)}" if reading.wanted else ""
    places: dict[str, list[str]] = {}
    for a in unknown[:MOST_TOLD]:
        places.setdefault(f"{f'{a.op}: ' if a.op else ''}{a.why}", []).append(f"{a.place}, column {a.column}")
    lines = [f"{' and '.join(of)}: {why}" for why, of in places.items()]
    if not memory:
        parts = "; ".join(f"{part.place}: {part.why}" for part in reading.unfollowed[:MOST_TOLD])
        raise UnsupportedError(f"no access could be read: {parts}{hint}")
    more = f"; and {len(unknown) - MOST_TOLD} more" if len(unknown) > MOST_TOLD else ""
    raise UnsupportedError(f"none of {len(memory)} accesses could be read: {'; '.join(lines)}{more}{hint}")
