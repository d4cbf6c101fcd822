"""Compiled kernels on disk, found by their content: a kernel is compiled once, not once a process.

The idea.  A CUBIN is a function of the text, the architecture, the compiler and its options, so the SHA-256
of these is its name.  Nothing ever has to be invalidated: other text is another file.

    $XDG_CACHE_HOME/layoutalg/cubins/<first digit>/<64 hex digits>
    LAYOUTALG_CACHE names another folder, "off" none

    layoutalg-cubin 1\\n        what the file is
    32 bytes                   SHA-256 of all that follows
    8 bytes, n bytes           the length of the header, and it: JSON with the key and more about the code
    the rest                   the machine code

An entry is read whole and believed only if digest, key and fields are right and only this user and root can
have written it (`trusted_folder`); what is damaged, cut short or of another format is compiled again and
overwritten.  Writers fill a file of their own in the same folder and rename it, so readers see an entry whole
or not at all, however many processes are at it; of two that compile the same text it does not matter whose
entry stays.  Nothing is locked, nothing is synced: what a power failure tears, the digest finds.

Each of the 16 parts has as much of `LIMIT_BYTES`, so that a writer looks at the files of one part, since
listing a large folder takes longer than writing to it.  Before a file is filled it has its size, and the
entries of its part used longest ago are removed until all files there, those of other writers too, are at
most the part's share: of several writers the last to look sees the files of all.

A folder that cannot be used or trusted is reported once, as a warning, and then not used.

Notes.  Why not a library: `diskcache` keeps values by pickle, which runs what it reads, in an SQLite file,
which does not belong on network homes, and checks no content; a file for each key has neither problem, needs
no index, and is how ccache keeps its objects.  The folder is two lines of the XDG base
directory specification; CUDA with NVRTC is used on Linux here, so that a library for folders would add none.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeAlias

from layoutalg.codegen.gpu.nvrtc import Cubin, compile_cubin, compile_options, compile_target, version
from layoutalg.codegen.gpu.trusted_folder import TEMPORARY, Folder, Item, UntrustedError, trusted_folder

LIMIT_BYTES = 256 << 20
"""Size of all entries past which the oldest are removed: some twenty thousand kernels."""

PARTS = "0123456789abcdef"
"""The parts of a cache: folders by the first digit of their keys."""

MOST_HEADER_BYTES = 1 << 20
"""An entry that has a larger header, or is larger than a part, is neither stored nor read."""

STALE_SECONDS = 600
"""A writer's own file of this age, or so far in the future, was left by a process that ended: to write one
takes milliseconds."""

Entry: TypeAlias = "tuple[dict[str, Any], bytes]"
"""Fields by name, and machine code."""

_MAGIC = b"layoutalg-cubin 1\n"
_DIGEST = hashlib.sha256().digest_size
_KEY = re.compile(f"[0-9a-f]{{{2 * _DIGEST}}}")
_KINDS = {f.name: {"int": int, "str": str}[str(f.type)] for f in fields(Cubin) if f.name != "image"}


def cached_cubin(source: str, name: str, arch: str, folder: Path | None) -> Cubin:
    """Return what `compile_cubin` gives, from a folder if it is there; otherwise it is put there.

    Without a folder everything is compiled.  Raises what `compile_cubin` raises; trouble with the folder is
    a warning.

    >>> text = 'extern "C" __global__ void nothing() {}'
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first, second = (cached_cubin(text, "nothing", "sm_80", Path(folder)) for _ in range(2))
    >>> first == second
    True
    """
    arch = compile_target(arch)
    if folder is None:
        return compile_cubin(source, name, arch)
    key = cubin_key(source, name, arch)
    cubin = fetch(folder, key)
    if cubin is None:
        cubin = compile_cubin(source, name, arch)
        offer_entry(folder, key, *_entry_of(cubin))
    return cubin


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The folder of the entries, by the environment; None where caching is off or there is no home.

    A `~` at the beginning of LAYOUTALG_CACHE is a home.

    >>> print(cache_folder({"LAYOUTALG_CACHE": "off"}))
    None
    """
    chosen, base = environ.get("LAYOUTALG_CACHE", ""), Path(environ.get("XDG_CACHE_HOME", ""))
    try:
        if chosen:
            return None if chosen == "off" else Path(chosen).expanduser()
        if not base.is_absolute():  # unset, or to be ignored by the specification
            base = Path.home() / ".cache"
    except RuntimeError:
        return None
    return base / "layoutalg" / "cubins"


def cubin_key(source: str, name: str, arch: str) -> str:
    """The name of an entry: 64 hex digits of all that machine code depends on.

    >>> cubin_key("a", "b", "sm_80") == cubin_key("a", "b", "sm_90a"), len(cubin_key("a", "b", "sm_80"))
    (False, 64)
    """
    parts = [source, name, arch, *map(str, version()), *compile_options(arch)]
    return hashlib.sha256(_MAGIC + json.dumps(parts).encode()).hexdigest()


def fetch(folder: Path, key: str) -> Cubin | None:
    """The machine code of a key, None where there is none or it is not whole; marks it as used now.

    >>> fetch(Path("no such folder"), "0" * 64) is None
    True
    """
    entry = fetch_entry(folder, key)
    if entry is None or {name: type(value) for name, value in entry[0].items()} != _KINDS:
        return None
    return Cubin(image=entry[1], **entry[0])


def fetch_entry(folder: Path, key: str) -> Entry | None:
    """The fields and the machine code of any entry, None where there is none or it is not whole.

    >>> fetch_entry(Path("no such folder"), "0" * 64) is None
    True
    """
    try:
        with _part(folder, key) as opened:
            data = opened.read(key, _part_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        _warn_once(folder, _why(error, "read"))
        return None
    return None if data is None else _parse(data, key)


def offer_entry(folder: Path, key: str, named: Mapping[str, Any], image: bytes) -> None:
    """Write an entry where that is possible; where it is not, one warning says so.

    One that is too large is not kept.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     offer_entry(Path(folder), "0" * 64, {"threads": 32}, b"code")
    ...     fetch_entry(Path(folder), "0" * 64)
    ({'threads': 32}, b'code')
    """
    try:
        store_entry(folder, key, named, image)
    except OSError as error:
        _warn_once(folder, _why(error, "written"))


def store_entry(folder: Path, key: str, named: Mapping[str, Any], image: bytes) -> None:
    """Write fields that are JSON, and machine code, whole or not at all; remove what is too much.

    Raises OSError.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store_entry(Path(folder), "0" * 64, {}, b"code")
    ...     usage(Path(folder))[0]
    1
    """
    data = _packed(key, named, image)
    if data is None or len(data) > _part_bytes():
        return
    with _part(folder, key, create=True) as opened:
        opened.write(key, data, lambda: _evict(opened))


def _part_bytes() -> int:
    return LIMIT_BYTES // len(PARTS)


@contextlib.contextmanager
def _part(folder: Path, key: str, *, create: bool = False) -> Iterator[Folder]:
    """The part of a cache that a key is in, which is believed where the cache's own folder is, too."""
    with trusted_folder(folder, create=create), trusted_folder(folder / key[0], create=create) as opened:
        yield opened


def _files(opened: Folder) -> list[Item]:
    """Entries, and files that are being written; files of other names are not the cache's."""
    return [item for item in opened.items() if _is_key(item.name) or item.name.startswith(TEMPORARY)]


def _every_part(folder: Path) -> Iterator[Folder]:
    """The parts that are there, whoever may write to them.  Raises OSError."""
    for digit in PARTS:
        with contextlib.suppress(FileNotFoundError), trusted_folder(folder / digit, shared=True) as opened:
            yield opened


def clear(folder: Path) -> int:
    """Remove all entries, of any version and kind, and files being written; how many entries there were.

    Files of other names stay.  Raises OSError.

    >>> clear(Path("no such folder"))
    0
    """
    removed = 0
    for opened in _every_part(folder):
        for item in _files(opened):
            opened.remove(item.name)
            removed += _is_key(item.name)
    return removed


def usage(folder: Path) -> tuple[int, int]:
    """Entries of a cache, and the bytes of all its files, those still being written too.

    Raises OSError.

    >>> usage(Path("no such folder"))
    (0, 0)
    """
    files = [item for opened in _every_part(folder) for item in _files(opened)]
    return sum(_is_key(item.name) for item in files), sum(item.size_bytes for item in files if item.regular)


def _evict(opened: Folder) -> None:
    """Remove entries of a part used longest ago until all its files fit into its share of the limit.

    Files that ended processes left go first, then entries of a clock that has been set back since.
    """
    entries, total, now = [], 0, time.time()
    for item in _files(opened):
        if not _is_key(item.name) and abs(now - item.used) > STALE_SECONDS:
            opened.remove(item.name)
        elif item.regular:
            total += item.size_bytes
            entries += [item] if _is_key(item.name) else []
    ahead_of_us = now + STALE_SECONDS  # what a clock wrote that has been set back since: nobody used it
    for item in sorted(entries, key=lambda item: item.used if item.used <= ahead_of_us else 0.0):
        if total <= _part_bytes():
            break
        opened.remove(item.name)
        total -= item.size_bytes


def _is_key(name: str) -> bool:
    return _KEY.fullmatch(name) is not None


def _entry_of(cubin: Cubin) -> Entry:
    return {k: v for k, v in asdict(cubin).items() if k != "image"}, cubin.image


def _packed(key: str, named: Mapping[str, Any], image: bytes) -> bytes | None:
    """An entry as it is written, None where its header is too long."""
    header = json.dumps({"key": key, **named}).encode()
    if len(header) > MOST_HEADER_BYTES:
        return None
    body = len(header).to_bytes(8, "little") + header + image
    return _MAGIC + hashlib.sha256(body).digest() + body


def _parse(data: bytes, key: str) -> Entry | None:
    """The entry that `data` is, None where it is not one of this key, byte for byte as it was written."""
    start = len(_MAGIC) + _DIGEST
    digest, body = data[len(_MAGIC) : start], data[start:]
    if not data.startswith(_MAGIC) or hashlib.sha256(body).digest() != digest:
        return None
    end = 8 + int.from_bytes(body[:8], "little")
    if end > min(len(body), 8 + MOST_HEADER_BYTES):
        return None
    try:
        header = json.loads(body[8:end])
    except (ValueError, RecursionError):  # what is nested too deeply is not what was written
        return None
    if not isinstance(header, dict) or header.pop("key", None) != key:
        return None
    return header, body[end:]


def _why(error: OSError, used: str) -> str:
    """Say what is wrong with a folder."""
    if isinstance(error, UntrustedError):
        return str(error.strerror)
    return f"it cannot be {used} ({error.strerror})"


_warned: set[Path] = set()
"""Folders about which a warning was given."""

_warning = threading.Lock()


def _warn_once(folder: Path, why: str) -> None:
    with _warning:
        if folder in _warned:
            return
        _warned.add(folder)
    warnings.warn(f"compiled kernels are not kept in {str(folder)!r}: {why}", RuntimeWarning, stacklevel=5)
