"""Plans on disk, by the problem they compute: a problem is planned once, not once per process.

The idea.  Planning, printing and compiling a kernel takes 0.1 s, all of it a function of the problem, the
architecture, the compiler and this package's code: their SHA-256 names an entry among those of
`codegen.gpu.cubin_cache`, with the same format and rules, that holds the machine code of a sequence's
kernels one after the other and, in the header, all that their launches need.

    {"kernels": [{"name": "permute_b32", "grid": [120, 1, 1], "image_bytes": 9216, ...}],
     "buffers": [["src", "dst"]], "scratch_bytes": 0}

A problem is identified by its data: the contents of all of its fields, independent of its `repr`.  One with a
function of its user's, as an instruction with its effect does, is not kept here: its kernels are found by
their printed text, which is all that their machine code depends on.

The package's code is known by the content of its files, or of the archive that holds them, when it was
imported: an edited plan is another key, even with equal size and time.  An entry whose fields are not
of the kinds above is planned again.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import prod
from pathlib import Path
from typing import Any

from layoutalg.answers import fields_of
from layoutalg.arch import SWIZZLE_MODES, Arch, TensorMap
from layoutalg.codegen.gpu import (
    CompiledSequence,
    Entry,
    Launchable,
    LoadedSequence,
    ReadySequence,
    cache_folder,
    compile_options,
    compile_sequence,
    fetch_entry,
    load_sequence,
    offer_entry,
    require_gpu,
    version,
)
from layoutalg.codegen.program import Kernel, launch_sequence
from layoutalg.dtype import DTYPES
from layoutalg.errors import ResourceError
from layoutalg.kernels.files import read_as
from layoutalg.kernels.identity import NotDataError, code_id, data_of
from layoutalg.kernels.model import chip_of, machine_of
from layoutalg.kernels.registry import FAMILIES
from layoutalg.kernels.tuning import Locked, choose, current_lock

MOST_BLOCKS = 16
"""The most blocks of a cluster."""

LOADED_PLANS = 1024
"""The most problems whose kernels stay loaded; the least recently used leave."""


@dataclass(frozen=True, eq=False)
class GpuPlan:
    """A plan that is loaded on a GPU."""

    sequence: LoadedSequence
    choose: Callable[[], Any]

    @functools.cached_property
    def config(self) -> Any:
        """The configuration, for launches that have to know it.  Raises as `Family.choose` does."""
        return self.choose()


@functools.lru_cache(LOADED_PLANS)
def plan_on_gpu(family: str, p: Any, device: int | None) -> GpuPlan:
    """The best plan of a family's problem, loaded on the current GPU, whose number is `device`; where that
    does not fit its clusters of blocks, or all blocks of a launch, the best plan of those that it fits.

    Raises UnsupportedError without a GPU, and as `ready_sequence` and `load_sequence` do.

    >>> from layoutalg.codegen.gpu import gpu_status
    >>> if gpu_status().available:
    ...     plan = plan_on_gpu("max", FAMILIES["max"].problem((8, 64), 1, "f16"), 0)
    """
    gpu = require_gpu()
    question = family, p, gpu.arch, cache_folder(), gpu.name
    ready, most, apart = ready_sequence(*question), 0, False
    while True:
        try:
            loaded = load_sequence(ready)
        except ResourceError as error:
            largest = max(prod(kernel.cluster) for kernel in ready.kernels)
            if any(kernel.cooperative for kernel in ready.kernels):
                apart = True
            elif largest > 1:
                most = max(1, min(error.limit, largest - 1))
            else:
                raise
            ready = ready_sequence(*question, most_blocks=most, apart=apart)
        else:
            chip = chip_of(gpu.arch, gpu.name)
            choose = functools.partial(_configuration, family, p, chip, gpu.name, most, apart=apart)
            return GpuPlan(loaded, choose)


def gpu_arch() -> str:
    """The architecture of the current GPU.  Raises UnsupportedError without one."""
    return require_gpu().arch


def ready_sequence(
    family: str,
    p: Any,
    arch: str,
    folder: Path | None,
    gpu: str = "",
    most_blocks: int = 0,
    *,
    apart: bool = False,
) -> ReadySequence:
    """The best plan of a problem, compiled, from a folder; it is put there where it was not.

    A lock file that the environment names goes before the cost model (see `tuning.Lock`, whose errors are
    raised too), but for `most_blocks` of a cluster, where the GPU has such a limit; 0: any.  `apart`: without
    plans whose blocks wait for all others.  The numbers are those of the board of the `gpu`, if it has some.

    Raises what the family's `candidates` and `launches` and `compile_sequence` raise; trouble with the folder
    is a warning.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     p = FAMILIES["max"].problem((8, 64), 1, "f16")
    ...     first, second = (ready_sequence("max", p, "sm_80", Path(folder)) for _ in range(2))
    >>> first == second
    True
    """
    limits = (most_blocks, apart) if most_blocks or apart else ()
    lock = None if limits else current_lock()
    locked = None if lock is None else lock.entry(family, p, arch, gpu)
    chip = chip_of(arch, gpu)
    key = None if folder is None else plan_key(family, p, arch, limits, locked, chip)
    entry = None if folder is None or key is None else fetch_entry(folder, key)
    stored = None if entry is None else _unpacked(*entry)
    if stored is not None:
        return stored
    kind = FAMILIES[family]
    config = _configuration(family, p, chip, gpu, most_blocks, apart=apart)
    sequence = kind.call_launches(p, config, arch)
    if kind.called is None:
        compiled = compile_sequence(sequence, arch)
    else:
        compiled = replace(_compiled(_Made(sequence.kernels), arch), sequence=sequence)
    ready = compiled.ready()
    if folder is not None and key is not None:
        offer_entry(folder, key, *_packed(ready))
    return ready


def _configuration(family: str, p: Any, arch: str | Arch, gpu: str, most_blocks: int, *, apart: bool) -> Any:
    """The configuration of a problem, among those that such limits leave: see `ready_sequence`."""
    kind = FAMILIES[family]
    if not most_blocks and not apart:
        return choose(kind, p, arch, gpu)[0]
    most = most_blocks or MOST_BLOCKS
    return kind.choose(
        p, arch, lambda c: getattr(c, "cluster", 1) <= most and not (apart and getattr(c, "together", False))
    )


class _Made:
    """Kernels that equal themselves alone: those of calls are made once, and a hash of all their statements
    takes as long as a plan."""

    def __init__(self, kernels: tuple[Kernel, ...]) -> None:
        self.kernels = kernels

    def __hash__(self) -> int:
        return hash(tuple(map(id, self.kernels)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Made) or len(self.kernels) != len(other.kernels):
            return False
        return all(mine is its for mine, its in zip(self.kernels, other.kernels, strict=True))


@functools.lru_cache(maxsize=256)
def _compiled(made: _Made, arch: str) -> CompiledSequence:
    """Kernels that many problems share, printed and compiled once per process."""
    return compile_sequence(launch_sequence(made.kernels), arch)


def plan_key(
    family: str, p: Any, arch: str, limits: Sequence[object] = (), locked: Locked | None = None,
    chip: str | Arch = "",
) -> str | None:  # fmt: skip
    """The name of a problem's entry: 64 hex digits of all that its kernels depend on; None if it is not data.

    >>> a, b = (FAMILIES["max"].problem((8, 64), axis, "f16") for axis in (0, 1))
    >>> plan_key("max", a, "sm_80") == plan_key("max", b, "sm_80"), len(plan_key("max", a, "sm_80"))
    (False, 64)
    """
    try:
        question = [family, data_of(p), data_of(limits)]
    except NotDataError:
        return None
    numbers = json.dumps(fields_of(machine_of(chip or arch)))
    parts = ["sequence 3", *question, arch, numbers, *map(str, version()), *compile_options(arch), _CODE]
    if locked is not None:
        parts += [locked.config, locked.kernel]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


_CODE = code_id(Path(__file__).parents[1])
"""The identity of this package when it was imported: code that is edited later is not what runs."""


def _packed(ready: ReadySequence) -> Entry:
    kernels = []
    for kernel in ready.kernels:
        named: dict[str, Any] = {f.name: getattr(kernel, f.name) for f in fields(kernel)}
        named["image_bytes"] = len(named.pop("image"))
        named["maps"] = [
            (position, fields_of(m) | {"element": m.element.name, "mode": m.mode.name})
            for position, m in kernel.maps
        ]
        kernels.append(named)
    header = {"kernels": kernels, "buffers": ready.buffers, "scratch_bytes": ready.scratch_bytes}
    return header, b"".join(kernel.image for kernel in ready.kernels)


def _map_of(named: Mapping[str, Any]) -> TensorMap:
    """A tensor map of its fields, of which element and mode are names.  Raises as `read_as` does."""
    known = {"element": DTYPES[named["element"]], "mode": SWIZZLE_MODES[named["mode"]]}
    tensor_map: TensorMap = read_as(TensorMap, {**named, **known})
    return tensor_map


def _unpacked(header: Mapping[str, Any], image: bytes) -> ReadySequence | None:
    """The sequence that an entry holds, None where its fields are of other kinds."""
    kernels: list[Launchable] = []
    at = 0
    try:
        for named in header["kernels"]:
            end = at + named["image_bytes"]
            if not at <= end <= len(image):
                return None
            maps = [[position, _map_of(m)] for position, m in named["maps"]]
            kernels.append(read_as(Launchable, {**named, "image": image[at:end], "maps": maps}))
            at = end
        buffers = read_as(tuple[tuple[str, ...], ...], header["buffers"])
        ready = ReadySequence(tuple(kernels), buffers, read_as(int, header["scratch_bytes"]))
    except (LookupError, TypeError, ValueError):
        return None
    return ready if len(kernels) == len(buffers) else None
