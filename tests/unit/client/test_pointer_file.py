"""Pointers as JSON, their file, and the watcher of that file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from drlib.client import pointer, pointer_file
from drlib.client.pointer import Pointer, PointerConflict
from drlib.client.pointer_copies import move, read_copies
from drlib.client.pointer_file import OwnPointerWatcher, PointerWatcher, own_file
from drlib.client.pointer_topic import publish
from drlib.errors import Unreachable, UsageError
from drlib.kafka.security.cluster_settings import ClusterSettings

LEFT = Pointer(1, "LEFT", "127.0.0.1:1")

RIGHT = Pointer(2, "RIGHT", "127.0.0.1:2", "LEFT.", {"LEFT.flights": (3, 0)})


def test_pointer_round_trip(tmp_path: Path) -> None:
    for one in (LEFT, RIGHT, Pointer(3, "RIGHT", "h:1", hold=True)):
        pointer_file.write_atomic(tmp_path / "pointer.json", one)
        assert pointer_file.read(tmp_path / "pointer.json") == one
    assert [path.name for path in tmp_path.iterdir()] == ["pointer.json"]
    assert (LEFT.remote_topic("flights"), RIGHT.remote_topic("flights")) == (None, "LEFT.flights")


def test_pointer_documented_form_is_read() -> None:
    content = (
        b"""{"version": 1, "active": "LEFT", "bootstrap": "h:1", "remote_prefix": null, "cutover": {"a": [1, 2]}}"""
    )
    assert pointer.decode(content) == Pointer(1, "LEFT", "h:1", None, {"a": (1, 2)})
    assert pointer.decode(b'{"version": 1, "active": "LEFT", "bootstrap": "h:1"}') == Pointer(1, "LEFT", "h:1")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"version": 1}',
        b'{"version": "1", "active": "L", "bootstrap": "h"}',
        b'{"version": 1, "active": "L", "bootstrap": "h", "cutover": []}',
        b'{"version": 1, "active": "L", "bootstrap": "h", "cutover": {"t": 5}}',
        b'{"version": 1, "active": "L", "bootstrap": "h", "hold": "yes"}',
        b'{"version": 1, "active": "L", "bootstrap": "h", "remote_prefix": 3}',
        b'{"version": 1, "active": "L", "bootstrap": "h", "cutover": {"t": [1e400]}}',
        b'{"version": 1, "active": "L", "bootstrap": "h", "cutover": {"t": [1.5]}}',
        b'{"version": 1, "active": "L", "bootstrap": "h", "cutover": {"t": "12"}}',
        b'{"version": 1, "active": "L", "bootstrap": "h", "hold_limit_s": 1e400}',
        b'{"version": 9223372036854775808, "active": "L", "bootstrap": "h"}',
        b'{"version": true, "active": "L", "bootstrap": "h"}',
        b'{"version": 1, "version": 2, "active": "L", "bootstrap": "h"}',
        b'{"version": 1, "active": "\\ud800", "bootstrap": "h"}',
        b"[1e400]",
        b"[" * 200_000,
        b"1" * 5_000,
        b"\xff",
        b" " * (2 << 20),
    ],
    ids=range(21),
)
def test_pointer_invalid_document_is_refused(content: bytes) -> None:
    with pytest.raises(UsageError, match="is not a pointer"):
        pointer.decode(content)


def test_pointer_watcher_sees_newer_version_only(tmp_path: Path) -> None:
    path = tmp_path / "pointer.json"
    watcher = PointerWatcher(path, interval_s=0.0)
    assert watcher.current() is None
    pointer_file.write_atomic(path, LEFT)
    assert watcher.current() == LEFT
    pointer_file.write_atomic(path, RIGHT)
    assert watcher.current() == RIGHT
    assert watcher.doubt() == ""
    path.write_bytes(pointer.encode(LEFT))
    assert watcher.current() == RIGHT
    assert watcher.doubt() == "pointer.json went back from version 2 to version 1"
    path.write_bytes(b"torn")
    assert watcher.current() == RIGHT
    assert "is not a pointer" in watcher.doubt()
    path.unlink()
    assert watcher.current() == RIGHT
    assert watcher.doubt() == "pointer.json does not exist"
    pointer_file.write_atomic(path, Pointer(3, "LEFT", "h:1"))
    assert watcher.wait_newer(2, 1.0) == Pointer(3, "LEFT", "h:1")
    assert watcher.doubt() == ""
    assert watcher.wait_newer(3, 0.01) is None


def test_pointer_write_refuses_older_version(tmp_path: Path) -> None:
    path = tmp_path / "pointer.json"
    pointer_file.write_atomic(path, RIGHT)
    pointer_file.write_atomic(path, RIGHT)
    for late in (LEFT, Pointer(2, "LEFT", "127.0.0.1:1")):
        with pytest.raises(PointerConflict, match="it holds version 2, which names RIGHT"):
            pointer_file.write_atomic(path, late)
    assert pointer_file.read(path) == RIGHT
    assert [entry.name for entry in tmp_path.iterdir()] == ["pointer.json"]


def test_newest_pointer_wins_and_conflicting_version_is_reported() -> None:
    assert pointer.newest([]) is None
    assert pointer.newest([RIGHT, LEFT, RIGHT]) == RIGHT
    rival = Pointer(2, "LEFT", "127.0.0.1:1")
    with pytest.raises(PointerConflict, match="there are two pointers with version 2"):
        pointer.newest([RIGHT, rival])
    assert pointer.newest([RIGHT, rival, Pointer(3, "LEFT", "h:1")]) == Pointer(3, "LEFT", "h:1")


def test_pointer_watcher_keeps_its_interval(tmp_path: Path) -> None:
    path = tmp_path / "pointer.json"
    watcher = PointerWatcher(path, interval_s=3600.0)
    assert watcher.current() is None
    pointer_file.write_atomic(path, LEFT)
    assert watcher.current() is None


def test_pointer_watcher_wait_ends_at_deadline(tmp_path: Path) -> None:
    watcher = PointerWatcher(tmp_path / "pointer.json", interval_s=0.001)
    with pytest.raises(Unreachable, match="no pointer"):
        watcher.wait(0.01)
    assert watcher.wait(60.0, stopping=lambda: True) is None
    pointer_file.write_atomic(tmp_path / "pointer.json", LEFT)
    assert watcher.wait(1.0) == LEFT


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _link(to: str) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        path.unlink()
        path.symlink_to(to)

    return spoil


def _contents(data: bytes) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        path.write_bytes(data)

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        _contents(b"[1e400]"),
        _contents(b"[" * 200_000),
        _contents(b'{"version": 3, "active": "L", "bootstrap": "h", "cutover": {"t": [1e400]}}'),
        _pipe,
        _folder,
        _link("pointer.json"),
        _link("/dev/zero"),
    ],
    ids=["infinity", "depth", "cutover", "pipe", "folder", "loop", "device"],
)
def test_pointer_watcher_keeps_its_pointer_whatever_the_file_becomes(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    path = tmp_path / "pointer.json"
    watcher = PointerWatcher(path, interval_s=0.0)
    pointer_file.write_atomic(path, LEFT)
    assert watcher.current() == LEFT
    spoil(path)
    assert watcher.current() == LEFT
    assert watcher.doubt().startswith("pointer.json ")


def test_pointer_that_is_a_link_is_not_written_and_what_it_leads_to_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_bytes(b"theirs")
    for name in ("pointer.json", f".pointer.json.{os.getpid()}"):
        (tmp_path / name).symlink_to("theirs")
    with pytest.raises(UsageError, match="symbolic link"):
        pointer_file.write_atomic(tmp_path / "pointer.json", LEFT)
    (tmp_path / "pointer.json").unlink()
    pointer_file.write_atomic(tmp_path / "pointer.json", LEFT)
    assert pointer_file.read(tmp_path / "pointer.json") == LEFT
    assert (tmp_path / "theirs").read_bytes() == b"theirs"


def test_pointer_watcher_follows_the_links_of_a_kubernetes_volume(tmp_path: Path) -> None:
    """The file is a link through `..data`, which is replaced by one that leads to another folder."""
    for name, written in (("first", LEFT), ("second", RIGHT)):
        (tmp_path / name).mkdir()
        pointer_file.write_atomic(tmp_path / name / "pointer.json", written)
    (tmp_path / "..data").symlink_to("first")
    (tmp_path / "pointer.json").symlink_to("..data/pointer.json")
    watcher = pointer_file.PointerWatcher(tmp_path / "pointer.json", 0.0)
    assert watcher.current() == LEFT
    (tmp_path / "new").symlink_to("second")
    (tmp_path / "new").replace(tmp_path / "..data")
    assert (watcher.current(), watcher.doubt()) == (RIGHT, "")


def test_pointer_is_readable_by_applications_of_other_users(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        pointer_file.write_atomic(tmp_path / "pointer.json", LEFT)
    finally:
        os.umask(before)
    assert (tmp_path / "pointer.json").stat().st_mode & 0o777 == 0o644


def test_application_follows_the_newer_one_of_its_own_pointer_and_that_of_all(tmp_path: Path) -> None:
    common = tmp_path / "pointer.json"
    own = own_file(common, "orders")
    assert own.name == "pointer.orders.json"
    watcher, other = (OwnPointerWatcher(common, name, interval_s=0.0) for name in ("orders", "billing"))
    assert watcher.current() is None
    pointer_file.write_atomic(common, LEFT)
    assert (watcher.current(), other.current()) == (LEFT, LEFT)
    pointer_file.write_atomic(own, RIGHT)
    assert (watcher.current(), other.current()) == (RIGHT, LEFT)
    back = Pointer(3, "LEFT", "127.0.0.1:1", hold=True)
    pointer_file.write_atomic(common, back)
    assert (watcher.current(), other.current()) == (back, back)
    own.unlink()
    assert watcher.current() == back


def test_application_follows_the_pointer_of_all_although_its_own_file_is_none(tmp_path: Path) -> None:
    common = tmp_path / "pointer.json"
    own_file(common, "orders").write_bytes(b"oops")
    watcher = OwnPointerWatcher(common, "orders", interval_s=0.0)
    for _ in range(2):
        with pytest.raises(UsageError, match=r"pointer\.orders\.json is not a pointer"):
            watcher.current()
    pointer_file.write_atomic(common, LEFT)
    assert watcher.current() == LEFT
    assert "pointer.orders.json is not a pointer" in watcher.doubt()
    pointer_file.write_atomic(common, RIGHT)
    assert watcher.wait_newer(1, 1.0) == RIGHT
    own_file(common, "orders").unlink()
    assert (watcher.current(), watcher.doubt()) == (RIGHT, "")
    common.write_bytes(b"oops")
    assert watcher.current() == RIGHT
    pointer_file.write_atomic(own_file(common, "orders"), Pointer(3, "LEFT", "h:1"))
    assert watcher.current() == Pointer(3, "LEFT", "h:1")


def large(version: int = 2, partitions: int = 100_000) -> Pointer:
    """A pointer of a cluster with as many mirrored partitions."""
    ends = {f"LEFT.topic-{n}": (123_456_789,) * 50 for n in range(partitions // 50)}
    return Pointer(version, "RIGHT", "127.0.0.1:2", "LEFT.", ends)


def test_pointer_of_a_cluster_with_80_000_partitions_is_read_by_every_reader(tmp_path: Path) -> None:
    path, pointed = tmp_path / "pointer.json", large(partitions=80_000)
    watcher = PointerWatcher(path, interval_s=0.0)
    pointer_file.write_atomic(path, pointed)
    assert (watcher.current(), watcher.doubt()) == (pointed, "")
    assert path.stat().st_size < 900_000  # librdkafka takes 1,000,000 by default


def test_pointer_that_no_reader_would_take_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "pointer.json"
    pointer_file.write_atomic(path, LEFT)
    watcher = PointerWatcher(path, interval_s=0.0)
    with pytest.raises(UsageError, match="the ends of 100000 partitions") as refused:
        pointer_file.write_atomic(path, large())
    assert "cutover: false" in str(refused.value)
    assert (watcher.current(), watcher.doubt()) == (LEFT, "")
    silent = ClusterSettings("LEFT", ("127.0.0.1:1",))
    with pytest.raises(UsageError, match="at most 900000 can be written"):  # a cluster would not have answered
        publish([silent], large())
    less, why = pointer.fitted(large())
    assert (less, "OrderedConsumer refuses it" in why) == (Pointer(2, "RIGHT", "127.0.0.1:2", "LEFT."), True)
    pointer_file.write_atomic(path, less)
    assert watcher.current() == less
    assert pointer.fitted(RIGHT) == (RIGHT, "")


@pytest.mark.parametrize("more", ["", "x"], ids=["too large", "no JSON"])
def test_file_that_no_reader_takes_is_replaced_by_a_move_above_its_version(tmp_path: Path, more: str) -> None:
    path = tmp_path / "pointer.json"
    pointer_file.write_atomic(path, Pointer(6, "LEFT", "127.0.0.1:1"))
    watcher = PointerWatcher(path, interval_s=0.0)
    assert watcher.current() == Pointer(6, "LEFT", "127.0.0.1:1")
    path.write_text(json.dumps(pointer.document(large(7)), indent=1) + more)  # as it was written before
    assert watcher.current() == Pointer(6, "LEFT", "127.0.0.1:1")
    with pytest.raises(PointerConflict, match="it holds version 7, in what is not a pointer"):
        pointer_file.write_atomic(path, RIGHT)
    seen = read_copies([], path)
    assert seen.next_version == 8
    moved = move([], seen, replace(RIGHT, version=seen.next_version), "*")
    assert (moved.where, watcher.current()) == ((str(path),), replace(RIGHT, version=8))


def test_file_that_says_nothing_is_replaced_and_one_that_cannot_be_read_is_not(tmp_path: Path) -> None:
    path = tmp_path / "pointer.json"
    path.write_bytes(b"torn")
    pointer_file.write_atomic(path, LEFT)
    assert pointer_file.read(path) == LEFT
    _pipe(path)
    with pytest.raises(UsageError, match="cannot be read: it is not a regular file") as refused:
        pointer_file.write_atomic(path, RIGHT)
    assert "drlib pointer move FILE CLUSTER --pointer" in str(refused.value)
