"""Calls that were made before: a dictionary from what arrays show to the launches that it takes.

    call = Call("softmax", -1, (), (x, None, None, out))
    repeated(*call)                    the result, where such a call is known; None where it is not
    launched(call, views, ...)         the launches of a call that was worked out, kept for its repetitions
    Prepared(run, give)                one call on its arrays, to be run any number of times

The idea.  All that a call decides depends on its operation and options, and on what its arrays show: type,
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from types import ModuleType
from typing import Any, NamedTuple

from layoutalg.codegen.gpu import (
    LoadedSequence,
    device_array,
    device_empty,
    device_getter,
    on_device,
    stream_getter,
)
from layoutalg.codegen.program import SCRATCH
from layoutalg.kernels.calls.arrays import UNIT_BYTES, View, no_memory
from layoutalg.kernels.plan_cache import LOADED_PLANS
from layoutalg.layout import ComposedLayout, Layout
from layoutalg.optional import loaded


class Call(NamedTuple):
    """A call: its operation, axes, other options, and its arrays at fixed places, `out` last.

    None stands for an array that is not given.
    """

    op: str
    axes: Any
    options: tuple[Any, ...]
    arrays: tuple[Any, ...]


class Launches:
    """The launches of a call, for all arrays that show the same.

    `steps` are kernels, each with the numbers of the addresses that it takes.  A result that is not given is
    made like the first array, of the shape of `target` and its type, of `zeros` or any content.  Arrays whose
    addresses have the numbers of a pair in `apart` share no byte where the second address less the first one
    is not between two bounds.
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
        sequences: Iterable[tuple[LoadedSequence, Mapping[str, int]]],
        pointers: Mapping[str, tuple[int, int]], count: int, *, zeros: bool,
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
            strides = dense_strides(shape)
            if zeros:
                self._make = partial(torch.zeros, shape, **options)
            elif (quick := _allocator(torch, dtype, first.array.device)) is not None:
                self._make = partial(quick, shape, strides, dtype)
            else:  # takes less of the host than `empty`, which has more to make sense of
                self._make = partial(torch.empty_strided, shape, strides, **options)
        where = {**pointers, SCRATCH: (count, 0)}
        every = tuple(sequences)
        self._steps = tuple(
            (launch, tuple(_picks(launch.places, names, where, further)))
            for sequence, further in every
            for launch, names in sequence.steps
        )
        self._picking = tuple(launch.picking(picks) for launch, picks in self._steps)
        asked = max((sequence.scratch_bytes for sequence, _ in every), default=0)
        self._scratch = -(-asked // form.itemsize)

    def check(self, addresses: Sequence[int]) -> None:
        """Raise AlignmentError unless the addresses, and those that show the same, suit the kernels."""
        whole = [*addresses, 0]  # scratch memory starts at an allocation
        for launch, picks in self._steps:
            launch.check([whole[number] + further for _, number, further in picks])

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
        found = (launch.starting(addresses, picks) for launch, picks in self._steps)
        starts = [start for start in found if start is not None]
        if len(starts) < len(self._steps):
            return again
        one = starts[0] if len(starts) == 1 else None

        def run(alive: object = arrays) -> None:
            if current is not None and current() != device:
                again()
            elif one is not None:
                one(stream())
            else:
                for start in starts:
                    start(stream())

        return run


def _allocator(torch: ModuleType, dtype: Any, device: Any) -> Callable[..., Any] | None:
    """The function that allocates tensors on the current GPU in code that torch.compile makes, or None.

    It takes two thirds of the host time of `torch.empty_strided`, with fewer arguments to read.
    """
    found = getattr(torch._C, "_dynamo", None)
    quick: Callable[..., Any] | None = getattr(getattr(found, "guards", None), "_empty_strided_cuda", None)
    return None if quick is None or quick((1,), (1,), dtype).device != device else quick


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a row-major array, in elements.

    >>> dense_strides((2, 3, 4)), dense_strides(())
    ((12, 4, 1), ())
    """
    return tuple(prod(shape[k + 1 :]) for k in range(len(shape)))


def _picks(
    places: Sequence[int], names: Sequence[str], where: Mapping[str, tuple[int, int]],
    further: Mapping[str, int],
) -> Iterator[tuple[int, int, int]]:  # fmt: skip
    """The pointers that a kernel packs, from the names of its buffers; `further` are bytes to add to some."""
    for place, name in zip(places, names, strict=True):
        number, shift = where[name]
        yield place, number, shift + further.get(name, 0)


# --- the dictionary ------------------------------------------------------------------------------------

_CALLS: dict[tuple[Any, ...], Launches] = {}
_LIBRARIES: dict[type, ModuleType | None] = {}
"""The types of arrays that are looked up, with PyTorch for its own and None for CuPy's."""
_LOCK = threading.Lock()


def repeated(op: str, axes: Any, options: tuple[Any, ...], arrays: tuple[Any, ...]) -> Any:
    """The result of a call that repeats another one, launched; None where it does not, or cannot.

    >>> repeated("softmax", -1, (), (None, None))
    """
    found = _shown(op, axes, options, arrays)
    if found is None:
        return None
    key, addresses = found
    try:
        launches = _CALLS.get(key)
    except TypeError:  # an option that has no hash
        return None
    if launches is None:
        return None
    for first, second, above, below in launches.apart:
        if above < addresses[second] - addresses[first] < below:
            return None
    if launches.alone:
        return launches.launch(arrays[0], arrays[-1], addresses)
    return launches(arrays[0], arrays[-1], addresses)


def _shown(
    op: str, axes: Any, options: tuple[Any, ...], arrays: tuple[Any, ...]
) -> tuple[tuple[Any, ...], list[int]] | None:
    """The key of a call, and the addresses of its arrays behind a 0; None where it has to go the long way."""
    key: list[Any] = [op, axes, type(axes), options]
    if options:
        key.extend(map(type, options))
    if type(axes) is tuple:
        key.extend(map(type, axes))
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


def _remember(call: Call, launches: Launches) -> None:
    """Keep the launches of a call; of more than LOADED_PLANS calls the oldest leave."""
    if not all(map(_is_plain, call.axes if type(call.axes) is tuple else (call.axes,))):
        return
    if not all(map(_is_plain, call.options)):
        return
    for x in call.arrays:
        if type(x) in (loaded("torch", "Tensor"), loaded("torch.nn", "Parameter")) and x is not None:
            _LIBRARIES[type(x)] = sys.modules["torch"]
        elif type(x) is loaded("cupy", "ndarray"):
            _LIBRARIES[type(x)] = None
    found = _shown(*call)
    if found is not None:
        with _LOCK:
            while len(_CALLS) >= LOADED_PLANS:
                del _CALLS[next(iter(_CALLS))]
            _CALLS[found[0]] = launches


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
        _CALLS.clear()
        _LIBRARIES.clear()


# --- calls that are worked out -------------------------------------------------------------------------


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


def nothing() -> None:
    """Do nothing: the launch of a call on arrays without elements.

    >>> nothing()
    """


def launched(
    call: Call, first: View, others: Sequence[View | None], target: View,
    sequences: Iterable[tuple[LoadedSequence, Mapping[str, int]]],
    pointers: Mapping[str, tuple[int, int]], *, zeros: bool = False,
) -> Callable[[], object]:  # fmt: skip
    """The launches of a call whose arrays are seen as the `first`, some `others` and its result; it is kept.

    `pointers` says where each buffer lies by its name: the number of an address, from 1, and bytes from
    there; a number stands for itself at address 0.  Sequences are loaded on the current GPU, each with bytes
    to add to some buffers.  A result that is not given is new, of `zeros` where kernels do not write all of
    it.  Raises AlignmentError.
    """
    views = (first, *others, target)
    addresses, last = [0, *(0 if v is None else v.address for v in views)], len(views)
    pairs = [
        (n, last, v.form.low - target.form.end, v.form.end - target.form.low)
        for n, v in enumerate(views[:-1], 1)
        if v is not None and call.arrays[-1] is not None and v.address != target.address
    ]
    launches = Launches(first, target, pairs, sequences, pointers, last + 1, zeros=zeros)
    launches.check(addresses)
    _remember(call, launches)
    return launches.on([None if v is None else v.array for v in views], addresses)
