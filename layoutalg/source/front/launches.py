"""Launches: the template arguments and the block with which a text uses a kernel, and what these name.

The idea.  A kernel is read as an instance that the text itself makes.  Its arguments may be constants of the
function that launches it: the declarations in front of the launch go with them.  They may be template
parameters of that function, whose own uses then say what they are; what no use says is open.  A macro that
launches, or is handed a launch, is written out where it is used.

    written_out  the texts with such macros written out
    instances    Instance of each use of a kernel, in the order of the texts
    Templates    the instance that is read; of open names it takes the first values that make one

The block of a launch, and the types of what it hands on, come from the same function: declarations of
variables that are set once are constants there, those of others have a type alone.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from clang import cindex

from layoutalg.source.front.census import Census, Function
from layoutalg.source.front.cursors import qualified

_K = cindex.CursorKind

DEPTH = 3
"""Functions around a launch whose template parameters are followed, and macros in macros."""

ROUNDS = 6
"""Times that names which are declared nowhere are declared."""

_INNER = "namespace layoutalg_inner { "
"""The scope of the template parameters of a function."""

MOST_USES = 64
"""Uses of a function that are followed."""

MOST_WRITTEN = 1 << 18
"""The most characters that a macro may become."""

MOST_TRIED = 24
"""Uses of a template of which the first is read that makes an instance."""

MOST_OPENED = 4
"""Uses of a template whose open names get values."""

MOST_CHANGED = 64
"""Values of an open name that are tried in one parse."""

UNKNOWN = re.compile(r"(?:use of undeclared identifier|unknown type name|no template named) '(\w+)'")

_DECLARED = re.compile(r"(using|(?:static\s+|constexpr\s+|const\s+)+([\w\s:]+?))\s+(\w+)\s*=\s*([^;{}]*);")
_SPECIAL = re.compile(r"template\s*<\s*>[^;{}]*\Z")
_PARAMETER = re.compile(r"\s*(?P<kind>[\w\s:]+?)\s*\b(?P<name>\w+)\s*(?:=.*)?\Z", re.DOTALL)
_CONSTANT = re.compile(r"(?:static\s+)?const|using|typedef|enum")
_DEFINE = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(((?:[^()\n\\]|\\\r?\n)*)\)((?:\\\r?\n|[^\n])*)", re.MULTILINE
)
_CALL = re.compile(r"\b([A-Za-z_]\w*)[ \t]*\(")
_COMMENT = re.compile(r"//(?:\\\r?\n|[^\n])*|/\*.*?\*/|(\"(?:\\.|[^\"\\\n])*\")", re.DOTALL)
_BY_FUNCTION = re.compile(r"\bcuda(?:Launch(?:Cooperative)?Kernel(Ex|ExC)?)\s*(?:<[^<>;]*>)?\s*\(")
_SETS = r"\bNAME\b(?:\.\w+)?\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|(?:\+\+|--|&)\s*NAME\b|\bNAME\s*(?:\+\+|--)"
"""Text that sets a variable, or takes its address."""

_TYPES = ("float", "__half", "int", "double", "unsigned char")
_NUMBERS = ("32", "128", "1", "64", "4", "8", "16", "256", "2")
_INTEGERS = frozenset(
    {"const", "int", "unsigned", "signed", "long", "short", "char", "size_t", "auto", "bool"}
)
_INTEGERS |= {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
MOST_OPTIONS = 24
"""Values that are tried for an open template parameter."""

_CLOSED_BY = {"(": ")", "[": "]", "{": "}", "<": ">"}
_WORD = re.compile(r"[A-Za-z_]\w*")
_DECLARATIONS = frozenset({"declaration", "alias_declaration", "type_definition", "enum_specifier"})


class Instance(NamedTuple):
    """A use of a kernel in a line: its template arguments, and declarations of what they name.

    `open` are the (kind, name) of template parameters around it that no use gives a value, `bound`
    declares the others.  Of a launch, `shape` are the grid and the block, `values` the arguments,
    `parameters` those of the function around it; `constants` declares what the shape names, `variables` what
    the arguments do.
    """

    arguments: tuple[str, ...]
    declared: str = ""
    bound: str = ""
    open: tuple[tuple[str, str], ...] = ()
    line: int = 0
    shape: tuple[str, ...] = ()
    values: str = ""
    parameters: str = ""
    constants: str = ""
    variables: str = ""

    def outside(self, name: str) -> str:
        """What stands around a function that uses a kernel of this name, and is closed by `ends`."""
        spaces = name.split("::")[:-1]
        using = (f"using namespace {'::'.join(spaces[: n + 1])}; " for n in range(len(spaces)))
        return "".join(using) + self.bound

    @property
    def ends(self) -> str:
        """The ends of the scopes that are open behind `bound`."""
        return " }" * self.bound.count(_INNER)


def written_out(texts: Sequence[Census]) -> list[Census]:
    """Texts in which macros that name a kernel or a template are what they become, each in its line."""
    plain = [_COMMENT.sub(_without, census.text.decode("utf-8", "replace")) for census in texts]
    macros = {found[1]: (found[2], found[3]) for text in reversed(plain) for found in _DEFINE.finditer(text)}
    functions = [f for census in texts for f in census.functions]
    names = {f.name for f in functions if f.kernel or ("template" in f.words and not f.device)}
    out = []
    for census, text in zip(texts, plain, strict=True):
        written = _written(_DEFINE.sub(_without, text), macros, names)
        if not names.isdisjoint(_WORD.findall(written)):
            out.append(Census(written.encode(), census.before))
    return out


def _without(found: re.Match[str]) -> str:
    """Spaces in place of what is found, unless it is a literal."""
    return found[0] if found[0][:1] == '"' else re.sub(r"[^\n]", " ", found[0])


def _written(text: str, macros: dict[str, tuple[str, str]], names: set[str], depth: int = DEPTH) -> str:
    """A text with the macros written out that become text with one of these names."""
    parts, at = [""], 0
    for call in _CALL.finditer(text):
        known = call[1] in macros and call.start() >= at
        end = _end(text, call.end(), ")") if known else 0
        if not end:
            continue
        arguments, (head, body) = text[call.end() : end - 1], macros[call[1]]
        by = dict(zip(_words([head]), _parts(arguments), strict=False))
        if "..." in head:
            rest = head.count(",")
            by["__VA_ARGS__"] = ", ".join(_parts(arguments)[rest:])
        body = re.sub(r"\s*##\s*", "##", re.sub(r"\\\r?\n", " ", body))
        body = _with(by, re.sub(r"(?<!#)#(?!#)\s*\w+", '""', body)).replace("##", "")
        if depth and len(body) < MOST_WRITTEN:
            inner = {name: macro for name, macro in macros.items() if name != call[1]}
            body = _written(body, inner, names, depth - 1)
        if len(body) < MOST_WRITTEN and not names.isdisjoint(_WORD.findall(body)):
            parts += [text[at : call.start()], body, "\n" * text.count("\n", call.start(), end)]
            at = end
    return "".join((*parts, text[at:]))


def instances(
    texts: Sequence[Census], name: str, values: dict[str, str], depth: int = DEPTH
) -> list[Instance]:
    """The uses of a kernel, or of a template, in texts; `values` are those of names that are given."""
    found: dict[Instance, None] = {}
    for census, use in _uses(texts, name):
        text = census.text.decode("utf-8", "replace")
        split, end = _template_arguments(text, use.end())
        shape, call = _launch(text, use.start(), end)
        if (split is None and not shape) or _SPECIAL.search(text[: use.start()][-400:]):
            continue
        offset = len(text[: use.start()].encode())
        inside = census.function(offset)
        line = census.before + text.count("\n", 0, use.start()) + 1
        words = [set(_words(part)) for part in (split or (), shape, (call,))]
        told = ("", "", "") if inside is None else _declarations(census, inside, offset, words)
        parameters = "" if inside is None else inside.parameters[: _closing(inside.parameters)]
        outer = [] if inside is None else parameters_of(inside)
        local = set(_words(told[:1]))
        for caller, given in _around(texts, inside, outer, values, depth):
            by = {name: value for name, value in given.items() if local.isdisjoint(_words([value]))}
            arguments = tuple(_with(by, part) for part in split or ())
            needed = set(_words([*arguments, *told, parameters, *shape, call]))
            pairs = [(kind, name, given[name]) for kind, name in outer if name in given and name in needed]
            bound = caller.bound + caller.declared + _scope(pairs)
            open_ = caller.open + tuple(pair for pair in outer if pair[1] not in given)
            found[Instance(arguments, told[0], bound, open_, line, shape, call, parameters, *told[1:])] = None
        if len(found) > MOST_USES:
            break
    return list(found)


def _uses(texts: Sequence[Census], name: str) -> Iterator[tuple[Census, re.Match[str]]]:
    """The places of texts that name a function without calling it."""
    used = re.compile(rf"\b{re.escape(name)}\b(?=\s*(?:<|[,)]))")
    for census in texts:
        if name.encode() in census.text:
            for use in used.finditer(census.text.decode("utf-8", "replace")):
                yield census, use


def _template_arguments(text: str, at: int) -> tuple[tuple[str, ...] | None, int]:
    """The template arguments behind a name, None where there are none, and where they end."""
    opened = re.compile(r"\s*<(?![<=])").match(text, at)
    split = None if opened is None else arguments_at(text, opened.end())
    return (None, at) if opened is None or split is None else (split, _end(text, opened.end(), ">"))


def arguments_at(text: str, at: int) -> tuple[str, ...] | None:
    """The arguments behind an opening bracket, where they are those of a use of a function.

    >>> arguments_at("k<128, f(1, 2), A<3>, (4 > 3)><<<g, b>>>(p);", 2)
    ('128', 'f(1, 2)', 'A<3>', '(4 > 3)')
    >>> arguments_at("k < n + 1;", 3) is None
    True
    """
    end = _end(text, at, ">")
    used = re.compile(r"\s*(?:<<<|[(),;])").match(text, end)
    return _parts(text[at : end - 1], "<") if end and used is not None else None


def _end(text: str, at: int, closing: str) -> int:
    """The place behind the bracket that closes what is open at a place; 0 where there is none."""
    waiting = [closing]
    for i in range(at, min(len(text), at + (4000 if closing == ">" else MOST_WRITTEN))):
        c = text[i]
        if c == waiting[-1]:
            waiting.pop()
            if not waiting:
                return i + 1
        elif c in _CLOSED_BY and (c != "<" or closing == ">"):
            waiting.append(_CLOSED_BY[c])
        elif c in ")]}" or (c == ";" and closing == ">"):
            return 0
    return 0


def _parts(text: str, angle: str = "") -> tuple[str, ...]:
    """The parts between commas outside of brackets, of `angle` too, where these are brackets."""
    commas = [-1]
    waiting: list[str] = []
    for at, c in enumerate(text):
        if waiting and c == waiting[-1]:
            waiting.pop()
        elif c in f"([{{{angle}":
            waiting.append(_CLOSED_BY[c])
        elif c == "," and not waiting:
            commas.append(at)
    return tuple(
        " ".join(text[start + 1 : end].split()) for start, end in itertools.pairwise((*commas, len(text)))
    )


def _launch(text: str, start: int, end: int) -> tuple[tuple[str, ...], str]:
    """(grid, block) and the arguments in brackets of a launch of the kernel that is named at a place."""
    opened = re.compile(r"\s*<<<").match(text, end)
    if opened is not None:
        close = text.find(">>>", opened.end())
        call = re.compile(r"\s*\(").match(text, close + 3)
        behind = _end(text, call.end(), ")") if call is not None and close >= 0 else 0
        if call is None or not behind:
            return (), ""
        return _parts(text[opened.end() : close])[:2], text[call.end() - 1 : behind]
    for called in _BY_FUNCTION.finditer(text[:start], max(start - 400, 0)):
        behind = _end(text, called.end(), ")")
        if behind > end:
            parts = _parts(text[called.end() : behind - 1])
            config = parts[0].lstrip("& ")
            if called[1] != "Ex":
                return parts[1:3], ""
            sides = [re.findall(rf"\b{re.escape(config)}\.{side}\s*=\s*([^;]+);", text[:start])[-1:]
                     for side in ("gridDim", "blockDim")]  # fmt: skip
            return tuple(" ".join(side) or config for side in sides), ""
    return (), ""


def _with(given: dict[str, str], text: str) -> str:
    """A text with the values of names in place of them."""
    return _WORD.sub(lambda word: given.get(word[0], word[0]), text)


def _around(
    texts: Sequence[Census],
    inside: Function | None,
    outer: list[tuple[str, str]],
    values: dict[str, str],
    depth: int,
) -> Iterator[tuple[Instance, dict[str, str]]]:
    """The uses of the function around a use, and the values that each gives to its template parameters."""
    uses = [Instance(())]
    if inside is not None and depth and not all(name in values for _, name in outer):
        uses = instances(texts, inside.name, values, depth - 1) or uses
    names = [name for _, name in outer]
    for use in uses:
        given = dict(zip(names, use.arguments, strict=False))
        yield use, given | {name: values[name] for name in names if name in values}


def _scope(pairs: list[tuple[str, str, str]]) -> str:
    """A scope with template parameters, whose values may have names that it declares anew."""
    if not pairs:
        return ""
    values = "".join(
        declared(kind if _is_type(kind) else "auto", f"layoutalg_{name}", value)
        for kind, name, value in pairs
    )
    return f"{values}{_INNER}{''.join(declared(kind, name, f'layoutalg_{name}') for kind, name, _ in pairs)}"


def declared(kind: str, name: str, value: str) -> str:
    """The declaration of a template parameter as a type or a constant."""
    if _is_type(kind):
        return f"using {name} = {value}; "
    plain = kind if kind.split()[-1] == "auto" else f"__typeof__({kind})"
    return f"constexpr {plain} {name} = {_as_of(kind, value)}; "


def _as_of(kind: str, value: str) -> str:
    """A value of a parameter, a number also of an enumeration and of no pointer."""
    return f"static_cast<{kind}>({value} + 0)" if value.isdigit() and not is_integer(kind) else value


def _declarations(
    census: Census, inside: Function, offset: int, needed: list[set[str]]
) -> tuple[str, str, str]:
    """The declarations in front of a place, in the blocks around it, of the names that are needed.

    Of constants and types as they are; of variables that are set once as constants, and without their values.
    """
    node: Any = census.tree.root_node.descendant_for_byte_range(offset, offset)
    body = census.text[inside.start : inside.end].decode("utf-8", "replace")
    lines: tuple[list[str], list[str], list[str]] = ([], [], [])
    while node is not None and node.start_byte >= inside.start:
        before = node.prev_sibling
        while before is not None and before.start_byte > inside.start:
            said = census.said(before)
            for names, kind, form in zip(needed, lines, (None, _as_constant, _as_variable), strict=True):
                if said in lines[0]:
                    break
                if _declares(before.type, said, names):
                    kind.append(said)
                elif form is None or before.type != "declaration" or names.isdisjoint(_names(census, before)):
                    continue
                else:
                    kind.append(form(census, before, body))
                names |= set(_words([kind[-1]]))
            before = before.prev_sibling
        node = node.parent
    first, second, third = ("\n".join(("", *reversed(kind), "")) for kind in lines)
    return first, second, third


def _names(census: Census, declaration: Any) -> list[str]:
    """The names that a declaration declares."""
    heads = (re.split(r"[=({]", census.said(d))[0] for d in declaration.children_by_field_name("declarator"))
    return [words[-1] for head in heads if (words := _words([head]))]


def _as_constant(census: Census, declaration: Any, body: str) -> str:
    """A declaration of variables that nothing else sets, as constants; "" of others."""
    said = census.said(declaration)
    for name in _names(census, declaration):
        set_here = re.findall(_SETS.replace("NAME", re.escape(name)), body)
        if len(set_here) > len(re.findall(rf"\b{re.escape(name)}\s*=(?!=)", said)):
            return ""
    return f"constexpr {said}"


def _as_variable(census: Census, declaration: Any, body: str) -> str:
    """A declaration of variables, of numbers and pointers without their values."""
    said, kind = census.said(declaration), declaration.child_by_field_name("type")
    return (
        said
        if (kind is not None and kind.type == "type_identifier") or "auto" in said
        else without_values(said)
    )


def tails(name: str, use: Instance) -> list[str]:
    """Functions that use a kernel as a text does: by its arguments in angle brackets, and by its calls."""
    explicit = f"{name}<{', '.join(use.arguments)}>"
    bodies = [] if use.values and not use.arguments else [("()", f"auto p = &{explicit};")]
    if use.values:
        called = explicit if use.arguments else name
        for variables in dict.fromkeys((use.variables, without_values(use.variables))):
            bodies.append((use.parameters or "()", f"{variables}{called}<<<1, 1>>>{use.values};"))
    return [
        f"{use.outside(name)}\nvoid use{head} {{ {use.declared}{body} }}{use.ends}" for head, body in bodies
    ]


def _is_type(kind: str) -> bool:
    return kind.split()[-1] in ("typename", "class")


def declarable(kind: str, value: str) -> bool:
    """Whether a value of a kind is declared by its name; a function of the device is no host's constant."""
    return value.isdigit() or is_integer(kind) or _is_type(kind)


def is_integer(kind: str) -> bool:
    """Whether a type is an integer by its name."""
    return re.fullmatch(r"[\w\s]+", kind) is not None and set(_words([kind])) <= _INTEGERS


def options(kind: str, name: str, text: str, functions: Sequence[str]) -> list[str]:
    """Values that an open template parameter is read with, the first that make an instance.

    Types; of a number those with which the text compares it, and usual ones; of others, functions.
    """
    if _is_type(kind):
        return [*_TYPES]
    if kind.split()[-1] == "bool":
        return ["false", "true"]
    word = re.escape(name)
    compared = re.findall(rf"\b{word}\s*[=!<>]=?\s*(\d+)\b|\b(\d+)\s*[=!<>]=?\s*{word}\b", text)
    numbers = [*dict.fromkeys((_NUMBERS[0], *(a or b for a, b in compared), *_NUMBERS))][:MOST_OPTIONS]
    if is_integer(kind):
        return numbers
    return [*functions[:MOST_OPTIONS], "0", "1", "2", "3"]


def without_values(declarations: str) -> str:
    """Declarations of variables without what these are set to, but of those whose type it says."""
    lines = declarations.split("\n")
    values = re.compile(r"=(?!=)[^,;]*(?:\([^;]*\))?[^,;]*")
    return "\n".join(line if "auto" in line else values.sub("", line) for line in lines)


def _declares(kind: str, said: str, needed: set[str]) -> bool:
    """Whether a statement, or a choice of the preprocessor, declares a constant or a type that is needed."""
    if kind.startswith("preproc_if"):
        return not needed.isdisjoint(_words([said]))
    if kind not in _DECLARATIONS or _CONSTANT.match(said) is None:
        return False
    names = _words([said if said.startswith("typedef") else said.partition("=")[0]])
    return not needed.isdisjoint(names if kind == "enum_specifier" else names[-1:])


def _closing(text: str) -> int:
    """The end of the brackets that a text opens first, 0 where there are none."""
    at = text.find("(")
    return _end(text, at + 1, ")") if at >= 0 else 0


def _words(texts: Iterable[str]) -> list[str]:
    return _WORD.findall(" ".join(texts))


def parameters_of(function: Function) -> list[tuple[str, str]]:
    """(kind, name) of each template parameter of a function."""
    opened = re.match(r"\s*template\s*<", function.words)
    if opened is None:
        return []
    parts, depth = [""], 0
    for c in re.sub(r"//[^\n]*|/\*.*?\*/", " ", function.words[opened.end() :], flags=re.DOTALL):
        if c == ">" and depth == 0:
            break
        depth += (c in "(<") - (c in ")>")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    matches = [_PARAMETER.match(part) for part in parts]
    return [(" ".join(m["kind"].split()), m["name"]) for m in matches if m is not None]


def template_parameters(kernel: Any) -> list[dict[str, Any]]:
    """{"name", "kind", "type", "default"} of each parameter of a template: a type, a value or a pack."""
    out = []
    for child in kernel.get_children():
        if child.kind in (_K.TEMPLATE_NON_TYPE_PARAMETER, _K.TEMPLATE_TYPE_PARAMETER):
            value = child.kind == _K.TEMPLATE_NON_TYPE_PARAMETER
            tokens = [t.spelling for t in child.get_tokens()]
            plain = child.type.get_canonical().spelling if value else ""
            spelled = plain if is_integer(plain) else child.type.spelling
            kind = "pack" if "..." in tokens else "value" if value else "type"
            known = {"name": child.spelling, "kind": kind, "default": "=" in tokens}
            out.append(known | {"type": spelled if value else "typename"})
    return out


class Choice(NamedTuple):
    """The definition of a kernel to read, or why there is none; the use that makes it, and others.

    `taken` are the values of the names that the text leaves open, `made` the use with them.
    """

    target: Any
    why: str = ""
    others: tuple[tuple[str, str], ...] = ()
    use: Instance | None = None
    made: Instance | None = None
    taken: tuple[tuple[str, str], ...] = ()


class Trial(NamedTuple):
    """A use with values for open names, its text, and its errors: its own, and in what it instantiates."""

    use: Instance
    made: Instance
    taken: dict[str, str]
    tail: str
    own: tuple[str, ...] = ()
    inner: int = 0
    unit: Any = None
    number: int = 0
    target: Any = None


class Templates:
    """The search for an instance of a kernel: one that the text makes, else with values for what is open."""

    def __init__(self, parser: Any, kernel: Any, uses: list[Instance]) -> None:
        self.parser, self.kernel = parser, kernel
        self.parameters = template_parameters(kernel)
        names = [p["name"] for p in self.parameters if p["kind"] != "pack"]
        wanted = [i for i, p in enumerate(self.parameters) if p["name"] in parser.sets or not p["default"]]
        self.needed = [p for p in self.parameters[: max(wanted, default=-1) + 1] if p["kind"] != "pack"]
        open_ = tuple((p["type"], p["name"]) for p in self.needed if p["name"] not in parser.sets)
        self.bare = Instance(tuple(self._argument(p) for p in self.needed), open=open_)
        self.uses = []
        for use in dict.fromkeys(uses):
            parser.used |= parser.sets.keys() & _words([use.bound])
            words = (parser.sets.get(n, word) for n, word in zip(names, use.arguments, strict=False))
            self.uses.append(use._replace(arguments=(*words, *use.arguments[len(names) :])))

    def choice(self) -> Choice:
        """The instance that is read."""
        sets = self.parser.sets
        if self.needed and all(p["name"] in sets for p in self.needed):
            self.uses, best = [], self._opened(self.bare)
        else:
            best = self._best([t for use in self.uses if not use.open for t in self._trials(use, {}, {})])
            for use in [*self.uses[:MOST_OPENED], self.bare]:
                best = best or self._opened(use)
        if best is None or best.target is None:
            options = ", ".join(f"--set {p['name']}=VALUE" for p in self.needed if p["name"] not in sets)
            return Choice(None, f"template parameters of {self.kernel.spelling} are not known: {options}")
        taken = tuple(pair for pair in best.taken.items() if pair[0] not in sets)
        return Choice(best.target, "", self._others(best.use), best.use, best.made, taken)

    def _argument(self, parameter: dict[str, Any]) -> str:
        """A template argument: the value that is given, else the name that gets one."""
        name, kind = parameter["name"], parameter["type"]
        return _as_of(kind, self.parser.sets.get(name, name))

    def _trials(self, use: Instance, values: dict[str, str], kinds: dict[str, str]) -> list[Trial]:
        """A use, with values for its open names, as text in each way."""
        functions = {name: v for name, v in values.items() if not declarable(kinds[name], v)}
        bound = "".join(declared(kinds[n], n, v) for n, v in values.items() if n not in functions)
        arguments = tuple(_with(functions, argument) for argument in use.arguments)
        made = use._replace(arguments=arguments, bound=bound + use.bound)
        return [Trial(use, made, values, tail) for tail in tails(qualified(self.kernel), made)]

    def _judged(self, trials: list[Trial]) -> list[Trial]:
        """Trials with their errors, and with the unit that has them where all are their own."""
        unit, errors = self.parser.tried([trial.tail for trial in trials])
        clean = None if any(inner for _, inner in errors) else unit
        return [
            trial._replace(own=own, inner=inner, unit=clean, number=number)
            for number, (trial, (own, inner)) in enumerate(zip(trials, errors, strict=True))
        ]

    def _made(self, unit: Any, number: int) -> Any:
        """The instance that a trial makes."""
        for cursor in unit.cursor.get_children():
            if cursor.spelling == f"layoutalg_use{number}":
                for inner in cursor.walk_preorder():
                    target = inner.referenced if inner.kind == _K.DECL_REF_EXPR else None
                    made = target is not None and target.kind == _K.FUNCTION_DECL and target.is_definition()
                    if made and target is not None and target.spelling == self.kernel.spelling:
                        return target
        return None

    def _best(self, trials: list[Trial]) -> Trial | None:
        """The first trial of those with the fewest errors in what they instantiate, with its definition."""
        made = [t for t in self._judged(trials[:MOST_TRIED]) if not t.own] if trials else []
        return self._settled(min(made, key=lambda t: t.inner, default=None))

    def _settled(self, trial: Trial | None) -> Trial | None:
        """A trial with its definition, where errors of what it instantiates are taken out."""
        if trial is None:
            return None
        unit, number = trial.unit, trial.number
        try:
            if unit is None:
                unit, number = self.parser.settled(f"namespace layoutalg_use0 {{ {trial.tail} }}\n"), 0
        except ValueError:
            return None
        target = self._made(unit, number)
        return None if target is None else trial._replace(target=target)

    def _opened(self, use: Instance) -> Trial | None:
        """A use with the first values for its open names with which it has the fewest errors."""
        origin, kinds = use, {name: kind for kind, name in use.open}
        best: Trial | None = None
        for _ in range(ROUNDS):
            values = {name: self._options(name, kind)[0] for name, kind in kinds.items()}
            best = min(self._judged(self._trials(use, values, kinds)), key=_errors)
            unknown = [found for message in best.own if (found := UNKNOWN.match(message))]
            for found in unknown:
                use, freed = _freed(use, found[1])
                kinds |= freed or {found[1]: self._kind(use, found)}
            if not unknown:
                break
        for _ in range(DEPTH):
            if best is None or (not best.own and not best.inner):
                break
            changed = [
                trial for name in best.taken for value in self._options(name, kinds[name])
                if value != best.taken[name]
                for trial in self._trials(use, best.taken | {name: value}, kinds)
            ]  # fmt: skip
            better = min(self._judged(changed[:MOST_CHANGED]), key=_errors, default=best) if changed else best
            if _errors(better) >= _errors(best):
                break
            best = better
        return None if best is None or best.own else self._settled(best._replace(use=origin))

    def _kind(self, use: Instance, found: re.Match[str]) -> str:
        """The kind of a name that nothing declares, by where the use has it."""
        kinds = dict(zip(use.arguments, (p["type"] for p in self.parameters), strict=False))
        name = re.escape(found[1])
        used = re.search(rf"\b{name}\s*\*\s*[>),]|<\s*{name}\s*>\s*\(", "".join((use.values, use.declared)))
        return kinds.get(found[1], "typename" if "type" in found[0] or used else "int")

    def _options(self, name: str, kind: str) -> list[str]:
        """Values of an open name: that which is given, else those of its kind."""
        if name in self.parser.sets:
            self.parser.used.add(name)
            return [self.parser.sets[name]]
        text = self.parser.texts.find(self.kernel.location.file.name)
        functions = [
            f.name
            for t in self.parser.texts
            for f in t.census.functions
            if f.device and not f.kernel and t.left[f.start : f.start + 1] == b"{"
        ]
        return options(kind, name, text.given.decode("utf-8", "replace"), [*dict.fromkeys(functions)])

    def _others(self, use: Instance) -> tuple[tuple[str, str], ...]:
        """The arguments of the other instances, and the options that choose each of them."""
        names = [p["name"] for p in self.parameters]
        others = [other for other in {each[:3]: each for each in self.uses}.values() if other[:3] != use[:3]]
        pairs = ((o.arguments, zip(names, o.arguments, use.arguments, strict=False)) for o in others)
        return tuple(
            (
                ", ".join(arguments) or "deduced",
                ", ".join(f"--set {n}={v}" for n, v, read in values if v != read),
            )
            for arguments, values in pairs
        )


def _freed(use: Instance, name: str) -> tuple[Instance, dict[str, str]]:
    """A use without the declarations that need an undeclared name, and the kinds of what they declare."""
    kinds: dict[str, str] = {}

    def gone(found: re.Match[str]) -> str:
        if name not in _words([found[4]]):
            return found[0]
        kinds[found[3]] = "typename" if found[2] is None else found[2]
        return ""

    declared_, bound = (_DECLARED.sub(gone, text) for text in (use.declared, use.bound))
    return use._replace(declared=declared_, bound=bound), kinds


def _errors(trial: Trial) -> tuple[int, int]:
    return len(trial.own), trial.inner
