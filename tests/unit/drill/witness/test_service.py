"""What a witness serves, and what who asks it takes of it."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deadline import Deadline
from testbed_http import http_server

from drlib import decoding
from drlib.drill.witness import service
from drlib.drill.witness.evidence import Answer, Place
from drlib.drill.witness.login import Question, WitnessLogin
from drlib.drill.witness.service import Witness
from drlib.errors import UsageError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.errors import Fault, fault
from drlib.lab.brokers.certificates import Authority
from drlib.outgoing import http_request

TOKEN, OTHER = "a token of some letters", "another of some letters"
DOWN = {"paris": Answer.SILENT, "lyon": Answer.SERVES}
PARIS, LYON = ClusterSettings("paris", ("127.0.0.1:1",)), ClusterSettings("lyon", ("127.0.0.1:2",))


@contextmanager
def witness(answers: dict[str, Answer], token: str = "", tls: ssl.SSLContext | None = None) -> Iterator[Witness]:
    serving = Witness("127.0.0.1:0", [PARIS, LYON], lambda cluster: answers[cluster.alias], token=token, tls=tls)
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


def test_witness_whose_login_is_refused_says_unknown_until_the_password_is_renewed() -> None:
    wrong = threading.Event()
    wrong.set()

    def refuses(cluster: ClusterSettings) -> Answer:
        if wrong.is_set():
            raise fault(Fault.WRONG_CREDENTIALS, "h:1", mechanism="PLAIN", detail="wrong password")
        return Answer.SERVES

    serving = Witness("127.0.0.1:0", [PARIS], refuses)
    try:
        for answer in (Answer.UNKNOWN, Answer.SERVES):
            deadline = Deadline(20)
            while PARIS.alias not in serving.seen() or serving.seen()[PARIS.alias].answer is not answer:
                assert not deadline.passed
            assert serving.failure is None
            assert ("sasl.jaas.config" in serving.refused.get(PARIS.alias, "")) is wrong.is_set()
            wrong.clear()
    finally:
        serving.close()


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
        b'{"paris": {"answer": "no answer", "age_s": "0", "since_s": 0}}',
        b'{"paris": {"answer": "no answer", "age_s": 0, "since_s": 0, "more": 1}}',
        b'{"pa ris": {"answer": "no answer", "age_s": 0, "since_s": 0}}',
        b'{"paris": {"answer": "no answer", "age_s": 0, "since_s": 1e12}}',
        b"{" + b",".join(b'"c%d": {"answer": "no answer", "age_s": 0, "since_s": 0}' % n for n in range(31)) + b"}",
        b"[" * 10_000,
    ],
)
def test_ask_anything_but_a_fresh_answer_is_unknown(body: bytes) -> None:
    with http_server() as server:
        server.answers["/witness"] = (200, {}, body)
        address = f"127.0.0.1:{server.server_address[1]}"
        view = service.ask(address, PARIS, LYON)
    assert (view.source, view.target, view.since_s) == (Answer.UNKNOWN, Answer.UNKNOWN, None)


def test_ask_without_a_witness_or_an_address_is_unknown() -> None:
    for address in ("127.0.0.1:1", "nonsense", "127.0.0.1:1/other?x", ""):
        assert service.ask(address, PARIS, LYON).source is Answer.UNKNOWN


def test_witness_at_an_address_that_is_taken_is_refused() -> None:
    with witness({"paris": Answer.SERVES, "lyon": Answer.SERVES}) as serving, pytest.raises(UsageError):
        Witness(serving.address, [PARIS], lambda _: Answer.SERVES)


def test_witness_with_a_token_answers_those_who_hold_it_and_proves_its_answers() -> None:
    with witness(DOWN, TOKEN) as serving:
        view = service.ask(serving.address, PARIS, LYON, WitnessLogin(TOKEN))
        assert (view.source, view.target, view.note) == (Answer.SILENT, Answer.SERVES, "")
        assert view.since_s is not None


@pytest.mark.parametrize(
    ("login", "note"),
    [(WitnessLogin(), "it has a token"), (WitnessLogin(OTHER), "it has another token")],
)
def test_witness_with_a_token_says_nothing_to_others(login: WitnessLogin, note: str) -> None:
    with witness(DOWN, TOKEN) as serving:
        view = service.ask(serving.address, PARIS, LYON, login)
        assert (view.source, view.target, view.since_s) == (Answer.UNKNOWN, Answer.UNKNOWN, None)
        assert note in str(view)
        where = http_request.parse(f"http://{serving.address}/witness")
        for header in ("", "x", f"Bearer {TOKEN}", Question.new(OTHER).header, "DrlibWitness " + "0" * 97, "é"):
            answer = http_request.fetch(http_request.Request(where, headers={"Authorization": header}), 1 << 20)
            assert answer.status == 401
            assert b"paris" not in answer.body


def test_ask_believes_no_answer_that_is_not_proven_for_its_own_question() -> None:
    """Another program at the address, with the answer to an earlier question, or with any other."""
    said = json.dumps({alias: {"answer": "no answer", "age_s": 0, "since_s": 9} for alias in ("paris", "lyon")})
    earlier = Question.new(TOKEN)
    bodies = [
        said,
        json.dumps({"proof": earlier.answered(TOKEN, said), "said": said}),
        json.dumps({"proof": "0" * 64, "said": said}),
        json.dumps({"proof": "", "said": said}),
        json.dumps({"said": said}),
        json.dumps({"proof": "é" * 64, "said": said}),
    ]
    with http_server() as server:
        for body in bodies:
            server.answers["/witness"] = (200, {}, body.encode())
            view = service.ask(f"127.0.0.1:{server.server_address[1]}", PARIS, LYON, WitnessLogin(TOKEN))
            assert (view.source, view.target) == (Answer.UNKNOWN, Answer.UNKNOWN)
            assert "no answer of a witness" in view.note
        assert TOKEN not in str([received.headers for received in server.received])  # it is never sent


def test_ask_a_witness_of_another_machine_without_a_token_does_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    def connects(*_: object) -> None:
        raise AssertionError("it was asked")

    monkeypatch.setattr(http_request, "fetch", connects)
    for address in ("192.0.2.1:9470", "https://192.0.2.1:9470", "witness.example:9470"):
        view = service.ask(address, PARIS, LYON, WitnessLogin(why="${env:TOKEN} has no value"))
        assert view.source is Answer.UNKNOWN
        assert "${env:TOKEN} has no value" in str(view)


@pytest.mark.parametrize("address", ["0.0.0.0:0", "192.0.2.1:9470"])
def test_witness_without_a_token_listens_on_its_own_machine_only(address: str) -> None:
    with pytest.raises(UsageError, match="it has no token") as refused:
        Witness(address, [PARIS], lambda _: Answer.SERVES)
    assert "drlib.witness.token" in refused.value.remedy


def test_witness_over_tls_is_asked_by_the_name_of_its_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    made = authority.issue("witness")  # for 127.0.0.1 and localhost
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(made)
    with witness(DOWN, TOKEN, tls) as serving:
        port = serving.address.rpartition(":")[2]
        trusted = WitnessLogin(TOKEN, authority.certificate)
        assert service.ask(f"https://127.0.0.1:{port}", PARIS, LYON, trusted).source is Answer.SILENT
        for address, login in (
            (f"https://127.0.0.2:{port}", trusted),  # a certificate of another name
            (f"https://127.0.0.1:{port}", WitnessLogin(TOKEN)),  # an authority that is not trusted
            (f"127.0.0.1:{port}", trusted),  # no TLS
            (f"https://127.0.0.1:{port}", WitnessLogin(TOKEN, tmp_path / "missing.pem")),
        ):
            assert service.ask(address, PARIS, LYON, login).source is Answer.UNKNOWN


@pytest.mark.parametrize(
    ("address", "near"),
    [
        ("127.0.0.1:1", True),
        ("localhost:1", True),
        ("https://[::1]:1", True),
        ("192.0.2.1:1", False),
        ("nonsense", False),
    ],
)
def test_is_near_is_a_witness_of_this_machine(address: str, near: bool) -> None:
    assert service.is_near(address) is near
