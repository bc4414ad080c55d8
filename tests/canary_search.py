"""Secrets that are recognised wherever they turn up: in files, in archives, in command lines and environments of processes.

A canary is a random value. It is searched as it is, in upper case, in base64 at any alignment, in hexadecimal and in UTF-16; in
files, in what gzip and zip files hold, and in names of files.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import os
import secrets
import threading
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

Process = tuple[int, int]  # ID, and when it started: IDs are used again
SAMPLE_S = 0.1
LARGEST_SAMPLED = 1 << 20  # bytes of a file that is read again and again while processes run


@dataclass(frozen=True)
class Canaries:
    """Random values by name."""

    values: Mapping[str, str]

    @classmethod
    def of(cls, *names: str) -> Canaries:
        return cls({name: f"c4n4ry{secrets.token_hex(12)}" for name in names})

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    def found_in(self, data: bytes) -> list[str]:
        """Names of the canaries in `data`, whatever form they have there."""
        texts = [data, *_unpacked(data)]
        return [
            name for name, value in self.values.items() if any(form in text for form in _forms(value) for text in texts)
        ]

    def found_below(self, root: Path, allowed: Collection[Path] = ()) -> list[str]:
        """`path: name` for each file or folder below `root` that has one in its content or name, but those `allowed`."""
        found = []
        for path in sorted(root.rglob("*")):
            if not any(path == place or place in path.parents for place in allowed):
                data = os.fsencode(path.name) + (b"\n" + _content(path) if path.is_file() else b"")
                found += [f"{path}: {name}" for name in self.found_in(data)]
        return found


def _forms(value: str) -> frozenset[bytes]:
    raw = value.encode()
    shifted = {
        base64.b64encode(b"\0" * shift + raw).rstrip(b"=")[-(-4 * shift // 3) + (shift > 0) : -1] for shift in range(3)
    }
    return frozenset(
        {raw, raw.upper(), raw.hex().encode(), value.encode("utf-16-le"), value.encode("utf-16-be"), *shifted}
    )


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it went away, or is a socket
        return b""


def _unpacked(data: bytes) -> Iterator[bytes]:
    """What `data` holds, where it is a gzip or zip file."""
    try:
        if data[:2] == b"\x1f\x8b" or b"\n\x1f\x8b" in data[:4096]:
            yield gzip.decompress(data[data.index(b"\x1f\x8b") :])
        if b"PK\x03\x04" in data[:4096]:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                yield from (archive.read(name) for name in archive.namelist())
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return


@dataclass
class Watch:
    """What all descendants of this process show of themselves while it is entered, and what is in `folders` meanwhile.

    `may_have` says by its command line which canaries a process may have in its environment; on a command line none may be. A
    process is a descendant for as long as it lives, also where its parent has ended.
    """

    canaries: Canaries
    may_have: Callable[[bytes], Collection[str]]
    folders: tuple[Path, ...] = ()
    lines: set[str] = field(default_factory=set)  # command lines that were seen
    leaks: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._done = threading.Event()
        self._known: set[Process] = set()
        self._looked: set[tuple[Process, bytes]] = set()
        self._thread = threading.Thread(target=self._watch, name="canaries", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._done.set()
        self._thread.join(30)

    def sample(self) -> None:
        """Look at everything once."""
        parents = dict(_processes())
        ours, ids = self._known & parents.keys(), {os.getpid()}
        ids |= {pid for pid, _ in ours}
        more = {process for process, parent in parents.items() if parent in ids} - ours
        while more:
            ours |= more
            ids |= {pid for pid, _ in more}
            more = {process for process, parent in parents.items() if parent in ids} - ours
        self._known = ours
        self._looked &= {(process, line) for process, line in self._looked if process in ours}
        for process in ours:
            self._look_at(process)
        for folder in self.folders:
            for path in folder.rglob("*"):
                with contextlib.suppress(FileNotFoundError):  # it is a process's own
                    if path.is_file() and path.stat().st_size <= LARGEST_SAMPLED:
                        self.leaks |= {f"{path}: {name}" for name in self.canaries.found_in(_content(path))}

    def _look_at(self, process: Process) -> None:
        """Once for each program that it runs: a command line and an environment change when it becomes another."""
        line, environment = (_content(Path(f"/proc/{process[0]}/{name}")) for name in ("cmdline", "environ"))
        if (process, line) in self._looked:
            return
        if line and environment:  # it has not just begun or ended
            self._looked.add((process, line))
        shown = line.replace(b"\0", b" ").decode(errors="replace")
        self.lines.add(shown)
        self.leaks |= {f"command line {shown}: {name}" for name in self.canaries.found_in(line)}
        had = set(self.canaries.found_in(environment)) - set(self.may_have(line))
        self.leaks |= {f"environment of {shown}: {name}" for name in had}

    def _watch(self) -> None:
        while not self._done.wait(SAMPLE_S):
            with contextlib.suppress(FileNotFoundError):  # a folder went away while it was listed
                self.sample()


def _processes() -> Iterator[tuple[Process, int]]:
    """Each process that has not ended, and its parent's ID."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            parts = _content(entry / "stat").rpartition(b")")[2].split()
            if parts and parts[0] != b"Z":
                yield (int(entry.name), int(parts[19])), int(parts[1])
