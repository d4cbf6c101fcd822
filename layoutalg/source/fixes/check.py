"""Edits that were read again: each element has one place, and everything else is as it was.

The idea.  An edit is not believed.  The changed text is read like the first one, and the accesses of both are
compared one by one, for all threads in all turns: under the same conditions each access that is not to an
array of a fix must be where it was, and those to an array of one must agree on where each of its bytes went:
one place for each byte, no place for two, none out of the memory that the array has, as many wavefronts as
the fix promises.  Where sizes are given, the same must hold for others, if the text has a kernel of these.
What is not read, or is too large to be enumerated, is not offered.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import unified_diff
from math import gcd
from typing import Any

from layoutalg.arch import find_arch
from layoutalg.errors import LayoutAlgError
from layoutalg.source.costs import Launch, cost_of
from layoutalg.source.fixes.arrays import reached, span
from layoutalg.source.fixes.edits import Edit
from layoutalg.source.fixes.remedies import Fix
from layoutalg.source.fixes.sites import Proposal, Texts, proposals
from layoutalg.source.machine import Touch
from layoutalg.source.reading import read_kernel
from layoutalg.source.rows import KernelReading, Question
from layoutalg.source.terms import substitute, variable

MOST_ROUNDS = 4
"""Readings of changed texts, of each kind of fix."""

MOST_ALONE = 4
"""Arrays that are looked at one by one where their edits together are not right."""


def offered(reading: KernelReading, fixes: Sequence[Fix]) -> tuple[Fix, ...]:
    """The fixes, those with edits that were read again and are right."""
    if reading.asked is None or not fixes:
        return tuple(fixes)
    check = _Check(reading, reading.asked, fixes)
    right, texts = check.right(), check.texts
    return tuple(
        replace(fix, edits=right[n], rewrite=(), code="\n".join(_lines(texts, right[n])))
        if n in right
        else fix
        for n, fix in enumerate(fixes)
    )


def patched_fixes(fixes: Sequence[Fix]) -> tuple[Fix, ...]:
    """A fix with edits for each part that has one: by one edit if that does it, else of the least memory."""
    best: dict[tuple[str, str, int, int], Fix] = {}
    for fix in sorted(fixes, key=lambda each: (len(each.edits) > 1, each.extra_bytes)):
        if fix.edits:
            best.setdefault((fix.array, fix.file, fix.line, fix.start), fix)
    return tuple(best.values())


def patch_of(reading: KernelReading, fixes: Sequence[Fix], source: str) -> str:
    """The edits of some fixes as a unified diff; `source` is the path of the text.

    Paths count from the working folder, as tools that apply a diff ask for.
    """
    texts = Texts(reading)
    after = texts.changed([edit for fix in fixes for edit in fix.edits])
    out = []
    for path, one, other in zip(texts.paths, texts.given, after, strict=True):
        a, b = (text.decode("utf-8", "replace").splitlines(keepends=True) for text in (one, other))
        name = os.path.relpath(path or source)
        for line in unified_diff(a, b, name, name):
            out.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(out)


def _lines(texts: Texts, edits: Sequence[Edit]) -> Iterator[str]:
    """The lines that edits change, as they become."""
    after = texts.changed(edits)
    for file, line in sorted({(edit.file, edit.line) for edit in edits}):
        yield after[texts.paths.index(file)].split(b"\n")[line - 1].decode("utf-8", "replace").strip()


# --- read again -----------------------------------------------------------------------------------------


class _Check:
    """The edits of the fixes of a reading."""

    def __init__(self, reading: KernelReading, asked: Question, fixes: Sequence[Fix]) -> None:
        self.reading, self.fixes, self.texts = reading, fixes, Texts(reading)
        self.asked, self.other = asked, _other_sizes(reading, asked)

    def right(self) -> dict[int, tuple[Edit, ...]]:
        """The edits that are right, by the number of the fix."""
        reading, right = self.reading, dict[int, tuple[Edit, ...]]()
        kernels = len(re.findall(rb"\b__global__\b", self.texts.given[0]))
        strict = bool(reading.unfollowed) or any(not a.read and not a.array for a in reading.memory)
        for kind in ("padding", "swizzle"):
            groups: dict[Any, dict[int, Fix]] = {}
            for n, fix in enumerate(self.fixes):
                if fix.kind == kind and not fix.remedy.tile.array.unread:
                    groups.setdefault(fix.remedy.tile.array.declared.key, {})[n] = fix
            every = strict or kernels > len(reading.kernels)
            queues = [proposals(self.texts, own, reading, every) for own in groups.values()]
            for _ in range(MOST_ROUNDS):
                made = [{n: e for n, e in next(queue, {}).items() if n not in right} for queue in queues]
                right |= self._of([own for own in made if own])
        return right

    def _of(self, made: Sequence[Proposal]) -> dict[int, tuple[Edit, ...]]:
        """The right ones of some proposed edits, an array for each proposal."""
        asked = {n: tuple(edits) for own in made for n, edits in own.items()}
        failing = self._failing(asked) if asked else set()
        if not failing:
            return {n: _joined(n, asked) for n in asked}
        if failing < asked.keys():
            return self._of([{n: e for n, e in own.items() if n not in failing} for own in made])
        if 1 < len(made) <= MOST_ALONE:
            return {n: edits for own in made for n, edits in self._of([own]).items()}
        return {}

    def _failing(self, asked: Mapping[int, tuple[Edit, ...]]) -> set[int]:
        """The fixes whose edits are not right; all of them where something else changed."""
        after = self.texts.changed([edit for edits in asked.values() for edit in edits])
        owners = [self._owner(touch, asked) for touch in self.reading.touches]
        try:
            again = self._again(self.asked, after)
            failing = _astray(self.reading, again, owners) | _unkept(again, owners, self.fixes)
            if not failing and self.other and self.elsewhere and not all(map(self._declares, asked)):
                failing = _astray(self.elsewhere, self._again(self.other, after), owners)
        except LayoutAlgError:
            return {*asked}
        return (failing & asked.keys() or {*asked}) if failing else set()

    @functools.cached_property
    def elsewhere(self) -> KernelReading | None:
        """The text read for other sizes; None where no sizes were given, or it has no kernel of these."""
        try:
            return None if self.other is None else self._again(self.other, self.texts.given)
        except LayoutAlgError:
            return None

    def _again(self, asked: Question, texts: Sequence[bytes]) -> KernelReading:
        """The answer to a question, of changed texts."""
        own, *headers = (text.decode("utf-8", "replace") for text in texts)
        changed = dict(zip(self.reading.paths[1:], headers, strict=True))
        return read_kernel(**asked._replace(text=own, changed=changed)._asdict())

    def _declares(self, number: int) -> bool:
        """Whether a fix only changes a declaration that all uses go by, whatever the sizes are."""
        fix = self.fixes[number]
        return fix.kind == "padding" and len(fix.remedy.tile.array.dims) > 1 and not fix.hinder

    def _owner(self, touch: Touch, asked: Collection[int]) -> int | None:
        """The number of the fix that moves an access, -1 of others of its array; None in other arrays."""
        if touch.declared is None:
            return None
        own = [n for n in asked if self.fixes[n].remedy.tile.array.declared.key == touch.declared.key]
        low, high = span(touch, Launch(touch.block, self.reading.grid)) if own else (0, 0)
        inside = (n for n in own if self.fixes[n].start <= low and high <= self.fixes[n].end)
        return next(inside, -1 if own else None)


def _joined(number: int, edits: Mapping[int, tuple[Edit, ...]]) -> tuple[Edit, ...]:
    """The edits of a fix with those of all that change a place in common with it."""
    own = set(edits[number])
    while more := {e for others in edits.values() if own & set(others) for e in others} - own:
        own |= more
    return tuple(sorted(own))


def _other_sizes(reading: KernelReading, asked: Question) -> Question | None:
    """The question with other sizes than were given, and a block: one less if sides of the block are among
    them, for a block has not more threads than a tile, else one more."""
    given = asked.sets or {}
    sizes = {n: int(v) for n, v in given.items() if str(v).isdecimal() and int(v) > 1 and "." not in n}
    tied = {*reading.block} & {*sizes.values()}
    block = None if asked.block is None else tuple(side - (side in tied) for side in reading.block)
    others = {n: v - 1 if tied else v + 1 for n, v in sizes.items()}
    return asked._replace(block=block, sets={**given, **others}) if sizes else None


def _unkept(again: KernelReading, owners: Sequence[int | None], fixes: Sequence[Fix]) -> set[int]:
    """The fixes after which the accesses cost anything but what was promised."""
    machine = find_arch(again.arch)
    totals: dict[int, int] = {}
    for touch, owner in zip(again.touches, owners, strict=False):
        if owner is not None and owner >= 0:
            totals[owner] = (
                totals.get(owner, 0) + cost_of(touch, Launch(touch.block, again.grid), machine).total
            )
    return {n for n, total in totals.items() if total != fixes[n].after}


def _astray(before: KernelReading, after: KernelReading, owners: Sequence[int | None]) -> set[int]:
    """The fixes that take accesses where others do not find their bytes; all where something else changed."""
    every = {owner for owner in owners if owner is not None}
    pairs = (
        (before.touches, after.touches), (before.unread, after.unread), (before.shared, after.shared),
        (before.unfollowed, after.unfollowed), (before.memory, after.memory), (before.touches, owners),
    )  # fmt: skip
    if any(len(a) != len(b) for a, b in pairs):
        return every
    moves: dict[Any, list[tuple[int, int, Any]]] = {}
    for a, b, owner in zip(before.touches, after.touches, owners, strict=True):
        both = _places(a, b, Launch(a.block, before.grid), owner is None)
        if both is None or (owner is None and (both[0] != both[1]).any()):
            return every
        if owner is not None and a.declared is not None:
            moves.setdefault(a.declared.key, []).append((owner, a.width, both))
    failing: set[int] = set()
    for one, other in zip(before.shared, after.shared, strict=True):
        if own := moves.get(one.key):
            failing |= _collisions(own, other.type.bytes)
    return failing


def _places(a: Touch, b: Touch, launch: Launch, still: bool) -> Any:
    """The offsets of an access and those that it then has, in two rows; None where it became another one.

    They are not enumerated where it is to be `still`, and is.
    """
    import numpy as np

    if (a.op, a.width, a.array, a.block) != (b.op, b.width, b.array, b.block):
        return None
    if [n for _, n in a.turns] != [n for _, n in b.turns]:
        return None
    names = {m: variable(n, 0, max(last - 1, 0)) for (n, last), (m, _) in zip(a.turns, b.turns, strict=True)}
    there = substitute(b.offset, names)
    conditions = tuple(substitute(c, names) for c in b.conditions)
    alike = [c.key for c in a.conditions] == [c.key for c in conditions]
    if still and alike and there.key == a.offset.key:
        return np.zeros((2, 0), dtype=np.int64)
    at, on, *new = reached(a, launch, there)
    other = on if alike else reached(replace(a, conditions=conditions), launch)[1]
    if at is None or other is None or on.shape != other.shape or (on != other).any():
        return None
    return np.unique(np.stack([np.broadcast_to(each, on.shape)[on] for each in (at, *new)]), axis=1)


def _collisions(moves: Sequence[tuple[int, int, Any]], declared: int) -> set[int]:
    """The fixes by which a byte has two places or a place two bytes, or is out of the `declared` ones, of an
    array of the launch out of those that it had."""
    import numpy as np

    units = [np.gcd.reduce(places, axis=None) for *_, places in moves if places.size]
    step = gcd(*(width for _, width, _ in moves), *map(int, units))
    parts = [(owner, places + at) for owner, width, places in moves for at in range(0, width, step)]
    places = np.concatenate([each for _, each in parts], axis=1)
    owners = np.concatenate([np.full(each.shape[1], owner) for owner, each in parts])
    end = declared or int(places[0].max(initial=0)) + step
    wrong = (places[1] < 0) | (places[1] + step > end)
    left = np.zeros_like(wrong)  # what comes to where another part was is to blame, and not that part
    for owner in np.unique(owners):
        own = owners == owner
        left[own] = (places[1][own] < places[0][own].min()) | (places[1][own] > places[0][own].max())
    for first, second in (places, places[::-1]):
        order = np.lexsort((second, first))
        same = np.flatnonzero((np.diff(first[order]) == 0) & (np.diff(second[order]) != 0))
        for one, other in ((order[same], order[same + 1]), (order[same + 1], order[same])):
            wrong[one[left[one] | ~left[other]]] = True
    return {int(owner) for owner in np.unique(owners[wrong])}
