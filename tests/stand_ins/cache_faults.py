"""Faults of the cubin cache, drawn at random: owners, rights, damage, kinds of files, kills, writers at once.

The definition is `believed`: an entry counts where this user or root alone can have written the folder and
the file, and every byte of it is as it was written.  `wrong_reads` compares what the cache reads with it.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import os
import random
import shutil
import signal
import stat
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

from layoutalg.codegen.gpu import Cubin, cubin_cache, fetch_entry, offer_entry
from layoutalg.codegen.gpu.cubin_cache import store_entry

KEY, OTHER = "ab" * 32, "ac" * 32
FIELDS: dict[str, Any] = {"threads": 32, "log": "one\ntwo"}
IMAGE = bytes(range(256)) * 4
MAGIC = b"layoutalg-cubin 1\n"
THEIRS = 2000
SHARED_BITS = 0o022


def place(folder: Path, key: str) -> Path:
    """The file of an entry."""
    return folder / key[0] / key


def store(folder: Path, key: str, cubin: Cubin) -> None:
    """Keep machine code under a key."""
    store_entry(folder, key, *cubin_cache._entry_of(cubin))


def sealed(header: bytes, image: bytes, magic: bytes = MAGIC) -> bytes:
    """An entry with any header whose digest is right."""
    body = len(header).to_bytes(8, "little") + header + image
    return magic + hashlib.sha256(body).digest() + body


def _flipped(rng: random.Random, whole: bytes) -> bytes:
    changed = bytearray(whole)
    for _ in range(rng.randint(1, 3)):
        changed[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
    return bytes(changed) if changed != whole else whole[:-1]


def _far(rng: random.Random, whole: bytes) -> bytes:
    body = rng.choice([len(whole), 1 << 40, (1 << 64) - 1]).to_bytes(8, "little") + whole[-40:]
    return MAGIC + hashlib.sha256(body).digest() + body


def _header(**fields: Any) -> bytes:
    return json.dumps({"key": KEY, **FIELDS, **fields}).encode()


NO_OBJECTS = (b"[]", b"3", b"null", b'"key"', b"{", b"\xff", b"9" * 5000)
DAMAGE: dict[str, Callable[[random.Random, bytes], bytes]] = {
    "good": lambda rng, whole: whole,
    "flipped": _flipped,
    "cut": lambda rng, whole: whole[: rng.randrange(len(whole))],
    "grown": lambda rng, whole: whole + rng.randbytes(rng.randint(1, 40)),
    "empty": lambda rng, whole: b"",
    "noise": lambda rng, whole: rng.randbytes(rng.randint(1, 4000)),
    "deep": lambda rng, whole: sealed(_header()[:-1] + b', "deep": ' + b"[" * 10 ** rng.randint(2, 5), b""),
    "renamed": lambda rng, whole: sealed(_header(key=OTHER), IMAGE),
    "version": lambda rng, whole: sealed(_header(), IMAGE, b"layoutalg-cubin 2\n"),
    "long": lambda rng, whole: sealed(_header(pad=" " * (2 << 20)), IMAGE),
    "no object": lambda rng, whole: sealed(rng.choice(NO_OBJECTS), IMAGE),
    "far": _far,
}
"""What an entry's bytes may be, made from right ones; only "good" ones are to be believed."""

SPECIAL = ("fifo", "link", "dangling link", "folder", "sparse")
"""What else may have an entry's name."""


@dataclass(frozen=True)
class Case:
    """A folder and an entry in it."""

    kind: str
    folder_mode: int
    folder_is_theirs: bool
    entry_mode: int
    entry_is_theirs: bool

    @property
    def folder_trusted(self) -> bool:
        """Whether others have had no part in the folder."""
        return not self.folder_is_theirs and not self.folder_mode & SHARED_BITS

    @property
    def believed(self) -> bool:
        """Whether the entry is to be read: the definition."""
        entry = not self.entry_is_theirs and not self.entry_mode & SHARED_BITS
        return self.kind == "good" and entry and self.folder_trusted


def random_case(rng: random.Random) -> Case:
    """Half of all cases are of a trusted folder, half of a trusted entry, so that every reason is alone."""
    kinds = [*DAMAGE, *SPECIAL, *["good"] * 6]
    modes = [0o700, 0o755, 0o750, 0o711]
    shared = [0o770, 0o777, 0o1777, 0o2775, 0o702, 0o722, 0o757]
    return Case(
        rng.choice(kinds),
        rng.choice(modes if rng.random() < 0.6 else shared),
        rng.random() < 0.2,
        rng.choice([0o600, 0o644, 0o640, 0o400] if rng.random() < 0.7 else [0o660, 0o666, 0o602, 0o622]),
        rng.random() < 0.2,
    )


def _given_away(paths: list[Path]) -> bool:
    """Whether this user may give files to another: root, where it is not root of a namespace alone."""
    try:
        for path in paths:
            os.chown(path, THEIRS, THEIRS, follow_symlinks=False)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _owned(given: list[Path]) -> Iterator[None]:
    """Files that belong to another user, or as `os.fstat` says where they cannot be given away."""
    if _given_away(given):
        yield
        return
    fstat, inodes = os.fstat, {path.lstat().st_ino for path in given}

    def seen(descriptor: int) -> os.stat_result:
        fields = list(status := fstat(descriptor))
        fields[stat.ST_UID] = THEIRS if status.st_ino in inodes else status.st_uid
        return os.stat_result(fields)

    with mock.patch.object(os, "fstat", seen):
        yield


def wrong_reads(case: Case, base: Path, rng: random.Random) -> list[str]:
    """What the cache does with a case and should not."""
    folder, elsewhere, wrong = base / "cubins", base / "elsewhere", []
    shutil.rmtree(folder, ignore_errors=True)
    store_entry(folder, KEY, FIELDS, IMAGE)
    path = place(folder, KEY)
    whole = path.read_bytes()
    if case.kind in DAMAGE:
        path.write_bytes(DAMAGE[case.kind](rng, whole))
    else:
        path.unlink()
        elsewhere.write_bytes(whole)
        elsewhere.chmod(0o600)
        if case.kind == "fifo":
            os.mkfifo(path)
        elif case.kind == "folder":
            path.mkdir()
        elif case.kind == "sparse":
            with path.open("wb") as file:
                file.truncate(cubin_cache.LIMIT_BYTES + 1)
        else:
            path.symlink_to(elsewhere if case.kind == "link" else base / "nowhere")
    if not path.is_symlink():
        path.chmod(case.entry_mode)
    mine = rng.choice([folder, path.parent])
    mine.chmod(case.folder_mode)
    given = [mine] * case.folder_is_theirs + [path] * case.entry_is_theirs
    with _owned(given), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = (FIELDS, IMAGE) if case.believed else None
        got = _within(2, lambda: fetch_entry(folder, KEY))
        if got != wanted:
            wrong.append(f"{case}: read {str(got)[:80]}")
        before = sorted(p.name for p in folder.rglob("*"))
        _within(2, lambda: offer_entry(folder, OTHER, FIELDS, IMAGE))
        after = sorted(p.name for p in folder.rglob("*"))
        if not case.folder_trusted and after != before:
            wrong.append(f"{case}: wrote into it")
        if case.folder_trusted and _within(2, lambda: fetch_entry(folder, OTHER)) != (FIELDS, IMAGE):
            wrong.append(f"{case}: does not keep what is new")
    return wrong


def _within(seconds: int, call: Callable[[], object]) -> object:
    """What a call returns or raises; one that waits for a pipe's other end is ended."""

    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(errno.ETIME, "it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        return call()
    except (Exception, RecursionError) as error:  # noqa: BLE001 - whatever leaves a reader is a wrong read
        return error
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _store_forever(folder: Path, seed: int, most_bytes: int, rounds: int = 1 << 30) -> None:
    rng = random.Random(seed)
    for _ in range(rounds):
        which = rng.randrange(40)
        store_entry(folder, f"{which:064x}", {"which": which}, bytes([which]) * rng.randint(1, most_bytes))


def _child(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return pid


def damaged(folder: Path) -> list[str]:
    """Entries that are read and not what was stored."""
    wrong = []
    for which in range(40):
        found = fetch_entry(folder, f"{which:064x}")
        if found is not None and (found[0] != {"which": which} or set(found[1]) != {which}):
            wrong.append(f"entry {which}")
    return wrong


def damage_by_kills(base: Path, kills: int, rng: random.Random) -> list[str]:
    """Writers are killed at random moments; what is read afterwards and was not stored."""
    folder, wrong = base / "killed", []
    for _ in range(kills):
        pid = _child(lambda: _store_forever(folder, rng.randrange(1 << 30), 200_000))
        time.sleep(rng.random() * 0.02)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        wrong += damaged(folder)
    return wrong


def past_the_limit(base: Path, writers: int, rounds: int, rng: random.Random) -> tuple[int, int]:
    """(most bytes seen while writers were at it, bytes at the end) past a limit that is set for a part.

    While files are written their places on the disk are counted, of files that were there before one look
    and after it: those are files of one moment.  At the end their sizes are.
    """
    folder, limit = base / "limited", 1 << 20
    part = folder / "0"
    part.mkdir(mode=0o700, parents=True)
    with mock.patch.object(cubin_cache, "LIMIT_BYTES", len(cubin_cache.PARTS) * limit):
        seeds = [rng.randrange(1 << 30) for _ in range(writers)]
        pids = {_child(functools.partial(_store_forever, folder, seed, 100_000, rounds)) for seed in seeds}
        most, before = 0, _places(part)
        while pids:
            after = _places(part)
            most = max(most, sum(min(before[file], after[file]) for file in before.keys() & after.keys()))
            before = after
            pid, _ = os.waitpid(-1, os.WNOHANG) if pids else (0, 0)
            pids.discard(pid)
    return most - limit, sum(p.stat().st_size for p in part.iterdir()) - limit


def _places(folder: Path) -> dict[tuple[str, int], int]:
    """Bytes on the disk of each file of a folder, by name and inode."""
    found = {}
    for item in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):
            seen = item.stat()
            found[item.name, seen.st_ino] = min(seen.st_size, seen.st_blocks * 512)
    return found


FORGED = sealed(_header(), b"forged")
"""An entry of another user's: right in every byte."""


def forged_reads(base: Path, rounds: int) -> tuple[list[str], int]:
    """(forged entries that were read, rounds in which the cache was used) while another makes the part.

    A process makes the part, which others may write to, with an entry in it, as often as it is absent.
    """
    folder, read, used = base / "contested", [], 0
    entry = place(folder, KEY)
    folder.mkdir(mode=0o700)

    def contest() -> None:
        os.umask(0)  # what others may write to is made so at once: this process has the reader's own user
        while True:
            try:
                entry.parent.mkdir(0o777)
                entry.write_bytes(FORGED)
            except OSError:
                continue

    pid = _child(contest)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for number in range(rounds):
                shutil.rmtree(entry.parent, ignore_errors=True)
                first = fetch_entry(folder, KEY)
                offer_entry(folder, OTHER, FIELDS, IMAGE)
                second = fetch_entry(folder, KEY)
                used += fetch_entry(folder, OTHER) is not None
                read += [f"round {number}" for found in (first, second) if found is not None]
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return read, used
