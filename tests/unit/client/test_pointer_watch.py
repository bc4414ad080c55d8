"""The follower of the pointer's topic, with a consumer that returns what a test gives it: it never ends silently."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from deadline import Deadline

from drlib.client import pointer_watch
from drlib.client.pointer import Pointer, encode
from drlib.client.pointer_file import own_file, write_atomic
from drlib.client.pointer_watch import PointerTopicWatcher, pointer_source
from drlib.errors import UsageError
from drlib.kafka.admin import connect
from drlib.kafka.security.cluster_settings import ClusterSettings

LEFT = ClusterSettings("LEFT", ("h:1",))
ONE, TWO = Pointer(1, "LEFT", "h:1"), Pointer(2, "RIGHT", "h:2")
END = object()
NOT_POINTERS = (
    b"[1e400]",
    b'{"version": 1, "active": "L", "bootstrap": "h", "cutover": {"t": [1e400]}}',
    b"[" * 200_000,
    b"1" * 5_000,
    b'{"version": 9223372036854775808, "active": "L", "bootstrap": "h"}',
    b'{"version": 3, "version": 4, "active": "L", "bootstrap": "h"}',
    b'{"version": 3, "active": "\\ud800", "bootstrap": "h"}',
    b"\xff\xfe",
    b"",
)


class Message:
    def __init__(self, offset: int, value: bytes | object | None, key: bytes = b"*") -> None:
        self._offset, self._value, self._key = offset, value, key

    def error(self) -> Any:
        return KafkaError(KafkaError._PARTITION_EOF) if self._value is END else None

    def key(self) -> bytes:
        return self._key

    def value(self) -> Any:
        return self._value

    def offset(self) -> int:
        return self._offset


class Topic:
    """What its consumers read: records, `END`, or an exception to raise. Each consumer begins at the start."""

    def __init__(self) -> None:
        self.contents: list[Any] = []
        self.consumers = 0
        self.closed = 0

    def consumer(self, _: object, **__: object) -> Any:
        self.consumers += 1
        topic = self

        class Consumer:
            at = 0

            def assign(self, _: object) -> None: ...

            def get_watermark_offsets(self, *_: object, **__: object) -> tuple[int, int]:
                return 0, len(topic.contents)

            def poll(self, seconds: float) -> Message | None:
                if self.at >= len(topic.contents):
                    time.sleep(0.002)
                    return None
                self.at += 1
                found = topic.contents[self.at - 1]
                if isinstance(found, BaseException):
                    raise found
                key, value = found if isinstance(found, tuple) else (b"*", found)
                return Message(self.at - 1, value, key)

            def close(self) -> None:
                topic.closed += 1

        return Consumer()


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    made = Topic()
    monkeypatch.setattr(pointer_watch, "Consumer", made.consumer)
    monkeypatch.setattr(pointer_watch, "_CHECK_EVERY_S", 0.01)
    monkeypatch.setattr(pointer_watch, "_LONGEST_PAUSE_S", 0.02)
    return made


@pytest.fixture
def watch(topic: Topic) -> Iterator[Callable[[], PointerTopicWatcher]]:
    started: list[PointerTopicWatcher] = []

    def start() -> PointerTopicWatcher:
        started.append(PointerTopicWatcher((LEFT,), "orders"))
        return started[-1]

    yield start
    for one in started:
        one.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "pointer-LEFT"]


def until(holds: Callable[[], object]) -> None:
    deadline = Deadline(20.0)
    while not holds():
        assert not deadline.passed
        time.sleep(0.002)


def test_watcher_that_a_login_is_refused_says_so_and_goes_on_with_the_renewed_password(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The broker has another password than the consumer; then the file has it, too."""
    secret, accepted = tmp_path / "secret.properties", ["first"]
    secret.write_text("password=first\n")
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    keys = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} username="u" password="${{file:{secret}:password}}";',
    }

    def consumer(config: dict[str, object], **_: object) -> Any:
        made = topic.consumer(config)

        def watermarks(*_: object, **__: object) -> tuple[int, int]:
            if config["sasl.password"] not in accepted:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            return 0, len(topic.contents)

        made.get_watermark_offsets = watermarks
        return made

    def check_login(settings: ClusterSettings, _: float) -> None:
        if f"password={accepted[0]}\n" != secret.read_text():
            raise UsageError("the broker", "it refused the login", "Correct the password.")

    monkeypatch.setattr(pointer_watch, "Consumer", consumer)
    monkeypatch.setattr(connect, "check_login", check_login)
    topic.contents = [encode(ONE), END]
    watcher = PointerTopicWatcher((ClusterSettings("LEFT", ("h:1",), keys),), "orders")
    try:
        until(lambda: watcher.current() == ONE)
        accepted[0] = "second"
        until(lambda: "it refused the login" in watcher.doubt())
        secret.write_text("password=second\n")
        topic.contents.insert(1, encode(TWO))
        until(lambda: watcher.current() == TWO and not watcher.doubt())
    finally:
        watcher.close()


@pytest.mark.parametrize("value", NOT_POINTERS, ids=range(len(NOT_POINTERS)))
def test_watcher_record_that_is_no_pointer_is_doubted_and_the_next_one_used(
    topic: Topic, watch: Callable[[], PointerTopicWatcher], value: bytes
) -> None:
    topic.contents = [encode(ONE), END]
    watcher = watch()
    until(lambda: watcher.current() == ONE)
    topic.contents += [value]
    until(lambda: "is not a pointer" in watcher.doubt())
    assert watcher.current() == ONE
    topic.contents += [encode(TWO)]
    until(lambda: watcher.current() == TWO)
    assert watcher.doubt() == ""
    assert topic.consumers == 1, "the follower began again"


@pytest.mark.parametrize(
    "failure",
    [
        OverflowError("cannot convert float infinity to integer"),
        RecursionError("maximum recursion depth exceeded"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        MemoryError(),
        OSError(24, "Too many open files"),
        KafkaException(KafkaError(KafkaError._FATAL)),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_watcher_that_fails_is_doubted_and_begins_again(
    topic: Topic, watch: Callable[[], PointerTopicWatcher], failure: Exception
) -> None:
    topic.contents = [encode(ONE), END, failure]
    watcher = watch()
    until(lambda: topic.consumers > 2)
    assert watcher.doubt().startswith("LEFT ")
    assert watcher.current() == ONE
    assert watcher.settled()
    topic.contents = [encode(ONE), encode(TWO), END]
    until(lambda: watcher.current() == TWO and not watcher.doubt())
    assert topic.closed == topic.consumers - 1


def test_watcher_keeps_the_pointers_of_its_application_only(
    topic: Topic, watch: Callable[[], PointerTopicWatcher]
) -> None:
    topic.contents = [(f"other-{n}".encode(), encode(Pointer(n + 9, "LEFT", "h:1"))) for n in range(50)]
    topic.contents += [(b"orders", encode(TWO)), encode(ONE), END]
    watcher = watch()
    until(lambda: watcher.current() == TWO)
    assert set(watcher._pointers["LEFT"]) == {"orders", "*"}


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Topic, Topic, PointerTopicWatcher]]:
    """The topics of LEFT and RIGHT, both empty and not read to their ends, and who follows them for `orders`."""
    left, right = topics = Topic(), Topic()
    by_server = {"h:1": left, "h:2": right}
    monkeypatch.setattr(
        pointer_watch, "Consumer", lambda config, **_: by_server[config["bootstrap.servers"]].consumer({})
    )
    for each in topics:
        each.contents = [(b"others", b"x")]  # an empty topic counts as read
    watcher = PointerTopicWatcher((LEFT, ClusterSettings("RIGHT", ("h:2",))), "orders")
    yield left, right, watcher
    watcher.close()


@pytest.mark.parametrize("key", [b"*", b"orders"])
def test_watcher_follows_a_move_although_a_record_of_the_cluster_that_died_is_no_pointer(
    two: tuple[Topic, Topic, PointerTopicWatcher], key: bytes
) -> None:
    left, right, watcher = two
    left.contents += [encode(ONE), END]
    right.contents += [encode(ONE), END]
    until(lambda: watcher.settled() and watcher.current() == ONE)
    left.contents += [(key, b"oops")]  # the last that LEFT ever says
    until(lambda: "on LEFT at offset 3 is not a pointer" in watcher.doubt())
    right.contents += [encode(TWO)]
    assert watcher.wait_newer(1, 20.0) == TWO
    assert "on LEFT at offset 3 is not a pointer" in watcher.doubt()
    right.contents += [(key, b"oops"), encode(ONE)]
    until(lambda: watcher._pointers["RIGHT"].get("*") == ONE)
    assert watcher.current() == TWO, "it went back"


def test_watcher_that_starts_asks_every_cluster_before_a_record_that_is_no_pointer_ends_it(
    two: tuple[Topic, Topic, PointerTopicWatcher],
) -> None:
    left, right, watcher = two
    left.contents += [b"oops", END]
    until(lambda: "is not a pointer" in watcher.doubt())
    assert watcher.current() is None
    right.contents += [END]
    until(watcher.settled)
    with pytest.raises(UsageError, match="on LEFT at offset 1 is not a pointer"):
        watcher.current()
    right.contents += [encode(TWO)]
    until(lambda: watcher.wait_newer(0, 0.1) == TWO)
    assert watcher.current() == TWO


def test_source_of_one_application_follows_its_own_file_beside_that_of_all(tmp_path: Path) -> None:
    """As `drlib bootstrap --pointer --application` and `ActiveCluster` do: waves move it alone."""
    common = tmp_path / "pointer.json"
    write_atomic(common, ONE)
    sources = {name: pointer_source(common, (), name) for name in ("orders", "billing", "a/b", "*")}
    assert all(each.current() == ONE for each in sources.values())
    write_atomic(own_file(common, "orders"), TWO)
    assert sources["orders"].wait_newer(1, 10) == TWO
    assert all(each.current() == ONE for name, each in sources.items() if name != "orders")
