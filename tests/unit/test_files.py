"""Files that are replaced whole: what readers see, what a failure leaves, and who may read them."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from drlib.errors import UsageError
from drlib.files import (
    MOST_BYTES,
    cache_folder,
    file_lock,
    make_folder,
    open_stored,
    read_given,
    read_given_bytes,
    read_json,
    read_stored,
    remove_stored,
    stored_descriptor,
    sync_folder,
    write_first,
    write_whole,
)

FULL = """\
import resource, sys
from pathlib import Path
from drlib.files import write_whole
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    write_whole(Path(sys.argv[1]), "x" * 1000)
except OSError as error:
    sys.exit(error.errno)
"""


@pytest.mark.parametrize("content", ["grün\n", b"\x00\xff", ""])
def test_write_whole_is_readable_by_the_owner_only(tmp_path: Path, content: str | bytes) -> None:
    path = tmp_path / "one.json"
    before = os.umask(0)
    try:
        write_whole(path, content)
    finally:
        os.umask(before)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_write_whole_reader_never_sees_a_part(tmp_path: Path) -> None:
    path, over, seen = tmp_path / "one", threading.Event(), set[bytes]()
    whole = {bytes([letter]) * 100_000 for letter in b"abc"}
    write_whole(path, b"a" * 100_000)

    def read() -> None:
        while not over.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(20):
            for content in whole:
                write_whole(path, content)
    finally:
        over.set()
        reader.join()
    assert seen
    assert seen <= whole


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, list[str]]]:
    """The folders that were put on disk, each with the names that it had."""
    found: list[tuple[Path, list[str]]] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_dir():
            found.append((path, sorted(each.name for each in path.iterdir())))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return found


@pytest.mark.parametrize("write", [write_whole, write_first])
def test_write_new_name_is_on_disk(
    tmp_path: Path, synced: list[tuple[Path, list[str]]], write: Callable[[Path, str], None]
) -> None:
    write(tmp_path / "one", "x")
    assert synced[-1][0] == tmp_path
    assert "one" in synced[-1][1]


def test_write_whole_that_need_not_last_waits_for_no_folder(
    tmp_path: Path, synced: list[tuple[Path, list[str]]]
) -> None:
    write_whole(tmp_path / "one", "x", durable=False)
    assert synced == []


def test_make_folder_puts_each_new_name_on_disk(tmp_path: Path, synced: list[tuple[Path, list[str]]]) -> None:
    make_folder(tmp_path / "runs" / "one")
    assert synced == [(tmp_path, ["runs"]), (tmp_path / "runs", ["one"])]
    assert (tmp_path / "runs" / "one").stat().st_mode & 0o777 == 0o700
    make_folder(tmp_path / "runs" / "one")
    assert len(synced) == 2
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        make_folder(tmp_path / "file" / "below")


def test_remove_stored_is_on_disk(tmp_path: Path, synced: list[tuple[Path, list[str]]]) -> None:
    (tmp_path / "one").write_text("")
    remove_stored(tmp_path / "one")
    assert synced == [(tmp_path, [])]
    remove_stored(tmp_path / "one")
    assert len(synced) == 1


@pytest.mark.parametrize(("number", "passes"), [(errno.EINVAL, True), (errno.EIO, False)])
def test_sync_folder_raises_what_is_no_property_of_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, passes: bool
) -> None:
    def fsync(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fsync)
    with nullcontext() if passes else pytest.raises(OSError, match=os.strerror(number)):
        sync_folder(tmp_path)


def test_write_whole_full_disk_leaves_the_old_file_only(tmp_path: Path) -> None:
    path = tmp_path / "one"
    write_whole(path, "old")
    ended = subprocess.run([sys.executable, "-c", FULL, str(path)], check=False)
    assert ended.returncode != 0
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_write_first_keeps_the_first_file_whole(tmp_path: Path) -> None:
    for number in range(50):
        path, seen = tmp_path / f"one-{number}", set[str]()
        start = threading.Barrier(5)

        def read(path: Path = path, start: threading.Barrier = start, seen: set[str] = seen) -> None:
            start.wait()
            while not path.exists():
                pass
            seen.add(path.read_text())

        def write(name: str, path: Path = path, start: threading.Barrier = start) -> None:
            start.wait()
            write_first(path, name)

        threads = [threading.Thread(target=write, args=(name,)) for name in ("left", "right", "third")]
        threads += [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == {path.read_text()}
        assert seen <= {"left", "right", "third"}
    assert len(list(tmp_path.iterdir())) == 50


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "No such file"), (b"a = \xff", "not UTF-8 at byte 4"), (b"#" * (MOST_BYTES + 1), "larger than")],
    ids=["missing", "not UTF-8", "too large"],
)
def test_given_file_that_cannot_be_read_is_refused_with_its_path(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    path = tmp_path / "given.properties"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        read_given(path, "a .properties file")
    assert str(path) in refused.value.what
    assert why in refused.value.why


def test_given_file_at_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "given.json"
    path.write_bytes(b" " * MOST_BYTES)
    assert len(read_given(path, "a JSON file")) == MOST_BYTES
    with pytest.raises(UsageError, match="path"):
        read_given(Path("a\0b"), "a JSON file")
    with pytest.raises(UsageError, match="directory"):
        read_given(tmp_path, "a JSON file")


def test_read_stored_pipe_folder_or_large_file_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * 11)
    for name, why in (("pipe", "not a regular file"), (".", "not a regular file"), ("large", "larger than 10 bytes")):
        with pytest.raises(OSError, match=why):
            read_stored(tmp_path / name, 10)
    assert read_stored(tmp_path / "large", 11) == b"x" * 11


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[1e400]", "too large"),
        (b"[" * 200_000, "nested deeper"),
        (b"1" * 5000, "not a number"),
        (b'{"a": 1, "a": 1}', "a is set twice"),
        (b'"\\ud800"', "half of a surrogate pair"),
        (b"\xff", "not UTF-8"),
        (b"[]", "input should be an object"),
        (b'{"a": "x"}', "a: "),
    ],
    ids=range(8),
)
def test_read_json_unusable_content_is_an_error_with_remedy(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "one.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=why) as refused:
        read_json(path, TypeAdapter(dict[str, int]), "Make a new plan.")
    assert refused.value.remedy == "Make a new plan."
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="not a regular file"):
        read_json(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "missing")


def bound(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


SPECIAL: dict[str, tuple[Callable[[Path], object], str]] = {
    "link": (lambda p: p.symlink_to("theirs"), "symbolic link"),
    "dangling link": (lambda p: p.symlink_to("nowhere"), "symbolic link"),
    "loop": (lambda p: p.symlink_to(p.name), "symbolic link"),
    "link to a folder": (lambda p: p.symlink_to("."), "symbolic link"),
    "pipe": (os.mkfifo, "not a regular file"),
    "folder": (Path.mkdir, "not a regular file"),
    "socket": (bound, "not a regular file"),
    "device": (lambda p: p.symlink_to("/dev/zero"), "symbolic link"),
}


@pytest.fixture(params=SPECIAL)
def special(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    """A path of drlib's own at which another program left something else, and what is said of it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs").write_text("theirs")
    make, why = SPECIAL[request.param]
    make(Path("own"))
    return tmp_path / "own", why


def test_special_file_in_place_of_a_stored_one_is_refused_at_once(special: tuple[Path, str]) -> None:
    path, why = special
    readers = (read_stored, open_stored, stored_descriptor)
    for flags in (os.O_WRONLY | os.O_CREAT, os.O_RDWR | os.O_CREAT | os.O_APPEND):
        with pytest.raises(OSError, match=why):
            os.close(stored_descriptor(path, flags))
    for reader in readers:
        with pytest.raises(OSError, match=why):
            reader(path)
    assert (path.parent / "theirs").read_text() == "theirs"
    assert not (path.parent / "nowhere").exists()


def test_special_file_in_place_of_a_lock_is_refused_at_once(special: tuple[Path, str]) -> None:
    path, why = special
    if path.is_dir():  # a folder can be locked, and may be reached by a link
        return
    with pytest.raises(OSError, match=why), file_lock(path):
        pass
    assert not (path.parent / "nowhere").exists()


def test_special_file_is_replaced_and_what_it_led_to_is_left_alone(special: tuple[Path, str]) -> None:
    path, _ = special
    if path.is_dir() and not path.is_symlink():
        with pytest.raises(OSError, match="directory"):
            write_whole(path, "ours")
    else:
        write_whole(path, "ours")
        assert path.read_text() == "ours"
        assert not path.is_symlink()
    assert (path.parent / "theirs").read_text() == "theirs"
    assert {each.name for each in path.parent.iterdir()} == {"own", "theirs"}


def test_given_file_may_be_a_link_to_a_regular_one(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x")
    (tmp_path / "given").symlink_to("secret")
    assert read_given_bytes(tmp_path / "given", 1) == b"x"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        read_given_bytes(tmp_path / "pipe", 1)


def test_device_is_refused_and_huge_sparse_file_costs_no_memory(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not a regular file"):
        read_stored(Path("/dev/zero"))
    (tmp_path / "huge").touch()
    os.truncate(tmp_path / "huge", 1 << 40)
    with pytest.raises(OSError, match="larger than"):
        read_stored(tmp_path / "huge")


def test_trusted_file_belongs_to_this_user_root_or_the_owner_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, me = tmp_path / "own", os.geteuid()
    path.write_text("x")
    monkeypatch.setattr("os.fstat", lambda fd, real=os.fstat: owned(real(fd), me + 7))
    assert read_stored(path) == b"x"
    with pytest.raises(OSError, match=f"it belongs to user {me + 7}"):
        read_stored(path, trusted=True)
    monkeypatch.setattr("os.fstat", lambda fd: owned(os.stat(path), 0))
    assert read_stored(path, trusted=True) == b"x"


def owned(of: os.stat_result, user: int) -> os.stat_result:
    return os.stat_result((*of[:4], user, *of[5:]))


def test_write_whole_mode_is_less_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "one", "x", mode=0o666, durable=False)
    finally:
        os.umask(before)
    assert (tmp_path / "one").stat().st_mode & 0o777 == 0o640


def test_read_json_below_a_file_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("")
    with pytest.raises(FileNotFoundError, match="Not a directory"):
        read_json(tmp_path / "notes" / "state.json")


@pytest.mark.parametrize(
    ("given", "base"), [("", ".cache"), ("relative", ".cache"), ("{home}/elsewhere", "elsewhere")], ids=str
)
def test_cache_folder_follows_the_absolute_one_that_is_given(
    given: str, base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", given.format(home=tmp_path))
    assert cache_folder() == tmp_path / base / "drlib"
