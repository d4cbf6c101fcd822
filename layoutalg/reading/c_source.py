"""Index functions in C and CUDA text: found, and read as a term; nothing of the text is run.

Read are functions, lambdas and macros with parameters, their declarations, assignments, if, for, while and
return, constants and functions beside them, and templates by their integers (`f<64>`).

>>> made = read_c("__device__ int at(int row, int col) { int x = row & 7; return row * 64 + (col ^ x * 8); }")
>>> made.name, made.names
('at', ('row', 'col'))
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from layoutalg.errors import ParseError, UnknownNameError
from layoutalg.limits import Most
from layoutalg.reading.c_expressions import IGNORED, Expressions
from layoutalg.reading.c_tokens import Token, macro_parameters, refuse, tokens
from layoutalg.reading.statements import (
    Branch,
    Environment,
    Expression,
    Loop,
    Return,
    Set,
    Statement,
    Steps,
    run,
)
from layoutalg.reading.terms import (
    INT,
    UNSIGNED,
    CType,
    Term,
    apply,
    converted,
    number,
    ordered,
    variable,
)

_CONTROL = frozenset({"if", "for", "while", "switch", "return", "else", "do", "sizeof", "catch", "alignof"})
_UNREAD = frozenset({"switch", "case", "default", "do", "goto", "break", "continue", "asm", "throw", "try"})
_QUALIFIED = re.compile(r"([A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)\s*(?:<([^<>]*)>)?\s*\Z", re.ASCII)
SPECIAL = ("threadIdx", "blockIdx", "blockDim", "gridDim")
_SET_BY = ("=", "+=", "-=", "*=", "/=", "%=", "^=", "&=", "|=", "<<=", ">>=")


class IndexFunction(NamedTuple):
    """A function as it was read: its name, its parameters in order with their types, and its value."""

    name: str
    parameters: tuple[tuple[str, CType | None], ...]
    term: Term

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters, and of threadIdx.x and the like that it uses."""
        return tuple(name for name, _ in self.parameters)


class _Declared(NamedTuple):
    name: Token
    parameters: tuple[int, int]
    body: tuple[int, int]
    template: tuple[str, ...]
    result: CType | None


def read_c(text: str, function: str | None = None) -> IndexFunction:
    """The function of that name, or the only one in the text; `at<64>` gives a template its integers.

    Raises ParseError with line and column for what is not read, UnknownNameError for a name that is not
    there, and for several functions where none is named; ResourceError for what is too large.

    >>> read_c("#define LD 64\\nint f(int i, int j) { return i * LD + j; }", "f").term.op
    '+'
    """
    if function is not None and (names := macro_parameters(text, function)) is not None:
        wrapped = f"{text}\nint {function}__({', '.join('int ' + p for p in names)})"
        wrapped += f" {{ return {function}({', '.join(names)}); }}\n"
        return _Source(wrapped).function(f"{function}__")._replace(name=function)
    return _Source(text).function(function)


def read_c_expression(text: str, names: Sequence[str] | None = None, ctype: CType = INT) -> IndexFunction:
    """An expression; its variables, of one type, are `names`, or those that occur, in order.

    >>> read_c_expression("row * 64 + (col ^ row)").names
    ('row', 'col')
    """
    stream = tokens(text)
    used = dict.fromkeys(names or ())
    for k, token in enumerate(stream):
        after = stream[k + 1].text if k + 1 < len(stream) else ""
        if token.kind == "name" and names is None and after not in ("(", "::"):
            if token.text in SPECIAL and after == "." and k + 2 < len(stream):
                used[f"{token.text}.{stream[k + 2].text}"] = None
            elif (k == 0 or stream[k - 1].text != ".") and token.text not in ("true", "false"):
                used[token.text] = None
    reader = Expressions(stream, 0, len(stream), {}, lambda token, arguments: None)
    types = [name for name in used if _is_type(name)]
    for name in types:
        used.pop(name)
    reader.scopes[0] |= {name: name for name in used}
    value = reader.expression()
    if reader.token.kind != "end":
        refuse(reader.token, "stands after the expression", text)
    env = {name: variable(name, ctype) for name in used}
    return IndexFunction("the expression", tuple((name, ctype) for name in used), value(env))


def _is_type(word: str) -> bool:
    return Expressions([Token("name", word, 1, 1, 0)], 0, 1, {}, lambda *_: None).type_here() is not False


class _Source:
    """The tokens of a text, and the functions and constants in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.match = self._matched()
        self.types: dict[str, CType] = {}
        self.functions: dict[str, list[_Declared]] = {}
        self.constants: dict[str, tuple[int, int, CType | None]] = {}
        self.enumerators: set[str] = set()
        self.ambiguous: set[str] = set()
        self.steps = Steps()
        self.calls = 0
        self._survey()
        for name in self.ambiguous:  # two declarations of one name, in scopes that are not told apart
            self.constants.pop(name, None)
            self.types.pop(name, None)

    def _matched(self) -> dict[int, int]:
        """The position of each bracket's partner."""
        closes = {")": "(", "]": "[", "}": "{"}
        waiting: list[int] = []
        out: dict[int, int] = {}
        for k, token in enumerate(self.tokens):
            if token.kind != "mark":
                continue
            if token.text in "([{":
                waiting.append(k)
            elif token.text in closes:
                if not waiting or self.tokens[waiting[-1]].text != closes[token.text]:
                    refuse(token, "closes nothing", self.text)
                out[waiting[-1]] = k
                waiting.pop()
        if waiting:
            refuse(self.tokens[waiting[-1]], "is never closed", self.text)
        return out

    def _survey(self) -> None:
        """Find functions, lambdas, constants and names of types outside of functions."""
        k = 0
        template: tuple[str, ...] = ()
        while k < len(self.tokens):
            token = self.tokens[k]
            if token.text == "template" and self._text(k + 1) == "<":
                k, template = self._template(k + 2)
                continue
            if token.text in ("typedef", "using"):
                k = self._alias(k)
                continue
            declared = self._function(k, template)
            if declared is not None:
                self.functions.setdefault(declared.name.text, []).append(declared)
                k, template = declared.body[1] + 1, ()
                continue
            if token.kind == "name" and self._text(k + 1) == "=":
                k = self._constant(k)
                continue
            if token.text == ";":
                template = ()
            k += 1

    def _text(self, k: int) -> str:
        return self.tokens[k].text if 0 <= k < len(self.tokens) else ""

    def _template(self, k: int) -> tuple[int, tuple[str, ...]]:
        """The parameters of a template from behind its "<"; where they end."""
        names: list[str] = []
        last = ""
        while k < len(self.tokens) and self._text(k) != ">":
            if self._text(k) in (",", "=") and last:
                names.append(last)
                last = ""
                if self._text(k) == "=":
                    while k + 1 < len(self.tokens) and self._text(k + 1) not in (",", ">"):
                        k += 1
                    if self._text(k + 1) == ",":
                        k += 1
            elif self.tokens[k].kind == "name":
                last = self._text(k)
            k += 1
        return k + 1, (*names, *((last,) if last else ()))

    def _alias(self, k: int) -> int:
        """`typedef unsigned u32;` and `using u32 = unsigned;`; where it ends."""
        end = k
        while end < len(self.tokens) and self._text(end) != ";":
            end += 1
        reader = self._reader(k + 1, end)
        if self._text(k) == "using" and self._text(k + 2) == "=":
            reader.at = k + 3
            name, ctype = self._text(k + 1), reader.type_here()
        else:
            ctype = reader.type_here()
            name = reader.token.text
        if name in self.types and self.types[name] != ctype:
            self.ambiguous.add(name)
        if isinstance(ctype, CType):
            self.types[name] = ctype
        return end + 1

    def _function(self, k: int, template: tuple[str, ...]) -> _Declared | None:
        """The function or lambda whose name is at `k`, if one does."""
        token = self.tokens[k]
        if token.kind != "name" or token.text in _CONTROL or token.text in IGNORED:
            return None
        if self._text(k + 1) == "(" and k + 1 in self.match:
            before = self.tokens[k - 1] if k else None
            if before is None or not (before.kind == "name" or before.text in ("*", "&", ">")):
                return None
            start = self._start(k)
            reader = self._reader(start, k)
            result = reader.type_here()
            opened, after = k + 1, self.match[k + 1] + 1
            while self._text(after) in ("const", "noexcept"):
                after += 1
            known = result if isinstance(result, CType) else None
        elif self._text(k + 1) == "=" and self._text(k + 2) == "[" and k + 2 in self.match:
            opened = self.match[k + 2] + 1
            if self._text(opened) != "(":
                return None
            after, known = self.match[opened] + 1, None
            while self._text(after) in ("const", "constexpr", "mutable", "noexcept", *IGNORED):
                after += 1
            if self._text(after) == "->":
                reader = self._reader(after + 1, len(self.tokens))
                result = reader.type_here()
                after, known = reader.at, result if isinstance(result, CType) else None
        else:
            return None
        if self._text(after) != "{":
            return None
        return _Declared(
            token, (opened + 1, self.match[opened]), (after + 1, self.match[after]), template, known
        )

    def _start(self, k: int) -> int:
        """The start of the declaration of the name at `k`."""
        while k > 0 and self._text(k - 1) not in (";", "}", "{", ">", ")"):
            k -= 1
        return k

    def _constant(self, k: int) -> int:
        """`constexpr int LD = 64;` outside of functions; where it ends."""
        end, depth = k + 2, 0
        while end < len(self.tokens) and (depth or self._text(end) not in (";", ",", "}")):
            depth += self._text(end) in ("(", "[", "{")
            depth -= self._text(end) in (")", "]", "}")
            end += 1
        start = self._start(k)
        words = {token.text for token in self.tokens[start:k]}
        opener = [token.text for token in self.tokens[max(0, start - 6) : start]]
        listed = opener[-1:] == ["{"] and "enum" in opener
        name, value = self._text(k), self.tokens[k + 2 : end]
        if not (listed or words & {"const", "constexpr", "consteval"}):
            return end  # a variable, which may change
        ctype = self._reader(start, k).type_here()
        if listed:
            self.enumerators.add(name)
        if name in self.constants:
            first, last, _ = self.constants[name]
            if [t.text for t in self.tokens[first:last]] != [t.text for t in value]:
                self.ambiguous.add(name)
        self.constants[name] = (k + 2, end, ctype if isinstance(ctype, CType) else None)
        return end

    def _reader(self, start: int, stop: int) -> _Body:
        return _Body(self, start, min(stop, len(self.tokens)))

    def function(self, wanted: str | None) -> IndexFunction:
        """The requested function, as a term."""
        declared, bound = self._chosen(wanted)
        special: dict[str, Term] = {}
        parameters = self._parameters(declared, bound)
        env = {name: variable(name, ctype) for name, ctype in parameters}
        for k in range(*declared.body):
            if self._text(k) in SPECIAL and self._text(k + 1) == ".":
                name = f"{self._text(k)}.{self._text(k + 2)}"
                special[name] = variable(name, UNSIGNED)
        term = self._run(declared, bound, env | special)
        used = {t.name for t in ordered(term) if t.op == "var"}
        order = [f"{what}.{axis}" for what in SPECIAL for axis in "xyz"]
        more = [(name, UNSIGNED) for name in order if name in special and name in used]
        return IndexFunction(declared.name.text, (*parameters, *more), term)

    def _chosen(self, wanted: str | None) -> tuple[_Declared, dict[str, Term]]:
        if wanted is None:
            every = [entry for overloads in self.functions.values() for entry in overloads]
            if not every:
                raise ParseError(
                    "the text has no function with a body, T f(T row, T col) { return ...; }; an expression "
                    "alone is read by identify(..., expression=True), or by identify --index"
                )
            if len(every) > 1:
                raise UnknownNameError(
                    "function", "", self.functions, hint="the text has several, and --function names one; "
                )  # fmt: skip
            return every[0], {}
        match = _QUALIFIED.match(wanted)
        name = match[1].rpartition("::")[2] if match else wanted
        if name not in self.functions:
            raise UnknownNameError("function", wanted, self.functions)
        if len(self.functions[name]) > 1:
            refuse(self.functions[name][1].name, "is declared twice", self.text)
        declared = self.functions[name][0]
        values = [v.strip() for v in match[2].split(",")] if match and match[2] else []
        if len(values) != len(declared.template):
            needed = ", ".join(declared.template) or "none"
            refuse(
                declared.name, f"takes the template arguments {needed}: --function '{name}<64>'", self.text
            )
        bound: dict[str, Term] = {}
        for parameter, value in zip(declared.template, values, strict=True):
            if not re.fullmatch(r"-?[0-9]{1,18}", value):
                raise ParseError(
                    f"template argument {value!r} of {wanted!r}: an integer is read", text=wanted
                )
            bound[parameter] = number(int(value), INT)
        return declared, bound

    def _parameters(
        self, declared: _Declared, bound: Mapping[str, Term], in_call: bool = False
    ) -> tuple[tuple[str, CType], ...]:
        """Names and types; a call may not change what it is given."""
        reader = self._reader(*declared.parameters)
        out: list[tuple[str, CType]] = []
        if reader.token.text == "void" and reader.peek() == "":
            return ()
        while reader.token.kind != "end":
            first, ctype = reader.at, reader.type_here()
            if ctype is False:
                refuse(reader.token, "is not a type of integers that is read", self.text)
            constant = any(token.text == "const" for token in self.tokens[first : reader.at])
            if in_call and not constant and reader.token.text == "&":
                refuse(reader.token, "lets a call change its argument, which is not read", self.text)
            reader.accept("&")
            name = reader.take()
            if name.kind != "name":
                refuse(name, "stands where a parameter's name is expected", self.text)
            out.append((name.text, ctype if isinstance(ctype, CType) else INT))
            if reader.token.kind != "end":
                reader.expect(",")
        return tuple(out)

    def _run(self, declared: _Declared, bound: Mapping[str, Term], env: Mapping[str, Term]) -> Term:
        body = self._reader(*declared.body)
        body.scopes = [{name: name for name in self.constants}, {name: name for name in (*bound, *env)}]
        statements = body.block()
        values = {**self._constants(body, declared), **bound, **env}
        return run(statements, values, declared.name.text, self.steps, declared.result)

    def _constants(self, body: _Body, declared: _Declared) -> dict[str, Term]:
        """The constants that a function's body names, and those that these name."""
        out: dict[str, Term] = {}
        waiting = [t.text for t in self.tokens[slice(*declared.body)] if t.text in self.constants]
        chain: list[str] = []
        while waiting:
            name = waiting[-1]
            start, stop, ctype = self.constants[name]
            inner = [
                t.text for t in self.tokens[start:stop] if t.text in self.constants and t.text not in out
            ]
            if name in out:
                waiting.pop()
            elif inner and name not in chain:
                chain.append(name)
                waiting += inner
            else:
                reader = self._reader(start, stop)
                reader.scopes = [{n: n for n in out}]
                value = reader.whole()(out)
                if name in self.enumerators and INT.least <= value.value <= INT.greatest:
                    ctype = INT  # whatever it was set from
                out[name] = converted(value, ctype)
                waiting.pop()
        return out

    def called(self, token: Token, arguments: Sequence[Term]) -> Term | None:
        """The value of a call of a function in the text; None where there is none of that name."""
        declared = self.functions.get(token.text)
        if declared is None:
            return None
        if len(declared) > 1:
            refuse(token, "is declared twice", self.text)
        if declared[0].template:
            refuse(token, "is a template, which is not read in a call", self.text)
        parameters = self._parameters(declared[0], {}, in_call=True)
        if len(parameters) != len(arguments):
            refuse(token, f"takes {len(parameters)} arguments, not {len(arguments)}", self.text)
        Most.CALLS.guard(self.calls + 1, f"calls one inside the other at {token.place}")
        self.calls += 1
        pairs = zip(parameters, arguments, strict=True)
        value = self._run(declared[0], {}, {name: converted(term, ctype) for (name, ctype), term in pairs})
        self.calls -= 1
        return value


class _Body(Expressions):
    """Reads the statements of a body; a name that is declared again in it is another one."""

    def __init__(self, source: _Source, start: int, stop: int) -> None:
        super().__init__(source.tokens, start, stop, source.types, source.called)
        self.source = source
        self.fresh = 0

    def whole(self) -> Expression:
        """The expression up to the end."""
        value = self.expression()
        if self.token.kind != "end":
            refuse(self.token, "stands after the expression", self.source.text)
        return value

    def block(self) -> tuple[Statement, ...]:
        """The statements up to the end or to the "}" of this block."""
        out: list[Statement] = []
        self.scopes.append({})
        while self.token.kind != "end" and self.token.text != "}":
            out += self.statement()
        self.scopes.pop()
        return tuple(out)

    def statement(self) -> list[Statement]:
        """Read one statement; a declaration of several names is several."""
        token = self.token
        self.depth += 1
        Most.DEPTH.guard(self.depth, "nesting of statements")
        try:
            return self._statement(token)
        finally:
            self.depth -= 1

    def _statement(self, token: Token) -> list[Statement]:
        if self.accept(";"):
            return []
        if self.accept("{"):
            inner = self.block()
            self.expect("}")
            return list(inner)
        if self.accept("return"):
            value = self.expression()
            self.expect(";")
            return [Return(value)]
        if self.accept("if"):
            self.accept("constexpr")
            self.expect("(")
            condition = self.expression()
            self.expect(")")
            taken = tuple(self._inner())
            other = tuple(self._inner()) if self.accept("else") else ()
            return [Branch(condition, taken, other)]
        if self.accept("while"):
            self.expect("(")
            condition = self.expression()
            self.expect(")")
            return [Loop(condition, tuple(self._inner()), token.place)]
        if self.accept("for"):
            return self._for(token)
        statements = self._simple()
        self.expect(";")
        return statements

    def _inner(self) -> list[Statement]:
        """A statement with a scope of its own."""
        self.scopes.append({})
        statements = self.statement()
        self.scopes.pop()
        return statements

    def _for(self, token: Token) -> list[Statement]:
        self.expect("(")
        self.scopes.append({})
        first = [] if self.token.text == ";" else self._simple()
        self.expect(";")
        condition = self.expression()
        self.expect(";")
        step = [] if self.token.text == ")" else self._simple()
        self.expect(")")
        body = self._inner()
        self.scopes.pop()
        return [*first, Loop(condition, (*body, *step), token.place)]

    def _simple(self) -> list[Statement]:
        """A declaration, or an assignment."""
        if self.token.text == "static" and self.peek() not in ("const", "constexpr"):
            refuse(
                self.token, "declares what the next call finds changed, which is not read", self.source.text
            )
        ctype = self.type_here()
        if ctype is not False:
            return self._declaration(ctype if isinstance(ctype, CType) else None)
        if [self.token.text, self.peek(1), self.peek(2)] == ["(", "void", ")"] and self.peek(4) == ";":
            for _ in range(3):
                self.take()
            self.expression()  # a name that is there, marked for the compiler as one that nothing reads
            return []
        out: list[Statement] = []
        while True:
            out.append(self._assignment())
            if not self.accept(","):
                return out

    def _declaration(self, ctype: CType | None) -> list[Statement]:
        out: list[Statement] = []
        while True:
            name = self.take()
            if name.kind != "name":
                refuse(name, "stands where a name is declared", self.source.text)
            key = name.text
            if any(key in scope for scope in self.scopes):
                self.fresh += 1
                key = f"{name.text}#{self.fresh}"
            if self.accept("="):
                out.append(Set(key, self.expression(), ctype))
            elif self.token.text in ("{", "(") and self.peek(1) != "}":
                opened = self.take().text
                out.append(Set(key, self.expression(), ctype))
                self.expect("}" if opened == "{" else ")")
            elif self.token.text not in (";", ","):
                refuse(self.token, "stands where a value is declared", self.source.text)
            self.scopes[-1][name.text] = key
            self.types_of[key] = ctype
            if not self.accept(","):
                return out

    @property
    def types_of(self) -> dict[str, CType | None]:
        """The declared types of this body's names."""
        if not hasattr(self, "_types_of"):
            self._types_of: dict[str, CType | None] = {}
        return self._types_of

    def _assignment(self) -> Statement:
        before = self.take() if self.token.text in ("++", "--") else None
        name = self.take()
        if name.kind != "name" or name.text in _UNREAD:
            refuse(name, "begins a statement that is not read", self.source.text)
        value = self._name(name)
        key = next(scope[name.text] for scope in reversed(self.scopes) if name.text in scope)
        how = before or self.take()
        if how.text in ("++", "--"):
            symbol = how.text[0]
            return self._set(key, lambda env: apply(symbol, (value(env), number(1, INT)), how.place))
        if how.text not in _SET_BY:
            refuse(how, "stands where a value is assigned", self.source.text)
        right = self.expression()
        if how.text == "=":
            return self._set(key, right)
        symbol = how.text[:-1]
        return self._set(key, lambda env: apply(symbol, (value(env), right(env)), how.place))

    def _set(self, key: str, value: Expression) -> Statement:
        """An assignment in the type that the name already has."""

        def typed(env: Environment) -> Term:
            made = value(env)
            known = self.types_of.get(key) or (env[key].ctype if key in env else None)
            return converted(made, known)

        return Set(key, typed)
