"""The keys of timings, and their records.

    Key       family, problem, configuration, kernel, timing, GPU, driver, CUDA of the driver and of the
              runtime, and library
    Record    a key with times and counters, or with the text of its failure

A problem and a configuration are known by the digest of their data (`identity`), a kernel by that of the text
of all kernels of a call's launches: two records with the same key describe the same machine code on the same
kind of GPU.  `driver` is the version of the display driver, such as 580.95.05, empty without NVML;
`cuda_driver` is the latest CUDA that it runs, `cuda` that of the runtime.  `timing` says what took the times:
"gpu", or "model" for numbers that were never measured; neither replaces the other.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Annotated

from layoutalg.answers import Bound, Count, Rate
from layoutalg.arch import find_arch
from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.program import LaunchSequence
from layoutalg.errors import ParseError
from layoutalg.kernels.tuning.files import read_as

VERIFIED = "verified"
"""The timing of a record that has passed or failed a verification: its time is that of the verification."""

TIMINGS = ("gpu", "model")
"""The kinds of timing."""

MOST_RANK = 1 << 31
"""The largest rank in an order."""

MOST_TEXT = 2000
"""The most characters that are kept of a failure."""


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a timing: digests of the problem, the configuration and the kernels' text, and the place.

    >>> Key("sum", "p" * 64, "c" * 64, "k" * 64, "model", "sm_90", "", "", "", "0.1.0").digest[:8]
    '77f95ff9'
    """

    family: str
    problem: str
    config: str
    kernel: str
    timing: str
    gpu: str
    driver: str
    cuda_driver: str
    cuda: str
    library: str

    @property
    def digest(self) -> str:
        """64 hex digits of all of it."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    @property
    def place(self) -> tuple[str, str, str, str, str, str]:
        """The place and the means of the timing: results of different places never mix."""
        return self.timing, self.gpu, self.driver, self.cuda_driver, self.cuda, self.library


@dataclass(frozen=True, slots=True)
class Record:
    """A timing: `times_ns` of one launch each, none where it failed, and then `failure` says how.

    `problem` and `config` are for people, `rank` is the place among the family's candidates, the first is 0;
    `counters` are predictions or readings of the launches by name, `board` is the GPU's UUID, if known.

    >>> key = Key("sum", "p" * 64, "c" * 64, "k" * 64, "model", "sm_90", "", "", "", "0.1.0")
    >>> one = Record(key, "64 x 64", "by rows", 0, (1500.0, 1400.0, 1600.0))
    >>> from layoutalg.answers import fields_of
    >>> one.ns, record_of(fields_of(one)) == one
    (1500.0, True)
    """

    key: Key
    problem: str
    config: str
    rank: Annotated[Count, Bound("maximum", MOST_RANK)]
    times_ns: tuple[Rate, ...] = ()
    counters: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    failure: str = ""
    board: str = ""

    @property
    def ns(self) -> float:
        """The median of its times, infinity where it failed."""
        own = sorted(self.times_ns)
        return own[len(own) // 2] if own else float("inf")


def record_of(named: object) -> Record:
    """The record that JSON holds.  Raises ParseError for fields of other names or kinds.

    >>> record_of({"key": 3})
    Traceback (most recent call last):
    ...
    layoutalg.errors.ParseError: a record has key, problem, config, rank, times_ns, counters, failure, board
    """
    with contextlib.suppress(ValueError):
        found: Record = read_as(Record, named)
        if found.key.timing in (*TIMINGS, VERIFIED) and bool(found.times_ns) != bool(found.failure):
            return found
    raise ParseError("a record has key, problem, config, rank, times_ns, counters, failure, board")


def kernel_digest(sequence: LaunchSequence, arch: str) -> str:
    """64 hex digits of the text of all kernels of a sequence, in order.  Raises what `to_cuda` raises.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> from layoutalg.codegen.program import launch_sequence
    >>> one = launch_sequence([KernelBuilder("empty", threads=32).build()])
    >>> kernel_digest(one, "sm_90") == kernel_digest(one, "sm_80"), len(kernel_digest(one, "sm_90"))
    (True, 64)
    """
    texts = [to_cuda(kernel, find_arch(arch).name) for kernel in sequence.kernels]
    return text_digest(texts)


def text_digest(texts: list[str]) -> str:
    """64 hex digits of texts in order.

    >>> text_digest(["a", "b"]) == text_digest(["ab"])
    False
    """
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()
