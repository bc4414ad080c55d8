"""Spec files of applications: read back as written, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drlib.errors import UsageError
from drlib.lab.apps import specs


def test_spec_round_trip(tmp_path: Path) -> None:
    producer = specs.ProducerSpec("p", "h", specs.ProducerMode.FLIGHTS_TX, records_per_second=1.0)
    consumer = specs.ConsumerSpec("p", "h", "arrivals", status="s", addresses={"LEFT": "127.0.0.1:1"})
    specs.write(tmp_path / "a", producer)
    specs.write(tmp_path / "b", consumer)
    assert specs.load(tmp_path / "a", specs.ProducerSpec) == producer
    assert specs.load(tmp_path / "b", specs.ConsumerSpec) == consumer


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"gruop": "x"}, "unknown key 'gruop'"),
        ({"max_batch": "500"}, "'max_batch' in spec.json is '500'"),
        ({"max_batch": True}, "'max_batch' in spec.json is True"),
        ({"records_per_second": None}, "'records_per_second' in spec.json is None"),
        ({"group": None}, "'group' in spec.json is None"),
        ({"addresses": {"LEFT": 9092}}, "'addresses' in spec.json is"),
    ],
)
def test_spec_wrong_value_names_its_key(tmp_path: Path, change: dict[str, object], said: str) -> None:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps({"pointer": "p", "history": "h", "group": "g", **change}))
    with pytest.raises(UsageError, match=said):
        specs.load(path, specs.ConsumerSpec)


def test_spec_invalid_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    with pytest.raises(UsageError, match="cannot read"):
        specs.load(path, specs.ConsumerSpec)
    path.write_text("{")
    with pytest.raises(UsageError, match="is not JSON"):
        specs.load(path, specs.ConsumerSpec)
    path.write_text("[]")
    with pytest.raises(UsageError, match="is not a spec"):
        specs.load(path, specs.ConsumerSpec)
    path.write_text('{"pointer": "p"}')
    with pytest.raises(UsageError, match="incomplete"):
        specs.load(path, specs.ConsumerSpec)
    path.write_text('{"pointer": "p", "history": "h", "mode": "fly"}')
    with pytest.raises(UsageError, match="'mode'"):
        specs.load(path, specs.ProducerSpec)
