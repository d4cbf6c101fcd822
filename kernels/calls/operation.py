"""Operations on arrays: one record each, one way to work a call out, and one way to repeat it.

    SOFTMAX = Operation("softmax", ("x", "out"), ("axes",), plan)
    SOFTMAX.compute((-1,), (x, out), False)      the result: launches that are known, or else worked out
    SOFTMAX.prepared((-1,), (x, out), False)     worked out, to be run any number of times

The idea.  An operation is its arrays by name and a function that plans a call: it checks arguments, asks
the call for its result, and says how it is computed, by a definition, in the simulator and by launches.  All
else is the same for all: arrays are seen as memory, a result is made or checked, nothing is written over what
is still read, launches are kept.  Nothing runs before all of it is worked out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from layoutalg.codegen.program import LaunchSequence, printed_sequence
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.kernels.calls.arrays import (
    UNIT_BYTES,
    View,
    check_apart,
    check_result,
    in_simulator,
    launching,
    new_array,
    of_library,
    unit_base,
    view,
)
from layoutalg.kernels.calls.repeated import CALLS, Launches, Step, remember, shown
from layoutalg.kernels.elements import CARRIER, whole_units
from layoutalg.kernels.plan_cache import LOADED_PLANS, plan_on_gpu
from layoutalg.kernels.registry import FAMILIES

BUFFERS = {"x": "src", "out": "dst"}
"""The buffers of kernels in which arrays of other names lie."""


class Prepared:
    """A call on its arrays, which it keeps alive: calling it computes once more, and returns the result.

    Made by `layoutalg.ops.prepare`.  Data are read when it is called, on the stream that is then current.

    >>> Prepared(lambda: None, lambda: 3)()
    3
    """

    __slots__ = ("_give", "_run")

    def __init__(self, run: Callable[[], object], give: Callable[[], Any]) -> None:
        self._run, self._give = run, give

    def __call__(self) -> Any:
        """Compute; on a GPU: launch."""
        self._run()
        return self._give()


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation: its name, those of its arrays, of which the first `needed` have to be given and the last
    is the result, those of its options, and the function that plans a call with them: it returns the function
    that computes.  Arrays that are `updated` are written besides.
    """

    name: str
    arrays: tuple[str, ...]
    options: tuple[str, ...]
    plan: Callable[..., Callable[[], object]]
    needed: int = 1
    updated: tuple[str, ...] = ()

    def compute(self, options: tuple[Any, ...], arrays: tuple[Any, ...], simulate: object) -> Any:
        """Compute once.  A call that repeats another is looked up and launched; absent arrays are None."""
        known = shown(self.name, options, arrays) if simulate is False else None
        if known is not None:
            key, addresses = known
            try:
                launches = CALLS.get(key)
            except TypeError:  # an option that has no hash
                launches = None
            if launches is not None:
                for first, second, above, below in launches.apart:
                    if above < addresses[second] - addresses[first] < below:
                        break
                else:
                    launch = launches.launch if launches.alone else launches
                    result = launch(arrays[0], arrays[-1], addresses)
                    if result is not None:
                        return result
        return self.prepared(options, arrays, simulate)()

    def prepared(self, options: tuple[Any, ...], arrays: tuple[Any, ...], simulate: object) -> Prepared:
        """Work a call out."""
        call = Call(self, options, arrays, simulate)
        run, target = self.plan(call, *options), call.views["out"]
        if arrays[-1] is None:
            return Prepared(run, functools.partial(of_library, arrays[0], target))
        return Prepared(run, lambda: arrays[-1])


class Call:
    """A call that is worked out: `views` are its arrays by name, as memory."""

    def __init__(
        self, op: Operation, options: tuple[Any, ...], arrays: tuple[Any, ...], simulate: object = False
    ) -> None:
        self.op, self._options, self._arrays = op, options, arrays
        self.views = {
            name: view(x)
            for n, (name, x) in enumerate(zip(op.arrays, arrays, strict=True))
            if x is not None or n < op.needed
        }
        self.first = self.views[op.arrays[0]]
        self.simulated = in_simulator(simulate, *(v for name, v in self.views.items() if name != "out"))

    def result(
        self, shape: tuple[int, ...], kinds: Sequence[str], in_place: str = "", *, zeros: bool = False
    ) -> View:
        """The array that is written: a new one of the first of the `kinds`, or the one that was given, which
        has to be of one of them, and apart from all others, or the one that may be written `in_place`."""
        out = self.views.get("out")
        if out is not None:
            check_result(self.first, out, shape, kinds)
            check_apart(self.views, in_place)
            return out
        kind = "" if kinds[0] == self.first.form.kind else kinds[0]
        self.views["out"] = made = new_array(self.first, shape, zeros=zeros, kind=kind)
        return made

    def run(
        self, define: Callable[[], object], simulate: Callable[[], object],
        load: Callable[[], Callable[[], object]],
    ) -> Callable[[], object]:  # fmt: skip
        """Return the function that computes where the arrays are; on a GPU `load` makes it."""
        if self.simulated:
            return simulate
        if self.first.form.device is None:
            return define
        with launching(self.first):
            return load()

    def planned(
        self, family: str, problem: Callable[[Mapping[str, int] | None], Any], define: Callable[[], object],
        beside: Callable[[Any], Mapping[str, int]] = lambda p: {}, *, zeros: bool = False,
    ) -> Callable[[], object]:  # fmt: skip
        """Return the function that computes a problem of a family.

        `problem` makes that of arrays which start at given bytes of their 16-byte units, or that of dense
        copies, of None; `beside` are further buffers of a problem by name, in bytes.
        """
        views = self.views
        bases = {name: unit_base(v) for name, v in views.items()}
        p = problem({name: start for name, (_, start) in bases.items()})  # raises where `out` aliases

        def load() -> Callable[[], object]:
            sequence = plan_on_gpu(family, p, self.first.form.device).sequence
            numbers = dict(zip(self.op.arrays, range(1, len(self.op.arrays) + 1), strict=True))
            where = {
                BUFFERS.get(name, name): (numbers[name], bases[name][0] - v.address)
                for name, v in views.items()
            }
            end = sequence.scratch_bytes
            for name, nbytes in beside(p).items():
                where[name], end = (len(numbers) + 1, end), end + -(-nbytes // UNIT_BYTES) * UNIT_BYTES
            return self.launched([(sequence, where)], end, zeros=zeros)

        def simulate() -> None:
            import numpy

            q = problem(None)
            buffers = {BUFFERS.get(name, name): words_in(v).ravel() for name, v in views.items()}
            buffers |= {name: numpy.zeros(nbytes, "u1") for name, nbytes in beside(q).items()}
            memory = simulated(family, q, buffers)
            for name in ("out", *self.op.updated):
                target = words_in(views[name])
                target[...] = memory[BUFFERS.get(name, name)][: target.size].reshape(target.shape)

        return self.run(define, simulate, load)

    def launched(
        self, steps: Sequence[Step], scratch_bytes: int, *, zeros: bool = False, kept: bool = True
    ) -> Callable[[], object]:
        """The launches of the call, which are `kept` for those that repeat it.

        Arrays have the numbers of their places from 1 on, scratch memory the next.  A result that is not
        given is new, of `zeros` where kernels do not write all of it.  Raises AlignmentError.
        """
        views = [self.views.get(name) for name in self.op.arrays]
        target, last = self.views["out"], len(views)
        written = [(self.op.arrays.index(name) + 1, self.views[name]) for name in self.op.updated]
        written += [(last, target)] if self._arrays[-1] is not None else []
        pairs = [
            (n, at, v.form.low - w.form.end, v.form.end - w.form.low)
            for at, w in written
            for n, v in enumerate(views[:-1], 1)
            if v is not None and v.address != w.address
        ]
        launches = Launches(self.first, target, pairs, steps, last, scratch_bytes, zeros=zeros)
        addresses = [0, *(0 if v is None else v.address for v in views)]
        launches.check(addresses)
        if kept:
            remember(self.op.name, self._options, self._arrays, launches)
        return launches.on([None if v is None else v.array for v in views], addresses)


def nothing() -> None:
    """Do nothing: the launch of a call on arrays without elements.

    >>> nothing()
    """


def words_in(v: View) -> Any:
    """The elements of an array on the CPU as words that carry their bits.

    >>> import numpy
    >>> words_in(view(numpy.ones(2, "f2"))).tolist()
    [15360, 15360]
    """
    return v.host.view(CARRIER[v.form.itemsize])


def simulated(
    family: str, p: Any, buffers: Mapping[str, Any], words: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """The buffers of a problem, by name, after its best kernels have run on copies of them in the simulator.

    >>> import numpy
    >>> p = FAMILIES["transpose"].problem(2, 3, "f32")
    >>> given = {"src": numpy.arange(6, dtype="u4"), "dst": numpy.zeros(6, "u4")}
    >>> simulated("transpose", p, given)["dst"][:6].tolist()
    [0, 3, 1, 4, 2, 5]
    """
    memory = {name: whole_units(array) for name, array in buffers.items()}
    simulate_sequence(printed_launches(family, p), memory | dict(words or {}), trace=False)
    return memory


@functools.lru_cache(LOADED_PLANS)
def printed_launches(family: str, p: Any) -> LaunchSequence:
    """The launches that the simulator runs: the same that are printed.

    >>> len(printed_launches("max", FAMILIES["max"].problem((8, 64), 1, "f16")).kernels)
    1
    """
    made = FAMILIES[family]
    return printed_sequence(made.launches(p, made.choose(p), "sm_90"))
