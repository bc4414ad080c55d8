"""What a witness serves, and what who asks it takes of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from deadline import Deadline
from testbed_http import http_server

from drlib import decoding
from drlib.drill.witness import service
from drlib.drill.witness.evidence import Answer, Place, View
from drlib.drill.witness.service import Witness
from drlib.errors import UsageError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.outgoing import http_request

PARIS, LYON = ClusterSettings("paris", ("127.0.0.1:1",)), ClusterSettings("lyon", ("127.0.0.1:2",))


@contextmanager
def witness(answers: dict[str, Answer]) -> Iterator[Witness]:
    serving = Witness("127.0.0.1:0", [PARIS, LYON], lambda cluster: answers[cluster.alias])
    deadline = Deadline(20)
    while {alias: seen.answer for alias, seen in serving.seen().items()} != answers:
        assert not deadline.passed
    try:
        yield serving
    finally:
        serving.close()


def test_witness_says_what_it_sees_and_no_more() -> None:
    with witness({"paris": Answer.SILENT, "lyon": Answer.SERVES}) as serving:
        view = service.ask(serving.address, PARIS, LYON)
        assert (view.place, view.name, view.source, view.target) == (
            Place.WITNESS,
            serving.address,
            Answer.SILENT,
            Answer.SERVES,
        )
        assert view.since_s is not None
        assert view.since_s >= 0
        other = ClusterSettings("nice", ("127.0.0.1:3",))
        assert service.ask(serving.address, other, LYON).source is Answer.UNKNOWN
        page = http_request.fetch(
            http_request.Request(http_request.parse(f"http://{serving.address}/witness")), 1 << 20
        )
        assert b"127.0.0.1" not in page.body
        assert {*decoding.json_value(page.body)} == {"paris", "lyon"}  # type: ignore[misc]
        for path, method, status in (("/status", "GET", 404), ("/witness", "POST", 405)):
            where = http_request.parse(f"http://{serving.address}{path}")
            assert http_request.fetch(http_request.Request(where, method=method), 1 << 20).status == status


def test_witness_whose_question_fails_says_unknown_and_keeps_the_reason() -> None:
    def fails(cluster: ClusterSettings) -> Answer:
        raise UsageError("a", "b", "c")

    serving = Witness("127.0.0.1:0", [PARIS], fails)
    try:
        deadline = Deadline(20)
        while serving.failure is None or not serving.seen():
            assert not deadline.passed
        assert service.ask(serving.address, PARIS, LYON).source is Answer.UNKNOWN
    finally:
        serving.close()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"paris": {"answer": "answers"}}',
        b'{"paris": {"answer": "dead", "age_s": 0, "since_s": 0}}',
        b'{"paris": {"answer": "no answer", "age_s": -1, "since_s": 0}}',
        b'{"paris": {"answer": "no answer", "age_s": 1e999, "since_s": 0}}',
        b'{"paris": {"answer": "no answer", "age_s": 9, "since_s": 0}}',  # old
        b"[" * 10_000,
    ],
)
def test_ask_anything_but_a_fresh_answer_is_unknown(body: bytes) -> None:
    with http_server() as server:
        server.answers["/witness"] = (200, {}, body)
        address = f"127.0.0.1:{server.server_address[1]}"
        view = service.ask(address, PARIS, LYON)
    assert view == View(Place.WITNESS, address, Answer.UNKNOWN, Answer.UNKNOWN)


def test_ask_without_a_witness_or_an_address_is_unknown() -> None:
    for address in ("127.0.0.1:1", "nonsense", "127.0.0.1:1/other?x", ""):
        assert service.ask(address, PARIS, LYON).source is Answer.UNKNOWN


def test_witness_at_an_address_that_is_taken_is_refused() -> None:
    with witness({"paris": Answer.SERVES, "lyon": Answer.SERVES}) as serving, pytest.raises(UsageError):
        Witness(serving.address, [PARIS], lambda _: Answer.SERVES)
