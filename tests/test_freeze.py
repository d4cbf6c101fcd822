"""The names that programs count on are there, with signatures that take every call they took; what was
refused is refused by an error of the same class.  `python -m tests.frozen.freeze` prints every difference."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator

import pytest

from tests.frozen import freeze


def calls(takes: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """The calls that a signature took: with the least, all by position, all by name."""
    split = takes.index("*") if "*" in takes else len(takes)
    by_place, by_name = takes[:split], takes[split + 1 :]
    least = [name for name in by_name if not name.endswith("=")]
    every = [name.rstrip("=") for name in by_name]
    yield [name for name in by_place if not name.endswith("=")], least
    yield by_place, every
    yield [], [name.rstrip("=") for name in by_place] + every


def test_stable_names_take_what_they_took() -> None:
    stored, wrong = freeze.stored(freeze.NAMES)["modules"], []
    for module, names in freeze.STABLE.items():
        face = importlib.import_module(module)
        for name in names:
            if not hasattr(face, name):
                wrong.append(f"{module}.{name} is not there")
                continue
            record = stored[module][name]
            value = getattr(face, name)
            signature = freeze.signature_of(value)
            if lost := [key for key in record.get("keys", ()) if key not in value]:
                wrong.append(f"{module}.{name} has lost {lost}")
            for positional, named in calls(record["takes"]) if "takes" in record else ():
                try:
                    if signature is not None:
                        signature.bind(*positional, **dict.fromkeys(named))
                except TypeError as error:
                    wrong.append(f"{module}.{name} took {positional} and {named}: {error}")
    assert not wrong, "\n".join(wrong)


def test_a_signature_that_takes_less_is_found() -> None:
    def then(a: int, b: int = 0, *, c: int = 0) -> None: ...
    def now(a: int, *, c: int = 0) -> None: ...
    def more(a: int, b: int = 0, d: int = 0, *, c: int = 0, e: int = 0) -> None: ...

    taken = freeze.taken(inspect.signature(then))
    assert taken == ["a", "b=", "*", "c="]
    for positional, named in calls(taken):
        inspect.signature(more).bind(*positional, **dict.fromkeys(named))
    with pytest.raises(TypeError):
        for positional, named in calls(taken):
            inspect.signature(now).bind(*positional, **dict.fromkeys(named))


def test_the_command_takes_what_it_took_and_says_what_it_said() -> None:
    stored, now = freeze.stored(freeze.NAMES), freeze.names_now()
    lost = [
        f"layoutalg {name} {option}"
        for name, options in stored["command"].items()
        for option in options
        if option.startswith("-") and option not in now["command"].get(name, ())
    ]
    assert not lost
    assert set(stored["json"]) <= set(now["json"])


def test_what_was_refused_is_refused_by_the_same_class() -> None:
    before, now = freeze.stored(freeze.TEXTS), freeze.texts_now()
    assert len(before) >= 200
    changed = [
        f"{old.get('call', old.get('command'))}: {old.get('error', old.get('exit'))} before, "
        f"now {new.get('error', new.get('exit'))}: {new['text']}"
        for old, new in zip(before, now, strict=True)
        if (old.get("error"), old.get("exit")) != (new.get("error"), new.get("exit"))
    ]
    assert not changed, "\n".join(changed)
