"""A file of checks: layoutalg.toml, or [tool.layoutalg] of pyproject.toml, read into checks.

    [defaults]                      # keys of all checks, where they have none of their own
    arch = "sm_90"
    dtype = "f16"
    baseline = "layouts.json"       # the file of numbers that "no worse than the baseline" compares with

    [tiles]                         # layouts by name
    a = "Sw<3,3,3> o 0 o (64,64):(64,1)"

    [[access]]                      # a table per check, of one of the KINDS
    name = "loads of A"
    tile = "a"
    access = "ldmatrix.x4"
    limits = ["ways <= 1"]

Nothing is run while a file is read.  An error is reported with the file's name, the line, the key, what is
accepted, and the nearest name.

>>> checks = read_checks('[[layout]]\\ntile = "(8,8):(8,1)"\\nlimits = ["bijective"]\\n').checks
>>> checks[0].name, checks[0].line
('(8,8):(8,1)', 1)
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from layoutalg.checks.fields import Field, Kind, Reading, Values, a_layout, a_name, a_text
from layoutalg.checks.functions import FUNCTION
from layoutalg.checks.kernels import KERNEL
from layoutalg.checks.layouts import ACCESS, LAYOUT, MEMORY, TMA, WGMMA
from layoutalg.checks.limits import BASELINE, Limit, read_limit
from layoutalg.checks.toml_lines import Path as Keys
from layoutalg.checks.toml_lines import nearest_line, toml_lines
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ParseError, UnknownNameError
from layoutalg.limits import Most

KINDS: Mapping[str, Kind] = {
    kind.name: kind for kind in (ACCESS, LAYOUT, TMA, WGMMA, MEMORY, FUNCTION, KERNEL)
}
"""ADD A KIND OF CHECK HERE: one record."""

NAMES = ("layoutalg.toml", "pyproject.toml")
"""Files that are looked for where none is named."""

_SETTINGS = (
    Field("baseline", "the file of a baseline", a_text),
    *dict.fromkeys(field for kind in KINDS.values() for field in kind.fields if field.shared),
)


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its kind, its name, the line of its table, its values and its limits.

    >>> read_checks('[[layout]]\\ntile = "4:1"\\nlimits = ["injective"]').checks[0].limits[0].text
    'injective'
    """

    kind: Kind
    name: str
    line: int
    values: Values
    limits: tuple[Limit, ...]

    @property
    def source(self) -> str:
        """The path of the source that it is about; "" where it is about none."""
        path, _ = self.values.get("file", ("", ""))
        return str(path)


@dataclass(frozen=True, slots=True)
class CheckFile:
    """The checks of a file; `label` is its name in messages, `baseline` the file that it names, or None.

    >>> read_checks('[[layout]]\\ntile = "4:1"\\nlimits = ["injective"]').label
    'layoutalg.toml'
    """

    label: str
    checks: tuple[Check, ...]
    baseline: Path | None = None


def find_check_file(folder: Path) -> Path:
    """layoutalg.toml of a folder, or its pyproject.toml where that has a table [tool.layoutalg].

    Raises ParseError where there is neither.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     find_check_file(Path(empty))
    Traceback (most recent call last):
    ...
    layoutalg.errors.ParseError: no file of checks: neither layoutalg.toml nor a pyproject.toml with
    [tool.layoutalg] is here; name a file
    """
    own, project = (folder / name for name in NAMES)
    if own.is_file():
        return own
    if project.is_file() and "tool.layoutalg" in Most.TEXT.read_text(project):
        return project
    raise ParseError(
        "no file of checks: neither layoutalg.toml nor a pyproject.toml with [tool.layoutalg] is here; "
        "name a file"
    )


def load_checks(path: Path) -> CheckFile:
    """The checks of a file.

    Raises ParseError with file, line and key for what is not understood, ResourceError for a file past
    Most.TEXT, OSError.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "layoutalg.toml"
    ...     _ = path.write_text('[[layout]]\\ntile = "4:1"\\nlimits = ["injectiv"]')
    ...     load_checks(path)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    layoutalg.errors.ParseError: layoutalg.toml, line 3, limits: unknown limit 'injectiv': did you mean
    'injective'? accepted are injective, ...
    """
    return read_checks(Most.TEXT.read_text(path), path.name, path.parent)


def read_checks(text: str, label: str = "layoutalg.toml", folder: Path | None = None) -> CheckFile:
    """The checks of a text; paths in it start from `folder`, by default the current one.

    A label that ends with pyproject.toml says that they are under [tool.layoutalg].  Raises ParseError.

    >>> read_checks("[[acess]]")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    layoutalg.errors.ParseError: layoutalg.toml, line 1: unknown table 'acess': did you mean 'access'? ...
    """
    return _Reader(text, label, Path() if folder is None else folder).read()


class _Reader:
    """The values of a text, each read with its place at hand."""

    def __init__(self, text: str, label: str, folder: Path) -> None:
        self.text, self.label, self.folder = text, label, folder
        self.lines: dict[Keys, int] = {}
        self.root: Keys = ()

    def read(self) -> CheckFile:
        """The whole file."""
        table = self._parsed()
        self.lines = toml_lines(self.text)
        if self.label.endswith("pyproject.toml"):
            self.root = ("tool", "layoutalg")
            table = self._table(self._table(table, "tool", ()), "layoutalg", ("tool",))
        known = ("defaults", "tiles", *KINDS)
        for name in table:
            if name not in known:
                self._refuse((name,), UnknownNameError("table", name, known), key=False)
        reading = Reading(self._tiles(table), self.folder)
        defaults = self._defaults(table, reading)
        checks: list[Check] = []
        lines: dict[str, int] = {}
        for check in self._checks(table, reading, defaults):
            if check.name in lines:
                self._fail(
                    check.line,
                    "name",
                    f"the check of line {lines[check.name]} is called {check.name!r} as well: give one of "
                    f"them a name",
                )
            lines[check.name] = check.line
            checks.append(check)
        if not checks:
            accepted = ", ".join(f"[[{name}]]" for name in KINDS)
            self._fail(1, "", f"there is no check: one of the tables {accepted} is needed")
        baseline = defaults.get("baseline")
        return CheckFile(
            self.label,
            tuple(sorted(checks, key=lambda check: check.line)),
            None if baseline is None else self.folder / baseline,
        )

    # --- tables ------------------------------------------------------------------------------------------

    def _parsed(self) -> dict[str, Any]:
        try:
            return tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            raise ParseError(f"{self.label} is not TOML: {error}") from None
        except RecursionError:
            raise ParseError(f"{self.label} is not TOML that can be read: it is nested too deep") from None
        except ValueError as error:  # an integer of more digits than Python reads
            raise ParseError(f"{self.label} is not TOML that can be read: {error}") from None

    def _table(self, parent: Mapping[str, Any], name: str, path: Keys) -> dict[str, Any]:
        value = parent.get(name, {})
        if not isinstance(value, dict):
            line = nearest_line(self.lines, (*path, name))
            self._fail(line, name, f"this is not a table: write [{name}]")
        return value

    def _tiles(self, table: Mapping[str, Any]) -> dict[str, Any]:
        tiles = self._table(table, "tiles", self.root)
        empty = Reading({}, self.folder)
        for name, value in tiles.items():
            try:
                a_name(name, empty)
                a_layout(value, empty)
            except LayoutAlgError as error:
                self._refuse(("tiles", name), error)
        return tiles

    def _defaults(self, table: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
        raw = self._table(table, "defaults", self.root)
        fields = {field.key: field for field in _SETTINGS}
        return {key: self._value(("defaults",), fields, key, value, reading) for key, value in raw.items()}

    def _checks(
        self, table: Mapping[str, Any], reading: Reading, defaults: Mapping[str, Any]
    ) -> Iterator[Check]:
        for name, kind in KINDS.items():
            entries = table.get(name, [])
            if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
                self._refuse((name,), ArgumentTypeError(f"a check is a table: write [[{name}]]"), key=False)
            for number, entry in enumerate(entries):
                yield from self._check((name, number), kind, entry, reading, defaults)

    def _check(
        self,
        path: Keys,
        kind: Kind,
        entry: Mapping[str, Any],
        reading: Reading,
        defaults: Mapping[str, Any],
    ) -> Iterator[Check]:
        """The checks of one table: one, or one per entry of the key that may be a list."""
        fields = {field.key: field for field in kind.fields}
        own = Field("name", "a line of text", a_name), Field("limits", "a list of texts", _limit_texts)
        fields |= {field.key: field for field in own}
        several = next((f.key for f in kind.fields if f.each and isinstance(entry.get(f.key), list)), None)
        entries = [entry]
        if several is not None:
            if not entry[several]:
                self._refuse((*path, several), ArgumentTypeError("the list is empty"))
            entries = [{**entry, several: row} for row in entry[several]]
        for row in entries:
            values: dict[str, Any] = {field.key: field.default for field in kind.fields}
            values |= {key: value for key, value in defaults.items() if key in values}
            values |= {key: self._value(path, fields, key, value, reading) for key, value in row.items()}
            for field in kind.fields:
                if field.required and field.key not in row:
                    self._refuse(
                        path, ArgumentTypeError(f"a check needs the key {field.key}: {field.what}"), key=False
                    )
            name = values.get("name")
            if name is None:
                name = kind.label(row)
            elif several is not None:
                name = f"{name}, {values[several]}"
            limits = self._limits(path, kind, values, reading)
            yield Check(kind, name, self._line(path), values, limits)

    def _limits(self, path: Keys, kind: Kind, values: Values, reading: Reading) -> tuple[Limit, ...]:
        texts = values.get("limits", ())
        if not texts and not kind.always:
            example = next(iter((*kind.properties(values), *kind.quantities(values))), "")
            self._refuse(
                path,
                ArgumentTypeError(f"a check needs the key limits: a list of texts, such as {example!r}"),
                key=False,
            )
        limits = [Limit(name, self._line(path), name) for name in kind.always]
        for number, text in enumerate(texts):
            line = self._line((*path, "limits", number))
            try:
                quantities, properties = kind.quantities(values), kind.properties(values)
                limits.append(read_limit(text, quantities, properties, reading, line=line))
            except LayoutAlgError as error:
                self._refuse((*path, "limits", number), error)
            if limits[-1].name == BASELINE and not quantities:
                self._refuse(
                    (*path, "limits", number), ArgumentTypeError(f"a check of {kind.name} has no numbers")
                )
        return tuple(limits)

    # --- values and places -------------------------------------------------------------------------------

    def _value(
        self, path: Keys, fields: Mapping[str, Field], key: str, value: object, reading: Reading
    ) -> Any:
        if key not in fields:
            self._refuse((*path, key), UnknownNameError("key", key, fields), key=False)
        try:
            return fields[key].read(value, reading)
        except LayoutAlgError as error:
            self._refuse((*path, key), error, accepted=fields[key].what)

    def _line(self, path: Keys) -> int:
        return nearest_line(self.lines, (*self.root, *path))

    def _refuse(self, path: Keys, error: LayoutAlgError, *, key: bool = True, accepted: str = "") -> NoReturn:
        """Raise what a reader found wrong as an error of this place in the file."""
        named = next((part for part in reversed(path) if isinstance(part, str)), "") if key else ""
        message = error.message
        if accepted and "accepted are" not in message:
            message += f"; accepted is {accepted}"
        self._fail(self._line(path), named, message)

    def _fail(self, line: int, key: str, message: str) -> NoReturn:
        where = f"{self.label}, line {line}" + (f", {key}" if key else "")
        position = 0
        for _ in range(line - 1):
            position = self.text.find("\n", position) + 1
        raise ParseError(f"{where}: {message}", text=self.text, position=position)


def _limit_texts(value: Any, reading: Reading) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ArgumentTypeError("limits are a list of texts")
    return tuple(a_text(text, reading) for text in value)
