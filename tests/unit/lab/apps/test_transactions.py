"""Which errors of a transactional call are waited out."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.lab.apps.process import Stop
from drlib.lab.apps.specs import ProducerMode, ProducerSpec
from drlib.lab.apps.transactions import Transactions
from drlib.lab.checker.history_files import HistoryWriter

HERE = Pointer(1, "LEFT", "127.0.0.1:1")


def error(code: int, *, retriable: bool = False, abort: bool = False) -> KafkaException:
    return KafkaException(KafkaError(code, "of the call", False, retriable, abort))


def called(folder: Path, *errors: KafkaException) -> bool:
    """The answer of a call that meets these errors, one after the other, and then succeeds."""
    file, left = folder / "pointer.json", list(errors)
    pointer_file.write_atomic(file, HERE)
    spec = ProducerSpec(str(file), str(folder / "history"), ProducerMode.FLIGHTS_TX, "t")

    def transactional(_: float) -> None:
        if left:
            raise left.pop(0)

    with HistoryWriter(Path(spec.history)) as history:
        return Transactions(spec, Stop(), history)._call(HERE, transactional)


@pytest.mark.parametrize("retriable", [True, False])
def test_transactional_call_without_an_answer_is_repeated(tmp_path: Path, retriable: bool) -> None:
    assert called(tmp_path, *(error(KafkaError._TIMED_OUT, retriable=retriable) for _ in range(3)))


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError._PURGE_QUEUE])
def test_transactional_call_of_a_transaction_that_has_to_be_aborted_is_not_repeated(tmp_path: Path, code: int) -> None:
    """It would get the error again, at once, for ever: the application wrote nothing more, with a processor and all memory."""
    with pytest.raises(KafkaException):
        called(tmp_path, error(code, abort=True))


def test_transactional_call_that_is_refused_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(KafkaException):
        called(tmp_path, error(KafkaError.TOPIC_AUTHORIZATION_FAILED))
