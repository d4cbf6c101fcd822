"""Compiled kernels on disk, found by their content: a kernel is compiled once, not once a process.

The idea.  A CUBIN is a function of the text, the architecture, the compiler and its options, so the SHA-256
of these is its name.  Nothing ever has to be invalidated: other text is another file.

    $XDG_CACHE_HOME/layoutalg/cubins/<64 hex digits>      LAYOUTALG_CACHE names another folder, "off" none

    layoutalg-cubin 1\\n        what the file is
    32 bytes                   SHA-256 of all that follows
    8 bytes, n bytes           the length of the header, and it: JSON with the key and more about the code
    the rest                   the machine code

An entry is read whole and believed only if digest, key and fields are right; what is damaged, cut short or
of another format is compiled again and overwritten.  Writers fill a file of their own in the same folder and
rename it, so readers see an entry whole or not at all, however many processes are at it; of two that
compile the same text it does not matter whose entry stays.  Nothing is locked, nothing is synced:
what a power failure tears, the digest finds.  Past `LIMIT_BYTES` the entries used longest ago are removed.

A folder that cannot be used is said once, as a warning, and then done without.  So is one that everybody may
write to: its machine code would run in this process's name, and a digest proves no origin.

Notes.  Why not a library: `diskcache` keeps values by pickle, which runs what it reads, in an SQLite file,
which does not belong on network homes, and checks no content; a file for each key has neither problem, needs
no index, and is how ccache keeps its objects.  The folder is two lines of the XDG base
directory specification; CUDA with NVRTC is used on Linux here, so that a library for folders would add none.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeAlias

from layoutalg.codegen.nvrtc import Cubin, compile_cubin, compile_options, version

LIMIT_BYTES = 256 << 20
"""Size of all entries past which the oldest are removed: some twenty thousand kernels."""

SWEEPING = "00"
"""Who stores a key that begins so looks at the size of all entries: one store in 256, without a counter."""

STALE_SECONDS = 3600
"""A writer's own file of this age was left by a process that ended."""

Entry: TypeAlias = "tuple[dict[str, Any], bytes]"
"""Fields by name, and machine code."""

_MAGIC = b"layoutalg-cubin 1\n"
_DIGEST = hashlib.sha256().digest_size
_KINDS = {f.name: {"int": int, "str": str}[str(f.type)] for f in fields(Cubin) if f.name != "image"}


def cached_cubin(source: str, name: str, arch: str, folder: Path | None) -> Cubin:
    """What `compile_cubin` gives, from a folder where it is there; it is put there where it was not.

    Without a folder everything is compiled.  Raises what `compile_cubin` raises; trouble with the folder is
    a warning.

    >>> text = 'extern "C" __global__ void nothing() {}'
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first, second = (cached_cubin(text, "nothing", "sm_80", Path(folder)) for _ in range(2))
    >>> first == second
    True
    """
    if folder is None or not usable(folder):
        return compile_cubin(source, name, arch)
    key = cubin_key(source, name, arch)
    found = fetch(folder, key)
    if found is None:
        found = compile_cubin(source, name, arch)
        offer_entry(folder, key, *_entry_of(found))
    return found


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Where entries lie, by the environment; None where caching is off or there is no home.

    >>> print(cache_folder({"LAYOUTALG_CACHE": "off"}))
    None
    """
    chosen = environ.get("LAYOUTALG_CACHE", "")
    if chosen:
        return None if chosen == "off" else Path(chosen)
    base = Path(environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # unset, or to be ignored by the specification
        try:
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
    path = folder / key
    try:
        data = path.read_bytes()
    except OSError:
        return None
    found = _parse(data, key)
    if found is not None:
        with contextlib.suppress(OSError):  # a folder that is only read from keeps the ages it has
            os.utime(path)
    return found


def store(folder: Path, key: str, cubin: Cubin) -> None:
    """Write machine code as `store_entry` does.  Raises OSError.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store(Path(folder), "0" * 64, Cubin("k", "sm_80", b"code", 16, 0, 0, 0, "log"))
    ...     fetch(Path(folder), "0" * 64).image
    b'code'
    """
    store_entry(folder, key, *_entry_of(cubin))


def offer_entry(folder: Path, key: str, named: Mapping[str, Any], image: bytes) -> None:
    """Write an entry where that is possible; where it is not, that is said once, as a warning.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     offer_entry(Path(folder), "0" * 64, {"threads": 32}, b"code")
    ...     fetch_entry(Path(folder), "0" * 64)
    ({'threads': 32}, b'code')
    """
    try:
        store_entry(folder, key, named, image)
    except OSError as error:
        _warn_once(folder, f"it cannot be written ({error.strerror})")


def store_entry(folder: Path, key: str, named: Mapping[str, Any], image: bytes) -> None:
    """Write fields that are JSON, and machine code, whole or not at all; remove what is too much.

    Raises OSError.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store_entry(Path(folder), "0" * 64, {}, b"code")
    ...     usage(Path(folder))[0]
    1
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".new-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_packed(key, named, image))
        Path(temporary).replace(folder / key)
    finally:
        Path(temporary).unlink(missing_ok=True)
    if key.startswith(SWEEPING):
        evict(folder, LIMIT_BYTES)


def evict(folder: Path, limit_bytes: int) -> int:
    """Remove entries used longest ago until the rest fits into `limit_bytes`; how many were removed.

    `evict(folder, 0)` clears the cache.  Files that ended processes left go too.  Files of other names stay.

    >>> evict(Path("no such folder"), 0)
    0
    """
    for path, status in _files(folder, ".new-"):
        if time.time() - status.st_mtime > STALE_SECONDS:
            path.unlink(missing_ok=True)
    entries = sorted(_files(folder), key=lambda entry: entry[1].st_mtime)
    total, removed = sum(status.st_size for _, status in entries), 0
    for path, status in entries:
        if total <= limit_bytes:
            break
        path.unlink(missing_ok=True)
        total -= status.st_size
        removed += 1
    return removed


def usage(folder: Path) -> tuple[int, int]:
    """Entries of a cache, and their bytes together.

    >>> usage(Path("no such folder"))
    (0, 0)
    """
    sizes = [status.st_size for _, status in _files(folder)]
    return len(sizes), sum(sizes)


def _files(folder: Path, prefix: str = "") -> Iterator[tuple[Path, os.stat_result]]:
    """Entries, or files of writers; those that another process removes meanwhile are not there."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as listing:
        for item in listing:
            mine = item.name.startswith(prefix) if prefix else _is_key(item.name)
            with contextlib.suppress(FileNotFoundError):
                if mine and item.is_file(follow_symlinks=False):
                    yield Path(item.path), item.stat()


def _is_key(name: str) -> bool:
    return len(name) == 2 * _DIGEST and set(name) <= set("0123456789abcdef")


def _entry_of(cubin: Cubin) -> Entry:
    return {k: v for k, v in asdict(cubin).items() if k != "image"}, cubin.image


def _packed(key: str, named: Mapping[str, Any], image: bytes) -> bytes:
    header = json.dumps({"key": key, **named}).encode()
    body = len(header).to_bytes(8, "little") + header + image
    return _MAGIC + hashlib.sha256(body).digest() + body


def _parse(data: bytes, key: str) -> Entry | None:
    """The entry that `data` is, None where it is not one of this key, byte for byte as it was written."""
    start = len(_MAGIC) + _DIGEST
    digest, body = data[len(_MAGIC) : start], data[start:]
    if not data.startswith(_MAGIC) or hashlib.sha256(body).digest() != digest:
        return None
    end = 8 + int.from_bytes(body[:8], "little")
    try:
        header = json.loads(body[8:end])
    except ValueError:
        return None
    if not isinstance(header, dict) or header.pop("key", None) != key:
        return None
    return header, body[end:]


@functools.cache
def usable(folder: Path) -> bool:
    """Whether a folder may be trusted; what is wrong with it is said once.

    >>> usable(Path("no such folder"))
    True
    """
    try:
        status = folder.stat()
    except FileNotFoundError:
        return True
    except OSError as error:
        _warn_once(folder, f"it cannot be read ({error.strerror})")
        return False
    if status.st_mode & 0o002:
        _warn_once(folder, "everybody may write to it")
        return False
    return True


@functools.cache
def _warn_once(folder: Path, why: str) -> None:
    warnings.warn(f"compiled kernels are not kept in {folder}: {why}", RuntimeWarning, stacklevel=5)
