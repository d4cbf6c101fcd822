"""Operations on arrays: one record each, one way to work a call out, and one way to repeat it.

    SOFTMAX = Operation("softmax", ("x", "out"), ("axes",), plan)
    SOFTMAX.compute((-1,), (x, out), False)      the result: launches that are known, or else worked out
    SOFTMAX.prepared((-1,), (x, out), False)     worked out, to be run any number of times

The idea.  An operation is its arrays by name and a function that plans a call: it checks arguments, asks
the call for its result, and says how it is computed, by a definition, in the simulator and by launches.  All
else is the same for all: arrays are seen as memory, a result is made or checked, nothing is written over what
is still read, launches are kept.  Nothing runs before all of it is worked out.

Calls that were made before are repeated by a dictionary from what arrays show to their launches:

    shown(op, options, arrays)     the key of a call, and the addresses of its arrays
    CALLS[key]                     its launches
    remember(...)                  keep them, where calls that show the same are the same

All that a call decides depends on its operation and options, and on what its arrays show: type,
device, shape, strides, and the start within a 16-byte unit.  Those are the key.  What differs from call to
call are addresses: they are read, compared where arrays could overlap, and written into memory that the
driver reads.  So a call that repeats another is one look-up, the allocation of its result, and the launches.

Notes.  Only arrays that are CuPy's or PyTorch's own are looked up; subclasses and what comes by an interface
go the long way, as does everything that is not known: arrays that overlap or might, tensors that record
gradients, options that are not plain values.  The long way makes the same `Launches` and runs them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from types import ModuleType
from typing import Any, TypeAlias

from layoutalg.codegen.gpu import (
    LoadedSequence,
    device_array,
    device_empty,
    device_getter,
    on_device,
    stream_getter,
)
from layoutalg.codegen.program import SCRATCH, LaunchSequence, printed_sequence
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.kernels.calls.arrays import (
    UNIT_BYTES,
    View,
    check_apart,
    check_result,
    in_simulator,
    launching,
    new_array,
    no_memory,
    of_library,
    unit_base,
    view,
)
from layoutalg.kernels.elements import CARRIER, whole_units
from layoutalg.kernels.modes import compact_strides
from layoutalg.kernels.plan_cache import LOADED_PLANS, plan_on_gpu
from layoutalg.kernels.registry import FAMILIES
from layoutalg.layout import ComposedLayout, Layout
from layoutalg.optional import loaded

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
            return Prepared(run, partial(of_library, arrays[0], target))
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
            for name in ("out", *(x for x in self.op.updated if x in views)):
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
        written = [
            (self.op.arrays.index(name) + 1, self.views[name])
            for name in self.op.updated
            if name in self.views
        ]
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


@lru_cache(LOADED_PLANS)
def printed_launches(family: str, p: Any) -> LaunchSequence:
    """The launches that the simulator runs: the same that are printed.

    >>> len(printed_launches("max", FAMILIES["max"].problem((8, 64), 1, "f16")).kernels)
    1
    """
    made = FAMILIES[family]
    return printed_sequence(made.launches(p, made.choose(p), "sm_90"))


Step: TypeAlias = "tuple[LoadedSequence, Mapping[str, tuple[int, int]]]"
"""Launches on the current GPU, and where each of their buffers lies by its name: the number of an address,
from 1, and bytes from there.  At number 0 the bytes are a number that stands for itself."""


class Launches:
    """The launches of a call, for all arrays that show the same.

    The number behind those of the arrays is that of scratch memory.  A result that is not given is made like
    the first array, of the shape of `target` and its type, of `zeros` or any content.  Arrays whose addresses
    have the numbers of a pair in `apart` share no byte where the second address less the first one is not
    between two bounds.
    """

    __slots__ = (
        "_current",
        "_device",
        "_make",
        "_picking",
        "_scratch",
        "_steps",
        "_stream",
        "_torch",
        "alone",
        "apart",
    )

    def __init__(
        self, first: View, target: View, apart: Iterable[tuple[int, int, int, int]],
        steps: Iterable[Step], count: int, scratch_bytes: int, *, zeros: bool,
    ) -> None:  # fmt: skip
        form, kind, shape = first.form, target.form.kind, target.form.shape
        torch = sys.modules["torch"] if form.library == "torch" else None
        self.apart = tuple(apart)
        self._device, self._current, self._torch = form.device, device_getter(), torch is not None
        self.alone = self._current is None
        """Whether there is one GPU, which is current."""
        self._make: Callable[[], Any]
        if torch is None:
            self._stream = stream_getter()
            self._make = partial(device_array if zeros else device_empty, shape, target.array.dtype)
        else:  # the stream alone: torch.cuda.current_stream would make an object of it
            self._stream = partial(torch._C._cuda_getCurrentRawStream, form.device)
            dtype = first.array.dtype if kind == form.kind else getattr(torch, kind)
            options = {"dtype": dtype, "device": first.array.device}
            strides = compact_strides(shape)
            if zeros:
                self._make = partial(torch.zeros, shape, **options)
            elif (quick := _allocator(torch, dtype, first.array.device)) is not None:
                self._make = partial(quick, shape, strides, dtype)
            else:  # takes less of the host than `empty`, which has more to make sense of
                self._make = partial(torch.empty_strided, shape, strides, **options)
        self._steps = tuple(
            (launch, tuple((at, *buffers[name]) for at, name in zip(launch.places, names, strict=True)))
            for sequence, where in steps
            for buffers in ({SCRATCH: (count + 1, 0), **where},)
            for launch, names in sequence.steps
        )
        self._picking = tuple(launch.picking(picks) for launch, picks in self._steps)
        self._scratch = -(-scratch_bytes // form.itemsize)

    def check(self, addresses: Sequence[int]) -> None:
        """Raise AlignmentError unless the addresses, and those that show the same, suit the kernels."""
        every = [*addresses, 0]  # scratch memory starts at an allocation
        for launch, picks in self._steps:
            launch.check([every[number] + nbytes for _, number, nbytes in picks])

    def __call__(self, first: Any, out: Any, addresses: list[int]) -> Any:
        """Launch on the current stream of the arrays' library; returns the result.

        None where that cannot be allocated, or starts elsewhere than at a multiple of 16 bytes.  Raises
        ResourceError where scratch memory cannot.
        """
        if self._current is not None and self._current() != self._device:
            with on_device(self._device or 0):
                return self.launch(first, out, addresses)
        return self.launch(first, out, addresses)

    def launch(self, first: Any, out: Any, addresses: list[int]) -> Any:
        """The same on the device that is current."""
        if out is None:
            if self._torch:
                try:
                    out = self._make()
                except RuntimeError:  # out of memory: the long way says so, in bytes
                    return None
                address = out.data_ptr()
            else:
                out = self._make()
                address = out.data.ptr
            if address % UNIT_BYTES:
                return None
            addresses[-1] = address
        if self._scratch:
            if self._torch:
                torch = sys.modules["torch"]
                try:
                    scratch = first.new_empty((self._scratch,))
                except torch.cuda.OutOfMemoryError as error:
                    raise no_memory(torch, self._device, self._scratch * first.dtype.itemsize) from error
                addresses = [*addresses, scratch.data_ptr()]
            else:
                scratch = device_empty((self._scratch,), first.dtype)
                addresses = [*addresses, scratch.data.ptr]
        stream = self._stream()
        for launch in self._picking:
            launch(addresses, stream)
        return out

    def on(self, arrays: Sequence[Any], addresses: list[int]) -> Callable[[], object]:
        """The same on arrays that stay, and are kept alive, the first one first and the result last: their
        addresses are packed once, where no memory is allocated."""
        first, out = arrays[0], arrays[-1]
        current, device, stream = self._current, self._device, self._stream

        def again(alive: object = arrays) -> None:
            self(first, out, addresses)

        if self._scratch:
            return again
        starts = [launch.starting(addresses, picks) for launch, picks in self._steps]
        single = starts[0] if len(starts) == 1 else None

        def run(alive: object = arrays) -> None:
            if current is not None and current() != device:
                again()
            elif single is not None:
                single(stream())
            else:
                for start in starts:
                    start(stream())

        return run


def _allocator(torch: ModuleType, dtype: Any, device: Any) -> Callable[..., Any] | None:
    """The function that allocates tensors on the current GPU in code that torch.compile makes, or None.

    It takes two thirds of the host time of `torch.empty_strided`, with fewer arguments to read.
    """
    dynamo = getattr(torch._C, "_dynamo", None)
    quick: Callable[..., Any] | None = getattr(getattr(dynamo, "guards", None), "_empty_strided_cuda", None)
    return None if quick is None or quick((1,), (1,), dtype).device != device else quick


# --- the dictionary ------------------------------------------------------------------------------------

CALLS: dict[tuple[Any, ...], Launches] = {}
"""The launches of calls by their keys."""

_LIBRARIES: dict[type, ModuleType | None] = {}
"""The types of arrays that are looked up, with PyTorch for its own and None for CuPy's."""
_LOCK = threading.Lock()


def shown(
    op: str, options: tuple[Any, ...], arrays: tuple[Any, ...]
) -> tuple[tuple[Any, ...], list[int]] | None:
    """The key of a call, and the addresses of its arrays behind a 0; None where it has to go the long way.

    Of the options only the first one may be a tuple.

    >>> shown("softmax", (-1,), (None, None))
    (('softmax', (-1,), <class 'int'>, None, None, 0), [0, 0, 0])
    """
    key: list[Any] = [op, options, *map(type, options)]
    if type(options[0]) is tuple:
        key.extend(map(type, options[0]))
    addresses = [0]
    for x in arrays:
        if x is None:
            key.append(None)
            addresses.append(0)
            continue
        kind = type(x)
        if kind not in _LIBRARIES:
            return None
        torch = _LIBRARIES[kind]
        if torch is None:
            memory = x.data
            address = memory.ptr
            key += kind, memory.device_id, x.dtype, x.shape, x.strides, address % UNIT_BYTES
        else:
            dtype = x.dtype
            if x.requires_grad and torch.is_grad_enabled():
                return None
            if x.is_neg() or (dtype.is_complex and x.is_conj()):
                return None
            try:
                address = x.data_ptr()
                key += kind, x.device, dtype, x.shape, x.stride(), address % UNIT_BYTES
            except RuntimeError:  # what is sparse has no address, or no strides
                return None
        addresses.append(address)
    key.append(addresses.index(addresses[-1]))  # which array `out` is, where it is one of them
    return tuple(key), addresses


def remember(op: str, options: tuple[Any, ...], arrays: tuple[Any, ...], launches: Launches) -> None:
    """Keep the launches of a call; of more than LOADED_PLANS calls the oldest leave.

    >>> remember("softmax", ([1],), (), None)
    """
    several, *others = options
    if not all(map(_is_plain, (*(several if type(several) is tuple else (several,)), *others))):
        return
    for x in arrays:
        if type(x) in (loaded("torch", "Tensor"), loaded("torch.nn", "Parameter")) and x is not None:
            _LIBRARIES[type(x)] = sys.modules["torch"]
        elif type(x) is loaded("cupy", "ndarray"):
            _LIBRARIES[type(x)] = None
    known = shown(op, options, arrays)
    if known is not None:
        with _LOCK:
            while len(CALLS) >= LOADED_PLANS:
                del CALLS[next(iter(CALLS))]
            CALLS[known[0]] = launches


def _is_plain(option: Any) -> bool:
    """Whether an option is a value that equal ones of its type stand for; 0.0 is not, for it equals -0.0."""
    if type(option) is float:
        return option != 0
    kinds = (loaded("torch", "dtype"), loaded("numpy", "dtype"))
    return (
        option is None
        or type(option) in (bool, int, str, type, Layout, ComposedLayout)
        or any(kind is not None and isinstance(option, kind) for kind in kinds)
    )


def forget() -> None:
    """Forget all calls; a repeated call is planned again.

    >>> forget()
    """
    with _LOCK:
        CALLS.clear()
        _LIBRARIES.clear()
