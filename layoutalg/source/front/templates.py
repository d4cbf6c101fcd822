"""Templates: the instance of a kernel that is read, out of the uses that a text has for it.

The idea.  The uses of a template stand behind the text, each in a namespace of its own, and one parse tells
those that make an instance.  Where a use has open names, or nothing uses the kernel, values are taken for
them, which the reading tells: by their kind the first that the front end accepts.  It is asked of all changes
of one value in one parse, and the change with the fewest errors is the next to start from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from layoutalg.source.front.cursors import instance_in, qualified, template_parameters
from layoutalg.source.front.launches import (
    DEPTH,
    FUNCTION,
    Instance,
    as_of,
    bracketed,
    closed,
    declared,
    is_integer,
    is_type,
    parts_of,
    with_values,
    without_values,
    words_in,
)  # fmt: skip

ROUNDS = 6
"""Times that names which are declared nowhere are declared."""

MOST_TRIED = 24
"""Uses of a template of which the first is read that makes an instance."""

MOST_OPENED = 4
"""Uses of a template whose open names get values."""

MOST_CHANGED = 64
"""Values of an open name that are tried in one parse."""

MOST_OPTIONS = 24
"""Values that are tried for an open template parameter."""

UNKNOWN = re.compile(r"(?:use of undeclared identifier|unknown type name|no template named) '(\w+)'")

_DECLARED = re.compile(r"(using|(?:static\s+|constexpr\s+|const\s+)+([\w\s:]+?))\s+(\w+)\s*=\s*([^;{}]*);")
_CLASS = re.compile(r"\btemplate\s*<[^<>]*>\s*(?:struct|class)\s+(\w+)\s*[{:]")
_TYPES = ("float", "__half", "int", "double", "unsigned char")
_NUMBERS = ("32", "128", "1", "64", "4", "8", "16", "256", "2")


def tails(name: str, use: Instance, form: str = "") -> list[str]:
    """Functions that use a kernel as a text does: by its arguments in angle brackets, and by its calls.

    `form` declares layoutalg_form, the type of a kernel that has other ones of its name beside it.
    """
    arguments = f"<{', '.join(use.arguments)}>"
    explicit = f"{name}{arguments}"
    outer = use.parameters if "decltype" in explicit and use.parameters else "()"
    kind = f"layoutalg_form{arguments}*" if form else "auto"
    bodies = [] if use.values and not use.arguments else [(outer, f"{kind} p = &{explicit};")]
    if use.values:
        called = explicit if use.arguments else name
        for variables in dict.fromkeys((use.variables, without_values(use.variables))):
            bodies.append((use.parameters or "()", f"{variables}{called}<<<1, 1>>>{use.values};"))
    return [
        f"{form}{use.outside(name)}\nvoid use{head} {{ {use.declared}{body} }}{use.ends}"
        for head, body in bodies
    ]


def form_of(texts: Any, kernel: Any) -> str:
    """The declaration of layoutalg_form, the type that a template of a kernel has, as a template."""
    text = texts.find(kernel.location.file.name)
    start, end = kernel.extent.start.offset, kernel.location.offset
    head = text.left[start:end].decode("utf-8", "replace")
    rest = text.left[end : kernel.extent.end.offset].decode("utf-8", "replace")
    opened = re.match(r"\s*template\s*<", head)
    if opened is None:
        return ""
    return f"{head[: closed(head, opened.end(), '>')]} using layoutalg_form = void{bracketed(rest)};\n"


def own_uses(parser: Any, kernel: Any, uses: list[Instance]) -> list[Instance]:
    """The uses of a kernel that has others of its name beside it, without those that make another one."""
    calls = [tails(qualified(kernel), use)[-1] if use.values else "" for use in uses]
    unit, errors = parser.tried(calls)
    out = []
    for number, (use, (wrong, _)) in enumerate(zip(uses, errors, strict=True)):
        made = None if wrong else instance_in(unit.cursor, f"layoutalg_use{number}", kernel.spelling)
        places = [(at.location.file.name, at.location.offset) for at in (made or kernel, kernel)]
        if places[0] == places[1]:
            out.append(use)
    return out


def declarable(kind: str, value: str) -> bool:
    """Whether a value of a kind is declared by its name; a device function is not a constant of the host."""
    return value.isdigit() or is_integer(kind) or is_type(kind) or value == FUNCTION


def options(kind: str, name: str, text: str, functions: Sequence[str]) -> list[str]:
    """Values that an open template parameter is read with, the first that make an instance.

    Types; of a number those with which the text compares it, and usual ones; templates of classes; functions
    of the text, or else one without a body; of others both.
    """
    if is_type(kind):
        return [*_TYPES]
    if kind == "template":
        return [*dict.fromkeys(_CLASS.findall(text)), "std::layoutalg_template"][:MOST_OPTIONS]
    if kind.split()[-1] == "bool":
        return ["false", "true"]
    word = re.escape(name)
    compared = re.findall(rf"\b{word}\s*[=!<>]=?\s*(\d+)\b|\b(\d+)\s*[=!<>]=?\s*{word}\b", text)
    numbers = [*dict.fromkeys((_NUMBERS[0], *(a or b for a, b in compared), *_NUMBERS))][:MOST_OPTIONS]
    if is_integer(kind):
        return numbers
    return [*functions[:MOST_OPTIONS], *([FUNCTION] if FUNCTION in kind else "0123")]


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

    def __init__(self, parser: Any, kernel: Any, uses: list[Instance], form: str) -> None:
        """`form` declares the type of a kernel that has others of its name; see `tails`."""
        self.parser, self.kernel, self.form = parser, kernel, form
        self.parameters = template_parameters(kernel)
        names = [p["name"] for p in self.parameters if p["kind"] != "pack"]
        wanted = [i for i, p in enumerate(self.parameters) if p["name"] in parser.sets or not p["default"]]
        self.needed = [p for p in self.parameters[: max(wanted, default=-1) + 1] if p["kind"] != "pack"]
        open_ = tuple((p["type"], p["name"]) for p in self.needed if p["name"] not in parser.sets)
        self.bare = Instance(tuple(self._argument(p) for p in self.needed), open=open_)
        self.uses = []
        for use in dict.fromkeys(uses):
            parser.used |= parser.sets.keys() & words_in([use.bound])
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
        told = ((n, "a function" if v == FUNCTION else v) for n, v in best.taken.items())
        taken = tuple(pair for pair in told if pair[0] not in sets)
        return Choice(best.target, "", self._others(best.use), best.use, best.made, taken)

    def _argument(self, parameter: dict[str, Any]) -> str:
        """A template argument: the value that is given, else the name that gets one."""
        name, kind = parameter["name"], parameter["type"]
        return as_of(kind, self.parser.sets.get(name, name))

    def _trials(self, use: Instance, values: dict[str, str], kinds: dict[str, str]) -> list[Trial]:
        """A use, with values for its open names, as text in each way."""
        functions = {name: v for name, v in values.items() if not declarable(kinds[name], v)}
        bound = "".join(declared(kinds[n], n, v) for n, v in values.items() if n not in functions)
        arguments = tuple(with_values(functions, argument) for argument in use.arguments)
        made = use._replace(arguments=arguments, bound=bound + use.bound)
        return [Trial(use, made, values, tail) for tail in tails(qualified(self.kernel), made, self.form)]

    def _judged(self, trials: list[Trial]) -> list[Trial]:
        """Trials with their errors, and with the unit that has them where all are their own.

        Of trials with the same instance the front end tells the first alone what is wrong in it.
        """
        unit, errors = self.parser.tried([trial.tail for trial in trials])
        clean = None if any(inner for _, inner in errors) else unit
        made = [(trial.made.arguments, trial.made.bound, trial.made.declared) for trial in trials]
        most = {key: max(n for k, (_, n) in zip(made, errors, strict=True) if k == key) for key in made}
        return [
            trial._replace(own=own, inner=most[key], unit=clean, number=number)
            for number, (trial, key, (own, _)) in enumerate(zip(trials, made, errors, strict=True))
        ]

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
        target = instance_in(unit.cursor, f"layoutalg_use{number}", self.kernel.spelling)
        return None if target is None else trial._replace(target=target)

    def _opened(self, use: Instance) -> Trial | None:
        """A use with the first values for its open names with which it has the fewest errors."""
        origin, kinds = use, {name: kind for kind, name in use.open}
        best: Trial | None = None
        for _ in range(ROUNDS):
            values = {name: self._options(name, kind)[0] for name, kind in kinds.items()}
            best = min(self._judged(self._trials(use, values, kinds)), key=_errors)
            here = {found[3] for found in _DECLARED.finditer(use.declared + use.bound)}
            names = (UNKNOWN.match(message) for message in best.own)
            unknown = [found for found in names if found is not None and found[1] not in here]
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
        return str(kinds.get(found[1], "typename" if "type" in found[0] or used else "int"))

    def _options(self, name: str, kind: str) -> list[str]:
        """Values of an open name: that which is given, else those of its kind."""
        if name in self.parser.sets:
            self.parser.used.add(name)
            return [self.parser.sets[name]]
        text = "".join(text.given.decode("utf-8", "replace") for text in self.parser.texts)
        result, _, of = kind.partition(FUNCTION)
        alike = re.compile(rf"\b{re.escape(result.strip())}\s+\w+\s*\Z" if of else "")
        functions = [
            f.name
            for t in self.parser.texts
            for f in t.census.functions
            if f.device and not f.kernel and t.left[f.start : f.start + 1] == b"{"
            and (not of or (alike.search(f.words[: -len(f.parameters)])
                 and len(parts_of(f.parameters.strip()[1:-1])) == len(parts_of(of.strip()[1:-1]))))
        ]  # fmt: skip
        return options(kind, name, text, [*dict.fromkeys(functions)])

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
    """A use without the declarations that need an undeclared name, and the kinds of what they declare.

    A plain name, of which nothing is asked there, gets a value itself.
    """
    kinds: dict[str, str] = {}
    if re.search(rf"\b{re.escape(name)}\s*(?:[.(\[<]|->|::)", use.declared + use.bound) is None:
        return use, kinds

    def gone(found: re.Match[str]) -> str:
        if name not in words_in([found[4]]):
            return str(found[0])
        kinds[found[3]] = "typename" if found[2] is None else found[2]
        return ""

    declared_, bound = (_DECLARED.sub(gone, text) for text in (use.declared, use.bound))
    return use._replace(declared=declared_, bound=bound), kinds


def _errors(trial: Trial) -> tuple[int, int]:
    return len(trial.own), trial.inner
