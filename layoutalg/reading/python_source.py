"""Index functions in Python text: parsed by `ast` and read as a term; nothing of the text is run.

In a function of Triton (`@triton.jit`), `//` and `%` are C's, as Triton compiles them, except what is known
when it compiles.  Read are functions and lambdas of integers: assignments, if, while, for over range,
conditions, return, min, max and calls of functions beside them, and constants of the module.

>>> read_python("def at(row, col):\\n    return row * 64 + (col ^ row % 8 * 8)").names
('row', 'col')
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Collection, Sequence

from layoutalg.errors import ParseError, UnknownNameError, check_type
from layoutalg.limits import Most
from layoutalg.reading.c_source import IndexFunction
from layoutalg.reading.statements import (
    Branch,
    Environment,
    Expression,
    Loop,
    Return,
    Set,
    Statement,
    Steps,
    chain,
    run,
)
from layoutalg.reading.terms import Term, apply, number, variable

_BINARY: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "py%", ast.LShift: "<<",
    ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}  # fmt: skip
_KEEPS = re.compile(
    r"(\w+\.)*(jit|njit|cache|lru_cache|staticmethod|constexpr_function|inline)(\(.*\))?", re.S
)
"""Decorators with which a function has the values that its text says."""

_UNARY: dict[type, str] = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "inv", ast.Not: "!"}
_COMPARED: dict[type, str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


def read_python(text: str, function: str | None = None) -> IndexFunction:
    """The function of that name, or the only one in the text.  Raises as `read_c` does.

    >>> read_python("f = lambda i: i % 4 * 8", "f").names
    ('i',)
    """
    return _Module(_parsed(text, "exec")).function(function)


def read_python_expression(text: str, names: Sequence[str] | None = None) -> IndexFunction:
    """An expression of Python; its variables are `names`, or those that occur, in order.

    >>> read_python_expression("row // 8 * 64 + col").names
    ('row', 'col')
    """
    tree = _parsed(text.strip(), "eval")
    occurring = (n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id not in ("min", "max"))
    order = sorted(occurring, key=lambda n: (n.lineno, n.col_offset))
    used = tuple(dict.fromkeys(names if names is not None else [n.id for n in order]))
    if not isinstance(tree, ast.Expression):
        raise ParseError(f"{text[:40]!r} is not an expression", text=text)
    env = {name: variable(name) for name in used}
    value = _Module(ast.Module([], [])).expression(tree.body)
    return IndexFunction("the expression", tuple((name, None) for name in used), value(env))


def _parsed(text: str, mode: str) -> ast.AST:
    check_type("read_python", text, str, "a text")
    Most.TEXT.guard(len(text), "characters of the source")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Python says of odd literals is not an answer
            return ast.parse(text, mode=mode)
    except SyntaxError as error:
        where = f"line {error.lineno or 1}, column {error.offset or 1}"
        raise ParseError(f"{where}: {error.msg}; this is not Python", text=text) from None
    except (ValueError, RecursionError, MemoryError):
        raise ParseError("the text is not Python that can be read: too deep, or with a null byte") from None


def _place(node: ast.AST) -> str:
    return f"line {getattr(node, 'lineno', 1)}, column {getattr(node, 'col_offset', 0) + 1}"


def _unread(node: ast.AST, why: str = "is not read") -> ParseError:
    return ParseError(f"{_place(node)}: {type(node).__name__} {why}")


class _Module:
    """The functions and constants of a module."""

    def __init__(self, tree: ast.AST) -> None:
        self.functions: dict[str, ast.FunctionDef | ast.Lambda] = {}
        self.constants: dict[str, Term] = {}
        self.compiled = triton_functions(tree)
        self.fixed: frozenset[str] | None = None  # in a function of Triton, what is Python's there
        self.steps = Steps()
        self.calls = self.depth = 0
        body = getattr(tree, "body", [])
        self.changing = _changing(body)
        for node in body:
            if isinstance(node, ast.FunctionDef):
                self.functions[node.name] = node
                self.constants.pop(node.name, None)
            elif isinstance(node, ast.Assign) and len(node.targets) == 1:
                self._constant(node.targets[0], node.value)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                self._constant(node.target, node.value)

    def _constant(self, target: ast.expr, value: ast.expr) -> None:
        """Record the value of a name of the module; a name that is not an integer has no value here."""
        if not isinstance(target, ast.Name) or target.id in self.changing:
            return
        before = dict(self.constants)  # of which the name may be one: LD = LD * 2
        self.functions.pop(target.id, None)
        self.constants.pop(target.id, None)
        if isinstance(value, ast.Lambda):
            self.functions[target.id] = value
            return
        try:
            term = self.expression(value)(before)
        except ParseError:
            return
        if term.op == "const":
            self.constants[target.id] = term

    def function(self, wanted: str | None) -> IndexFunction:
        """The requested function, as a term."""
        if wanted is None and not self.functions:
            raise ParseError("the text has no function: def f(row, col): return ...")
        if wanted is None and len(self.functions) > 1:
            hint = "the text has several, and --function names one; "
            raise UnknownNameError("function", "", self.functions, hint=hint)
        if wanted is not None and wanted not in self.functions:
            raise UnknownNameError("function", wanted, self.functions)
        name = wanted if wanted is not None else next(iter(self.functions))
        if name in self.changing:
            raise ParseError(f"{name} is set in more than one way, and is not known before the text runs")
        names = self._parameters(self.functions[name])
        term = self._run(name, [variable(n) for n in names])
        return IndexFunction(name, tuple((n, None) for n in names), term)

    def _parameters(self, node: ast.FunctionDef | ast.Lambda) -> list[str]:
        a = node.args
        for decorator in getattr(node, "decorator_list", []):
            compiled = getattr(node, "name", "") in self.compiled and len(node.decorator_list) == 1  # type: ignore[union-attr]
            if not compiled and not _KEEPS.fullmatch(ast.unparse(decorator)):
                raise _unread(decorator, "is a decorator that may change the function")
        if a.vararg or a.kwarg or a.kwonlyargs or a.defaults:
            raise _unread(node, "has other parameters than plain ones")
        return [p.arg for p in (*a.posonlyargs, *a.args)]

    def _run(self, name: str, arguments: Sequence[Term], fixed: Collection[str] = ()) -> Term:
        node = self.functions[name]
        names = self._parameters(node)
        env = {**self.constants, **dict(zip(names, arguments, strict=True))}
        if isinstance(node, ast.Lambda):
            return self.expression(node.body)(env)
        around, self.fixed = self.fixed, self._constants_of(node, fixed)
        try:
            return run(self.block(node.body), env, name, self.steps)
        finally:
            self.fixed = around

    def _constants_of(self, node: ast.FunctionDef, passed: Collection[str]) -> frozenset[str] | None:
        """The names in a function of Triton that are Python's integers; None in a function of Python."""
        if node.name not in self.compiled:
            return None
        constants = set(self.constants)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                constants.discard(inner.id)
        for inner in ast.walk(node):
            if isinstance(inner, ast.AnnAssign) and is_constant(inner.annotation):
                constants.add(ast.unparse(inner.target))
        parameters = [*node.args.posonlyargs, *node.args.args]
        return frozenset(
            (constants - {p.arg for p in parameters})
            | {p.arg for p in parameters if p.arg in passed or is_constant(p.annotation)}
        )

    def _of_triton(self, node: ast.expr) -> bool:
        """Whether an expression is a number of Triton: one that is not known when it compiles."""
        match node:
            case ast.Constant():
                return False
            case ast.Name(name):
                return name not in (self.fixed or ())
            case ast.Call(ast.Name(name), arguments):
                return name in self.compiled or any(map(self._of_triton, arguments))
        return any(self._of_triton(part) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))

    # --- statements --------------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt]) -> tuple[Statement, ...]:
        """The statements of a body."""
        return tuple(s for node in body for s in self.statement(node))

    def statement(self, node: ast.stmt) -> list[Statement]:
        """Read one statement; raises ParseError where it cannot be read."""
        match node:
            case ast.Pass() | ast.Expr(ast.Constant(str())):
                return []
            case ast.Return(value) if value is not None:
                return [Return(self.expression(value))]
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, value) if value:
                return [Set(name, self.expression(value))]
            case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)) if len(targets) == len(values):
                return self._together(targets, [self.expression(v) for v in values])
            case ast.Assign(
                [ast.Tuple([ast.Name(quotient), ast.Name(rest)])], ast.Call(ast.Name("divmod"), [a, b])
            ):
                first, second = ast.BinOp(a, ast.FloorDiv(), b), ast.BinOp(a, ast.Mod(), b)
                parts = [ast.copy_location(part, node) for part in (first, second)]
                targets = [ast.Name(quotient), ast.Name(rest)]
                return self._together(targets, [self.expression(part) for part in parts])
            case ast.AugAssign(ast.Name(name), op, value):
                changed = ast.copy_location(
                    ast.BinOp(ast.copy_location(ast.Name(name), node), op, value), node
                )
                return [Set(name, self.expression(changed))]
            case ast.If(test, taken, other):
                return [Branch(self.expression(test), self.block(taken), self.block(other))]
            case ast.While(test, body, []):
                return [Loop(self.expression(test), self.block(body), _place(node))]
            case ast.For(ast.Name(name), ast.Call(ast.Name("range"), arguments, []), body, []):
                return self._for(node, name, arguments, body)
        raise _unread(node)

    def _together(self, targets: Sequence[ast.expr], values: list[Expression]) -> list[Statement]:
        """a, b = x, y: all values before any name."""
        out: list[Statement] = [Set(f"#{k}", value) for k, value in enumerate(values)]
        for k, target in enumerate(targets):
            if not isinstance(target, ast.Name):
                raise _unread(target)
            out.append(Set(target.id, _reading(f"#{k}")))
        return out

    def _for(
        self, node: ast.stmt, name: str, arguments: list[ast.expr], body: list[ast.stmt]
    ) -> list[Statement]:
        if not 1 <= len(arguments) <= 3:
            raise _unread(node)
        values = [self.expression(a) for a in arguments]
        bounds = {1: [_zero, values[0], _one], 2: [*values, _one], 3: values}[len(values)]
        keys = [f"{what} {_place(node)}" for what in ("#next", "#stop", "#step")]
        now, stop, step = map(_reading, keys)

        def more(env: Environment) -> Term:
            if step(env).op != "const" or step(env).value == 0:
                raise _unread(node, "has a step that is not a number other than 0")
            return apply("<" if step(env).value > 0 else ">", (now(env), stop(env)), _place(node))

        inner: list[Statement] = [Set(name, now)]
        inner.append(Set(keys[0], lambda env: apply("+", (now(env), step(env)))))
        first = [Set(key, value) for key, value in zip(keys, bounds, strict=True)]
        return [*first, Loop(more, (*inner, *self.block(body)), _place(node))]

    # --- expressions -------------------------------------------------------------------------------------

    def expression(self, node: ast.expr) -> Expression:
        """An expression; raises ParseError for one that is not read."""
        self.depth += 1
        Most.NESTING.guard(self.depth, "nesting of an expression")
        try:
            return self._expression(node)
        finally:
            self.depth -= 1

    def _expression(self, node: ast.expr) -> Expression:
        position = _place(node)
        match node:
            case ast.Constant(int(value)):
                if abs(value) >= 1 << 62:
                    raise _unread(node, "is past the integers that are read, which end at 2^62")
                made = number(int(value))
                return lambda env: made
            case ast.Name(name):
                return self._name(node, name)
            case ast.BinOp(op=op) if type(op) in _BINARY:
                return self._chain(node)
            case ast.UnaryOp(op, a) if type(op) in _UNARY:
                sign, operand = _UNARY[type(op)], self.expression(a)
                return lambda env: apply(sign, (operand(env),), position)
            case ast.IfExp(test, a, b):
                condition, then, other = map(self.expression, (test, a, b))
                return lambda env: apply("?", (condition(env), then(env), other(env)), position)
            case ast.Compare(first, ops, rest) if all(type(op) in _COMPARED for op in ops):
                return self._compared(position, [first, *rest], [_COMPARED[type(op)] for op in ops])
            case ast.BoolOp(op, parts):
                return self._logical(position, "&&" if isinstance(op, ast.And) else "||", parts)
            case ast.Call(ast.Name(name), arguments, []):
                constants = [self.fixed is not None and not self._of_triton(a) for a in arguments]
                return self._call(node, name, [self.expression(a) for a in arguments], constants)
        raise _unread(node)

    def _chain(self, node: ast.expr) -> Expression:
        """Operators whose left operand is another one: i * 8 + j + 1."""
        links = []
        while isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            links.append(node)
            node = node.left
        first, rest = self.expression(node), []
        triton = self.fixed is not None and self._of_triton(node)
        for link in reversed(links):
            triton = triton or (self.fixed is not None and self._of_triton(link.right))
            symbol = _BINARY[type(link.op)]
            symbol = {"//": "/", "py%": "%"}.get(symbol, symbol) if triton else symbol
            rest.append((symbol, self.expression(link.right), _place(link)))
        return chain(first, rest)

    def _name(self, node: ast.expr, name: str) -> Expression:
        def value(env: Environment) -> Term:
            if name not in env:
                raise ParseError(f"{_place(node)}: {name!r} has no value that is known here")
            return env[name]

        return value

    def _compared(self, position: str, parts: list[ast.expr], symbols: list[str]) -> Expression:
        values = [self.expression(p) for p in parts]

        def value(env: Environment) -> Term:
            terms = [v(env) for v in values]
            out = apply(symbols[0], (terms[0], terms[1]), position)
            for symbol, a, b in zip(symbols[1:], terms[1:], terms[2:], strict=False):
                out = apply("&&", (out, apply(symbol, (a, b), position)), position)
            return out

        return value

    def _logical(self, position: str, symbol: str, parts: list[ast.expr]) -> Expression:
        """`a and b` is one of its operands in Python: b where a is not 0, else a."""
        values = [self.expression(p) for p in parts]

        def value(env: Environment) -> Term:
            out = values[-1](env)
            for operand in reversed(values[:-1]):
                a = operand(env)
                out = apply("?", (a, out, a) if symbol == "&&" else (a, a, out), position)
            return out

        return value

    def _call(
        self, node: ast.expr, name: str, arguments: list[Expression], constants: list[bool]
    ) -> Expression:
        def value(env: Environment) -> Term:
            values = [a(env) for a in arguments]
            if name in env or name in self.changing:
                raise _unread(node, f"of {name}, which is not known before it runs, is not read")
            if name in ("min", "max") and len(values) == 2 and name not in self.functions:
                return apply(name, (values[0], values[1]), _place(node))
            if name == "int" and len(values) == 1 and name not in self.functions:
                return values[0]
            if name not in self.functions:
                raise _unread(node, f"of {name}, a function that is not in the text, is not read")
            if len(self._parameters(self.functions[name])) != len(values):
                raise _unread(node, f"gives {name} {len(values)} arguments")
            Most.CALLS.guard(self.calls + 1, f"calls one inside the other at {_place(node)}")
            self.calls += 1
            names = self._parameters(self.functions[name])
            result = self._run(name, values, [n for n, c in zip(names, constants, strict=True) if c])
            self.calls -= 1
            return result

        return value


def triton_functions(tree: ast.AST) -> frozenset[str]:
    """The names of a module's functions that Triton compiles, by their decorators.

    `triton.jit`, under any name that the module imports it by, with or without arguments.

    >>> sorted(triton_functions(ast.parse("from triton import jit as j\\n@j\\ndef f(i): return i")))
    ['f']
    """
    modules, names = {"triton", "gluon"}, set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                (modules.add if root == "triton" else modules.discard)(alias.asname or root)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "triton":
            for alias in node.names:
                (names if alias.name == "jit" else modules).add(alias.asname or alias.name)
    compiled = set()
    for node in getattr(tree, "body", []):
        for decorator in getattr(node, "decorator_list", []):
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            spelled = ast.unparse(target)
            if spelled in names or (spelled.endswith(".jit") and spelled.partition(".")[0] in modules):
                compiled.add(node.name)
    return frozenset(compiled)


def is_constant(annotation: ast.expr | None) -> bool:
    """Whether a parameter or a variable with this annotation is known when Triton compiles.

    >>> is_constant(ast.parse("n: tl.constexpr").body[0].annotation), is_constant(None)
    (True, False)
    """
    return annotation is not None and "constexpr" in ast.unparse(annotation)


def _changing(body: Sequence[ast.stmt]) -> set[str]:
    """Names of a module that are set in another way than by one plain statement after the other."""
    out: set[str] = set()
    for node in body:
        plain = isinstance(node, (ast.Assign, ast.AnnAssign)) and all(
            isinstance(t, ast.Name) for t in getattr(node, "targets", [getattr(node, "target", None)])
        )
        if isinstance(node, ast.FunctionDef):
            out |= {name for n in ast.walk(node) if isinstance(n, ast.Global) for name in n.names}
        elif isinstance(node, ast.ImportFrom | ast.Import):
            out |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif not plain:
            out |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            out |= {n.name for n in ast.walk(node) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    return out


def _reading(key: str) -> Expression:
    return lambda env: env[key]


def _zero(env: Environment) -> Term:
    return number(0)


def _one(env: Environment) -> Term:
    return number(1)
