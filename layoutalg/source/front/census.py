"""The census: every subscript, dereference, asm statement and call in a CUDA text, from a second grammar.

The idea.  A compiler's front end drops a statement that has an error, with all that it reads.  A grammar that
knows no types reads every statement; what it finds in a function's body must be found again, by line and
column, among what the front end has kept, or be told as not read.

    sites        (line, column, kind, text) of what may touch memory, with the function that it stands in
    statement    the smallest statement around a place: what is taken out when it has an error
    function     the body around a place, and whether the device runs it

The grammar is tree-sitter's for CUDA; lines and columns count from 1, columns in bytes.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

LINES = 1 << 24
"""More lines than a text has: those of the k-th text count from k * LINES."""

KINDS = {
    "subscript_expression": "subscript",
    "pointer_expression": "dereference",
    "gnu_asm_expression": "asm",
    "asm_statement": "asm",
    "call_expression": "call",
    "field_expression": "arrow",
}
_STATEMENTS = frozenset(
    {
        "expression_statement", "declaration", "if_statement", "for_statement", "while_statement",
        "do_statement", "return_statement", "switch_statement", "for_range_loop", "static_assert_declaration",
        "alias_declaration", "using_declaration", "type_definition", "template_declaration",
        "function_definition", "namespace_definition", "struct_specifier", "class_specifier",
        "template_instantiation", "labeled_statement", "goto_statement", "attributed_statement",
        "enum_specifier", "namespace_alias_definition", "asm_statement", "ERROR",
    }
)  # fmt: skip
_UNEVALUATED = frozenset({"sizeof_expression", "alignof_expression", "decltype", "noexcept"})
"""Whose operands are not executed."""

_OPERATIONS = frozenset(
    {
        "argument_list", "assignment_expression", "binary_expression", "cast_expression", "condition_clause",
        "conditional_expression", "init_declarator", "initializer_list", "parenthesized_expression",
        "return_statement", "subscript_argument_list", "unary_expression",
    }
)  # fmt: skip
"""Parents of a name whose value is taken."""

_LEXED = re.compile(
    rb"//(?:\\\r?\n|[^\n])*|/\*.*?\*/"
    rb"|R\"([^ ()\\\t\v\f\n]{0,16})\(.*?\)\1\"|\"(?:\\.|[^\"\\\n])*\"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'"
    rb"|[{}]",
    re.DOTALL,
)
"""Comments, literals and braces: what a brace is paired by."""

_DIRECTIVE = re.compile(rb"^[ \t]*#(?:\\\r?\n|[^\n])*", re.MULTILINE)
_BRANCHES = re.compile(rb"^[ \t]*#[ \t]*(\w*)(?:\\\r?\n|[^\n])*|[{}]", re.MULTILINE)
_INSIDE = re.compile(rb"^[ \t]*#[ \t]*(?:ifn?def|if|elif|else|endif)\b(?:\\\r?\n|[^\n])*", re.MULTILINE)
_APART = frozenset({b";", b"{", b"}", b")", b":"})
"""Ends of code behind which a condition of the preprocessor stands between statements."""

_BEFORE_NAMESPACE = re.compile(rb"\b(?!(?:using|inline)\b)[A-Za-z_]\w*(?=\s+(?:inline\s+)?namespace\b)")
"""A macro in front of a namespace, which the grammar would take for a function of this name."""

_HEAD = re.compile(rb"\b__global__\b([^{};]*)([{;])")
_CALLED = re.compile(rb"\b(?!__launch_bounds__|__attribute__|alignas)(\w+)\s*(?:<[^<>]*>\s*)?\(")
"""The name in the head of a kernel, in front of its parameters."""

_NO_FUNCTION = frozenset({"namespace", "struct", "class", "union", "enum", "extern"})
"""Names of what the grammar takes for a function behind a macro that is not known."""

_DEVICE = re.compile(rb"\b__(?:global|device)__\b")
_NAMES = frozenset({"identifier", "field_identifier", "operator_name", "destructor_name"})
_PARAMETERS = "parameter_declaration", "optional_parameter_declaration"
_NO_ACCESS = frozenset(
    {
        "static_assert_declaration", "alias_declaration", "using_declaration", "type_definition",
        "namespace_alias_definition", "struct_specifier", "class_specifier", "enum_specifier",
        "template_declaration", "template_instantiation",
    }
)  # fmt: skip


class Site(NamedTuple):
    """A site that may touch memory: its start, kind, text (80 characters), and function.

    `names` are the identifiers in a call, but the name of what is called.
    """

    line: int
    column: int
    kind: str
    text: str
    function: str
    names: tuple[str, ...] = ()


class Choice(NamedTuple):
    """A branch of an `if constexpr`: the place of the `if`, its own start and end, and where it is taken."""

    place: tuple[int, int]
    start: tuple[int, int]
    end: tuple[int, int]
    taken: bool


class Function(NamedTuple):
    """A function's name, the bytes of its body with its braces, where its head starts and where what its
    declaration does not need does, the text of its head and of its parameters, whether the device runs it,
    and whether it is a kernel.  An `inner` one is a member of a struct within another; of one that is not
    `sure` the grammar and the pairs of braces disagree on where it ends."""

    name: str
    start: int
    end: int
    head: int
    stop: int
    words: str
    parameters: str
    device: bool = False
    kernel: bool = False
    inner: bool = False
    sure: bool = True


class Census:
    """The second reading of a text."""

    def __init__(self, text: bytes, before: int = 0) -> None:
        import tree_sitter_cuda
        from tree_sitter import Language, Parser

        self.text, self.before = text, before
        code, without_macros = bytearray(_LEXED.sub(_blank, text)), bytearray(text)
        for at in [*_alternatives(bytes(code))]:
            code[at] = without_macros[at] = ord(" ")
        self.code = _DIRECTIVE.sub(_blank, bytes(code))
        end, last = 0, b";"
        for line in _INSIDE.finditer(
            bytes(code)
        ):  # a condition in a head or a list: all of its branches stay
            last, end = self.code[end : line.start()].rstrip()[-1:] or last, line.end()
            if last not in _APART:
                without_macros[slice(*line.span())] = _blank(line)
        for macro in _BEFORE_NAMESPACE.finditer(self.code):
            without_macros[slice(*macro.span())] = _blank(macro)
        self.tree = Parser(Language(tree_sitter_cuda.language())).parse(bytes(without_macros))
        self._kinds: dict[str, list[Any]] = {}
        self._closing = dict(_pairs(self.code))
        for node in self._nodes(self.tree.root_node):
            self._kinds.setdefault(node.type, []).append(node)
        self.macros = {
            self.said(name) for node in self.nodes("preproc_function_def")
            if (name := node.child_by_field_name("name")) is not None
        }  # fmt: skip
        self.functions = [
            self._function(node) for node in self.nodes("function_definition") if not _is_statement(node)
        ]

    def _nodes(self, top: Any) -> Iterator[Any]:
        """Every node below one, in the order of the text."""
        waiting = [top]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.children)

    def _written(self, top: Any) -> Iterator[Any]:
        """Every node below one, but arguments of macros: what they become stands where the macro is."""
        waiting = [top]
        while waiting:
            node = waiting.pop()
            yield node
            if node.type == "call_expression":
                function = node.child_by_field_name("function")
                if function is not None and self.said(function) in self.macros:
                    continue
            if node.type in _UNEVALUATED:
                continue
            waiting += reversed(node.children)

    def node_at(self, start: int, end: int) -> Any:
        """The smallest node with these bytes in it."""
        return self.tree.root_node.descendant_for_byte_range(start, end)

    def nodes(self, kind: str) -> list[Any]:
        """Every node of a kind, in the order of the text."""
        return self._kinds.get(kind, [])

    def said(self, node: Any) -> str:
        """The text of a node."""
        return self.text[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def _function(self, node: Any) -> Function:
        body = node.child_by_field_name("body") or node
        name = node.child_by_field_name("declarator")
        outside = False  # a member that is defined outside of its class
        while name is not None and name.type not in _NAMES:
            outside = outside or name.type == "qualified_identifier"
            inner = name.child_by_field_name("declarator") or name.child_by_field_name("name")
            if inner is None:
                inner = name.children[-1] if name.type == "reference_declarator" else None
            name = inner
        top = node
        while top.parent is not None and top.parent.type in ("template_declaration", "linkage_specification"):
            top = top.parent
        before = top.prev_sibling
        while before is not None and self._runs_on(before):
            top, before = before, before.prev_sibling
        start, front = top.start_byte, self.code[top.start_byte : (name or body).start_byte]
        if b";" in front:  # the grammar takes a class that it misreads as the type of one of its members
            start += max(front.rfind(b";"), front.rfind(b"}")) + 1
            start += len(self.code[start:]) - len(self.code[start:].lstrip())
        head = self.text[start : body.start_byte].decode("utf-8", "replace")
        named = self.said(name) if name is not None else ""
        parameters = head.partition(named)[2] if named else head
        stop = next((c for c in node.children if c.type == "field_initializer_list"), body)
        sure = (
            self._closing.get(body.start_byte, body.end_byte) == body.end_byte
            and named not in _NO_FUNCTION
            and b"__global__" not in self.text[body.start_byte : body.end_byte]
        )
        stop_byte = start if outside and start == top.start_byte else stop.start_byte
        return Function(named, body.start_byte, body.end_byte, start, stop_byte, head, parameters, sure=sure)

    def _runs_on(self, node: Any) -> bool:
        """Whether something goes on with what follows: a macro that is not known, in front of a head."""
        directive = (
            node.parent.type.startswith("preproc") and node.start_point[0] == node.parent.start_point[0]
        )
        aside = directive or node.type == "comment" or node.type.startswith("preproc") or not node.is_named
        return not aside and self.text[node.end_byte - 1 : node.end_byte] not in (b";", b"}", b"\n")

    def mark(self, kernels: set[str], devices: set[str]) -> None:
        """Note which functions are kernels, and which the device runs, by words in their heads."""
        for i, f in enumerate(self.functions):
            words = set(re.findall(r"\w+", f.words))
            kernel = not words.isdisjoint(kernels)
            device = kernel or not words.isdisjoint(devices) or "DEVICE" in f.words
            hidden = f.name.startswith("~") and not device
            f = f._replace(kernel=kernel, device=device, name="" if hidden else f.name)
            end = self._closing.get(f.start, f.end)
            if (
                not (device or f.sure)
                and f.name not in _NO_FUNCTION
                and not _DEVICE.search(self.code, f.start, end)
            ):
                f = f._replace(end=end, sure=True)  # of the host's the pairs of braces decide
            self.functions[i] = f
        for i, f in enumerate(self.functions):
            around = [g for g in self.functions if g.start < f.start and f.end <= g.end]
            device = f.device or any(g.device for g in around)
            self.functions[i] = f._replace(device=device, inner=bool(around))

    @property
    def declared(self) -> list[tuple[int, int]]:
        """The bytes of the names of functions where these are declared."""
        names = (node.child_by_field_name("declarator") for node in self.nodes("function_declarator"))
        return [(n.start_byte, n.end_byte) for n in names if n is not None and n.type in _NAMES]

    def sites(self) -> list[Site]:
        """The sites in the bodies of functions that may touch memory."""
        sites: list[Site] = []
        for function in self.functions:
            for inner in self._written(self.node_at(function.start, function.end)):
                kind = KINDS.get(inner.type)
                if kind is None or not self._touches(inner, kind):
                    continue
                row, column = inner.start_point
                names = self.names_in(inner) if kind == "call" else ()
                sites.append(
                    Site(self.before + row + 1, column + 1, kind, self.said(inner)[:80], function.name, names)
                )
        return sites

    def lost_kernels(self) -> list[tuple[str, int]]:
        """The names and lines of kernels that the grammar does not find, as far as their heads show."""
        lost = []
        for head in _HEAD.finditer(self.code):
            if head[2] == b"{" and not any(f.head <= head.start() < f.start for f in self.functions):
                name = _CALLED.search(head[1])
                line = self.before + self.text.count(b"\n", 0, head.start()) + 1
                lost.append((name[1].decode() if name is not None else "", line))
        return lost

    def choices(self) -> list[Choice]:
        """The branches of each `if constexpr`, of which an instance has one."""
        found = []
        for node in self.nodes("if_statement"):
            if any(child.type == "constexpr" for child in node.children):
                for taken in ("consequence", "alternative"):
                    part = node.child_by_field_name(taken)
                    if part is not None:
                        place, start = self._place(node.start_point), self._place(part.start_point)
                        end = self._place(part.end_point)
                        found.append(Choice(place, start, end, taken == "consequence"))
        return found

    def _place(self, point: Any) -> tuple[int, int]:
        row, column = point
        return self.before + row + 1, column + 1

    def _touches(self, node: Any, kind: str) -> bool:
        """Whether a node of this kind may touch memory: `*p` and not `&p`, `p->x` and not `p.x`."""
        if kind == "dereference":
            return bool(node.children) and node.children[0].type == "*"
        if kind == "arrow":
            return any(child.type == "->" for child in node.children)
        if kind == "call":
            function = node.child_by_field_name("function")
            return function is not None and function.type != "primitive_type"
        return True

    def names_in(self, top: Any) -> tuple[str, ...]:
        """The identifiers below a node that may be variables: not what is called, declared or a member."""
        names: dict[str, None] = {}
        for node in self._nodes(top):
            above = node.parent
            argument = node.type == "type_identifier" and above.type == "parameter_declaration"
            if node.type != "identifier" and not argument:  # `T x(y);` may be a function of a type y
                continue
            field = next(
                (above.field_name_for_child(i) for i, c in enumerate(above.children) if c.id == node.id), ""
            )
            declares = field == "declarator" and above.type != "parameter_declaration"
            if not declares and field not in ("function", "name", "scope"):
                names[self.said(node)] = None
        return tuple(names)

    def names_between(self, start: int, end: int) -> tuple[str, ...]:
        """`names_in` of the statement of these bytes."""
        node = self.node_at(start, max(start, end - 1))
        return () if node is None or node.type in _NO_ACCESS else self.names_in(node)

    def is_operand(self, offset: int) -> bool:
        """Whether a name is used as a number is: not set, called, subscripted or a statement by itself."""
        node = self.node_at(offset, offset)
        above = node.parent
        if node.type != "identifier" or above is None or above.type not in _OPERATIONS:
            return False
        left = above.child_by_field_name("left") if above.type == "assignment_expression" else None
        if left is not None:
            return bool(left.id != node.id)
        while above is not None and above.type not in _STATEMENTS:
            function = above.child_by_field_name("function") if above.type == "call_expression" else None
            if above.type in _UNEVALUATED or (function is not None and self.said(function) in self.macros):
                return False
            above = above.parent
        return True

    def initialized(self, offset: int) -> tuple[int, int, int] | None:
        """The start of the declaration of one variable around a byte, its "=", and its end."""
        node = self.node_at(offset, offset)
        while node is not None and (node.type not in _STATEMENTS or self._heads(node)):
            node = node.parent
        if node is None or node.type != "declaration" or node.parent is None:
            return None
        parts = node.children_by_field_name("declarator")
        if len(parts) != 1 or parts[0].type != "init_declarator" or node.parent.type != "compound_statement":
            return None
        sign = next((c for c in parts[0].children if c.type == "="), None)
        if sign is None or offset < parts[0].start_byte:
            return None
        return node.start_byte, sign.start_byte, node.end_byte

    def template_arguments(self, offset: int) -> tuple[int, int] | None:
        """The bytes of the template arguments that start behind a byte, with their brackets."""
        node = outward(self.node_at(offset, offset + 1), "template_argument_list")
        return None if node is None or node.start_byte > offset else (node.start_byte, node.end_byte)

    def parameter(self, offset: int) -> tuple[int, int, str] | None:
        """The bytes of the parameter of a kernel around a byte, a comma with it, and the kernel's name."""
        node = outward(self.node_at(offset, offset), *_PARAMETERS)
        if node is None:
            return None
        start, end = node.start_byte, node.end_byte
        kernel = next((f for f in self.functions if f.kernel and f.head <= start and end <= f.start), None)
        if kernel is None:
            return None
        behind = re.compile(rb"\s*,").match(self.text, end)
        before = re.compile(rb",\s*\Z").search(self.text, kernel.head, start)
        if behind is not None:
            end = behind.end()
        elif before is not None:
            start = before.start()
        return start, end, kernel.name

    def statement(self, offset: int) -> tuple[int, int] | None:
        """The bytes of the smallest statement around a byte, its semicolon with it."""
        return self._enclosing(self.node_at(offset, offset))

    def statement_around(self, span: tuple[int, int]) -> tuple[int, int] | None:
        """The bytes of the smallest statement around another one."""
        node = self.node_at(*span)
        while node is not None and (node.start_byte, node.end_byte) == span:
            node = node.parent
        return self._enclosing(node)

    def _enclosing(self, node: Any) -> tuple[int, int] | None:
        while node is not None and (not self._stands(node) or self._heads(node)):
            node = node.parent
        while node is not None and node.parent is not None and node.parent.type == "template_declaration":
            node = node.parent
        if node is None or node.parent is None:
            return None
        return node.start_byte, node.end_byte

    def _stands(self, node: Any) -> bool:
        """Whether a node is a statement, or a member of which an object has no part."""
        static = (
            c for c in node.children if c.type == "storage_class_specifier" and self.said(c) == "static"
        )
        return node.type in _STATEMENTS or (node.type == "field_declaration" and any(static))

    def _heads(self, node: Any) -> bool:
        """A declaration in the head of a loop or a condition goes with it."""
        above = node.parent
        return node.type == "declaration" and above is not None and above.type in (
            "for_statement", "condition_clause", "init_statement")  # fmt: skip

    def function(self, offset: int) -> Function | None:
        """The innermost function whose body holds a byte."""
        around = [f for f in self.functions if f.start <= offset < f.end]
        return min(around, key=lambda f: f.end - f.start, default=None)


def outward(node: Any, *kinds: str) -> Any:
    """The innermost node of some kinds that is around a node, or is it; None where there is none."""
    while node is not None and node.type not in kinds:
        node = node.parent
    return node


def _blank(found: re.Match[bytes]) -> bytes:
    """Spaces in place of what is found, unless it is a brace."""
    return found[0] if found[0] in (b"{", b"}") else re.sub(rb"[^\n]", b" ", found[0])


def _pairs(code: bytes) -> Iterator[tuple[int, int]]:
    """The bytes at which braces open, and behind which they close, in a text without comments."""
    opened: list[int] = []
    for brace in re.finditer(rb"[{}]", code):
        if brace[0] == b"{":
            opened.append(brace.start())
        elif opened:
            yield opened.pop(), brace.end()


def _alternatives(code: bytes) -> Iterator[int]:
    """The braces that open or close something in branches of the preprocessor, behind the first that does so.

    A compiler has one of the branches: with the braces of all of them, nothing behind would be paired.
    """
    branches: list[list[list[int]]] = []  # of each open condition, of each branch the braces without another
    for found in _BRANCHES.finditer(code):
        if found[1] in (b"if", b"ifdef", b"ifndef"):
            branches.append([[]])
        elif branches and found[1] in (b"elif", b"else"):
            branches[-1].append([])
        elif branches and found[1] == b"endif":
            first, *others = branches.pop()
            kinds = [bytes(code[at] for at in each) for each in (first, *others)]
            if len({*kinds}) == 1:
                yield from itertools.chain(*others)
            if branches:
                branches[-1][-1] += first
        elif branches and found[0] in (b"{", b"}"):
            alone = branches[-1][-1]
            if found[0] == b"}" and alone and code[alone[-1]] == ord("{"):
                alone.pop()
            else:
                alone.append(found.start())


def _is_statement(node: Any) -> bool:
    """Whether what a grammar takes for a function is a statement of one, with a macro in front of it."""
    above = node.parent
    while above is not None and above.type != "field_declaration_list":
        if above.type == "compound_statement":
            return True
        above = above.parent
    return False
