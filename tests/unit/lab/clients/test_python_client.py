"""What the Python clients write down of records."""

from __future__ import annotations

from kafka.consumer.fetcher import ConsumerRecord

from drlib.lab.clients.python_client import _rows


def test_record_of_another_program_has_no_id_and_no_number() -> None:
    fields = dict.fromkeys(ConsumerRecord._fields)
    typed = ConsumerRecord(**{**fields, "topic": "orders", "partition": 0, "offset": 5, "headers": ()})
    ours = typed._replace(offset=6, key=b"k", headers=[("id", b"a-7"), ("n", b"3")])
    assert _rows([typed, ours]) == [("orders", 0, 5, "", "", -1), ("orders", 0, 6, "a-7", "k", 3)]
