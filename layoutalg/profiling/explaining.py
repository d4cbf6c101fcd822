"""Findings: each line's counters, the access it is, what is not a conflict, and the layout to take.

explain_launch(launch)                        from the counters alone
explain_launch(launch, "f.cu", accesses)      joined with what `layoutalg kernel` read of f.cu
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from layoutalg.profiling.counting import Excess, excess, notes_of
from layoutalg.profiling.fitting import Fit, fit_pitch
from layoutalg.profiling.joining import Joined, checked, join
from layoutalg.profiling.records import Launch, Row, by_line

SHOWN = 3
"""Pitches that are named."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of a launch, explained.

    `excess` is of its wavefronts, None for global memory; `fit` the pitch that explains a conflict and the
    layout without one; `joined` the accesses of the source; `notes` are sentences for a person.
    """

    row: Row
    excess: Excess | None
    fit: Fit | None
    joined: Joined | None
    notes: tuple[str, ...]

    @property
    def compared(self) -> bool:
        """Whether a prediction of the source stands beside a counter that was recorded."""
        joined = self.joined
        return (
            joined is not None and joined.predicted is not None and self.row.total(joined.counter) is not None
        )

    @property
    def agrees(self) -> bool:
        """Whether the wavefronts or sectors are those that the source predicts; False where nothing is
        compared."""
        joined = self.joined
        return self.compared and joined is not None and joined.predicted == self.row.total(joined.counter)

    @property
    def conflicts(self) -> int:
        """Wavefronts that are bank conflicts, as far as the counter tells."""
        return (self.excess.conflicts or 0) if self.excess else 0


def explain_launch(
    launch: Launch, source: str | None = None, accesses: Any = (), *, whole: bool = False
) -> tuple[Finding, ...]:
    """The findings of a launch, by file and line.

    `accesses` are those of `source`, as `layoutalg kernel --json` has them, of one block, or of the `whole`
    launch.  Raises ParseError for accesses of another form.
    """
    read = checked(accesses)
    return tuple(
        _finding(row, join(row, launch, source, read, whole) if source else None) for row in by_line(launch)
    )


def worst_share(row: Row) -> Fraction | None:
    """The most that one instruction of a row takes over its ideal; None without shared wavefronts."""
    shares = [
        Fraction(each.wavefronts, each.ideal_wavefronts)
        for each in row.instructions
        if each.wavefronts is not None and each.ideal_wavefronts
    ]
    return max(shares, default=None)


def _finding(row: Row, joined: Joined | None) -> Finding:
    over = excess(row)
    times = worst_share(row)
    pitch = joined.pitch if joined else None
    fit = fit_pitch(row.op, times, pitch) if over and over.conflicts and times is not None else None
    fixes = joined.fixes if joined else ()
    notes = [*_conflict(times, over, fit, fixes), *notes_of(row), *_sectors(row), *_against(row, joined)]
    return Finding(row, over, fit, joined, tuple(notes))


def _conflict(
    times: Fraction | None, over: Excess | None, fit: Fit | None, fixes: tuple[str, ...]
) -> Iterator[str]:
    """State the conflicts and a layout without them: the source's own, else one from the pitch that fits."""
    if not over or not over.conflicts or times is None:
        return
    # the counters do not say which bank serves how many words, so they do not say of how many ways it is
    more = f"{over.conflicts:,} wavefronts more than needed"
    yield f"bank conflicts, {float(times):.3g} times the ideal: {more}"
    if fixes:
        yield f"none with {', or '.join(fixes)}"
        return
    if fit is None:
        yield "no fixed pitch of rows explains it: lanes differ in more than a row, or not all take part"
        return
    shown = ", ".join(map(str, fit.pitches[:SHOWN])) + (", ..." if len(fit.pitches) > SHOWN else "")
    yield f"rows {shown} bytes apart, read down a column, have this number"
    if fit.extra_bytes is not None:
        yield f"rows longer by {fit.extra_bytes} bytes have no conflict"
    if fit.remedy is not None:
        yield f"nor has {fit.remedy.layout}, of rows of {fit.pitches[0]} bytes"


def _sectors(row: Row) -> Iterator[str]:
    measured, ideal = row.total("sectors"), row.total("ideal_sectors")
    if measured is None or not ideal or measured == ideal:
        return
    yield (
        f"{measured:,} sectors where {ideal:,} hold the bytes: {ideal / measured:.1%} of what is moved is "
        "used; neighbouring lanes should ask for neighbouring addresses, rows begin at multiples of 32 bytes"
    )


def _against(row: Row, joined: Joined | None) -> Iterator[str]:
    """Measured beside predicted."""
    if joined is None:
        return
    if joined.lines != (row.line,):
        yield f"the access of line {', '.join(map(str, joined.lines))}"
    if not joined.exact:
        yield f"the source has {', '.join(joined.ops)} here, of which the compiler made {row.op}"
    if joined.predicted is None:
        yield f"not read from the source: {joined.why or 'no reason given'}"
        return
    counter = joined.counter
    if row.total(counter) in (None, joined.predicted):
        return
    if joined.share is not None and row.share(counter) == joined.share:
        yield f"the source predicts {joined.predicted:,} {counter}, and the same ratio to the ideal"
    else:
        yield f"the source predicts {joined.predicted:,} {counter}, with an ideal of {joined.ideal or 0:,}"
