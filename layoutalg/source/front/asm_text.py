"""The parts of an asm statement, out of its text: libclang's tree does not have them.

>>> found = sections('"mov.u32 %0, %1;" : "=r"(v) : "r"(t));', 0)
>>> found["text"], found["outputs"], found["kept"]
('mov.u32 %0, %1;', 1, [])
"""

from __future__ import annotations

import re
from typing import Any

ASM = re.compile(
    r"(?:__asm__|__asm|asm)\b[\s\\]*(?:(?:volatile|__volatile__|__volatile|inline|goto)[\s\\]*)*\("
)
_TOKEN = re.compile(r'"((?:\\.|[^"\\])*)"|//[^\n]*|/\*.*?\*/|[()\[\]:]', re.DOTALL)


def sections(text: str, at: int) -> Any:
    """{"text", "outputs", "kept"} of what follows the bracket of an asm statement: its strings, how many
    operands it sets, and which of those it reads too."""
    sections: list[list[str]] = [[]]
    depth = 1
    while depth:
        match = _TOKEN.search(text, at)
        if match is None or (len(sections) == 1 and text[at : match.start()].strip("\\ \t\r\n")):
            return None  # the end is missing, or a part of the instructions is not a string
        at = match.end()
        if match[1] is not None:
            sections[-1].append(match[1])
        elif match[0] in "([":
            depth += 1
        elif match[0] in ")]":
            depth -= 1
        elif match[0] == ":" and depth == 1:
            sections.append([])
    template = "".join(sections[0]).replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
    operands = [*sections[1:3], [], []]
    return {
        "text": template,
        "outputs": len(operands[0]),
        "kept": [i for i, c in enumerate(operands[0]) if "+" in c],
    }


def in_macro(texts: list[str], name: str, entered: set[str]) -> list[Any]:
    """The asm statements that a macro writes, those of macros that it names with them."""
    if name in entered:
        return []
    entered.add(name)
    pattern = re.compile(rf"^[ \t]*#[ \t]*define[ \t]+{re.escape(name)}\b((?:\\\r?\n|[^\n])*)", re.MULTILINE)
    statements = []
    for text in texts:
        for match in pattern.finditer(text):
            body = re.sub(r"\\\r?\n", " ", match[1])
            for word in re.finditer(r"\b\w+\b", body):
                opened = ASM.match(body, word.start())
                if opened is not None:
                    statements.append(sections(body, opened.end()))
                elif word[0].isupper() or "asm" in word[0]:
                    statements += in_macro(texts, word[0], entered)
    return statements
