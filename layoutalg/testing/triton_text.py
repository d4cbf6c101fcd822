"""Functions of Triton in a Python text: which they are, and the text with integers that divide as Triton's.

The idea.  Triton compiles the integers of a jit function to C's: `//` rounds towards zero and `%` has the
sign of its first operand.  Only what is known when it compiles (literals, constants of the module,
parameters that are tl.constexpr) is Python's.  Run as Python, such a function is another one where a number
is negative; here its arguments, and all that it assigns or returns, become `Number`, which divides as C does.

>>> text = "@triton.jit\\ndef f(row, col):\\n    return (col - row) % 8"
>>> space = {"triton": type("triton", (), {"jit": staticmethod(lambda f: f)})}
>>> exec(with_numbers(text), space)
>>> space["f"](space["layoutalg_number"](5), 2)
-3
"""

from __future__ import annotations

import ast

from layoutalg.reading import is_constant, triton_functions
from layoutalg.testing.cuda_shim import text_of


class _Numbers(ast.NodeTransformer):
    """Rewrites a function of Triton so that what it assigns and returns is a Number."""

    def _number(self, value: ast.expr) -> ast.expr:
        return ast.copy_location(ast.Call(ast.Name("layoutalg_made", ast.Load()), [value], []), value)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        node.value = self._number(node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None and not is_constant(node.annotation):
            node.value = self._number(node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        read = ast.parse(ast.unparse(node.target), mode="eval").body
        value = self._number(ast.BinOp(read, node.op, node.value))
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if node.value is not None:
            node.value = self._number(node.value)
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.target, ast.Name) and "static_range" not in ast.unparse(node.iter):
            first = ast.Assign([ast.Name(node.target.id, ast.Store())],
                               self._number(ast.Name(node.target.id, ast.Load())))  # fmt: skip
            node.body.insert(0, ast.copy_location(first, node))
        return node


def with_numbers(text: str) -> str:
    """A text whose functions of Triton divide as Triton does; other texts as they are.

    `layoutalg_constants` has for each of those functions which of its parameters are tl.constexpr; a text
    that is not Python stays as it is.  Source: triton/compiler/code_generator.py, `visit_Assign`, and
    triton/language/semantic.py, `floordiv` and `mod`.

    >>> with_numbers("def f(i): return i // 2")
    'def f(i): return i // 2'
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text  # running it says what is wrong
    compiled = triton_functions(tree)
    if not compiled:
        return text
    constants = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in compiled:
            parameters = [*node.args.posonlyargs, *node.args.args]
            constants[node.name] = [is_constant(a.annotation) for a in parameters]
            node.body = [_Numbers().visit(statement) for statement in node.body]
    future = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
    tree.body = [n for n in tree.body if n not in future]
    changed = ast.unparse(ast.fix_missing_locations(tree))
    head = "".join(f"{ast.unparse(n)}\n" for n in future)
    return f"{head}{text_of('triton_numbers.txt')}\nlayoutalg_constants = {constants!r}\n{changed}\n"
