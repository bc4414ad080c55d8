"""The line between the driver and its tasks, over real sockets: who is let in, and how everybody hears the word to stop."""

from __future__ import annotations

import json
import queue
import socket
from collections.abc import Callable, Iterator

import pytest

from drlib.mirror.spark.child_worker import Fault, Word, encode_word
from drlib.mirror.spark.control_channel import Gone, Heard, Line

HOST = "127.0.0.1"


@pytest.fixture
def news() -> queue.SimpleQueue[object]:
    return queue.SimpleQueue()


@pytest.fixture
def line(news: queue.SimpleQueue[object]) -> Iterator[Line]:
    opened = Line(HOST, news)
    yield opened
    opened.close()


@pytest.fixture
def call(line: Line) -> Iterator[Callable[..., socket.socket]]:
    made = []

    def dial(token: str, number: int = 1) -> socket.socket:
        caller = socket.create_connection((HOST, line.port), 10)
        made.append(caller)
        hello = {"token": token, "number": number, "attempt": 0, "name": f"host-spark{number}.0.7"}
        caller.sendall(json.dumps(hello).encode() + b"\n")
        return caller

    yield dial
    for caller in made:
        caller.close()


def test_a_task_is_heard_until_it_goes(
    line: Line, call: Callable[..., socket.socket], news: queue.SimpleQueue[object]
) -> None:
    caller = call(line.token, 2)
    hello = news.get(timeout=10)
    assert isinstance(hello, Heard)
    assert (hello.hello.number, hello.hello.name, hello.word) == (2, "host-spark2.0.7", None)
    assert line.there() == {2}
    word = Word(ended=True, fault=Fault("it failed", "so it is", "Mend it.", 11, True))
    caller.sendall(encode_word(word))
    assert news.get(timeout=10) == Heard(hello.hello, word)
    caller.close()
    assert news.get(timeout=10) == Gone(hello.hello)
    assert line.there() == frozenset()


@pytest.mark.parametrize("token", ["", "another", "\N{GREEK SMALL LETTER ALPHA}"])
def test_whoever_has_not_the_token_is_hung_up_on(
    line: Line, call: Callable[..., socket.socket], news: queue.SimpleQueue[object], token: str
) -> None:
    assert call(token).recv(1) == b""
    assert news.empty()
    assert line.there() == frozenset()


def test_what_is_no_hello_is_hung_up_on(line: Line, news: queue.SimpleQueue[object]) -> None:
    with socket.create_connection((HOST, line.port), 10) as caller:
        caller.sendall(b"GET / HTTP/1.1\r\n")
        assert caller.recv(1) == b""
    assert news.empty()


def test_stop_is_told_to_who_is_there_and_to_who_comes_later_and_their_last_words_still_arrive(
    line: Line, call: Callable[..., socket.socket], news: queue.SimpleQueue[object]
) -> None:
    early = call(line.token, 1)
    first = news.get(timeout=10)
    assert isinstance(first, Heard)
    line.stop()
    assert early.recv(1) == b""
    late = call(line.token, 2)
    assert late.recv(1) == b""
    second = news.get(timeout=10)
    assert isinstance(second, Heard)
    assert second.hello.number == 2
    early.sendall(encode_word(Word(ended=True)))
    assert news.get(timeout=10) == Heard(first.hello, Word(ended=True))
