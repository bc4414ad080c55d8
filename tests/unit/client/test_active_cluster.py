"""What an application reads from a pointer file: the cluster, its security, a change, and every way it can be wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import drlib
from drlib.client import pointer, pointer_file
from drlib.client.active_cluster import NoPointer, StalePointer
from drlib.client.pointer import Pointer, PointerConflict
from drlib.client.pointer_topic import Found, Pointers, apply_record, pointers_for
from drlib.errors import UsageError

CLUSTERS = """
clusters = LEFT, RIGHT
LEFT.bootstrap.servers = left-1:9092, left-2:9092
RIGHT.bootstrap.servers = right:9093
RIGHT.security.protocol = SASL_SSL
RIGHT.sasl.mechanism = SCRAM-SHA-512
RIGHT.sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule required \
  username="orders" password="${env:ORDERS_PASSWORD}";
"""
LEFT = Pointer(1, "LEFT", "left-1:9092")
RIGHT = Pointer(2, "RIGHT", "elsewhere:9093", "LEFT.", {"LEFT.orders": (3, 0)})


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "clusters.properties"
    path.write_text(CLUSTERS)
    return path


@pytest.fixture
def point(tmp_path: Path) -> Callable[[Pointer], Path]:
    def write(one: Pointer) -> Path:
        pointer_file.write_atomic(tmp_path / "pointer.json", one)
        return tmp_path / "pointer.json"

    return write


def test_active_config_is_that_of_the_active_cluster(
    config: Path, point: Callable[[Pointer], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert drlib.active_config("orders", config, pointer=point(LEFT)) == {
        "bootstrap.servers": "left-1:9092,left-2:9092",
        "security.protocol": "PLAINTEXT",
    }
    monkeypatch.setenv("ORDERS_PASSWORD", "s3cret")
    found = drlib.active_config("orders", config, pointer=point(RIGHT))
    assert found["bootstrap.servers"] == "right:9093"  # the file's address: it is this application's way in
    assert (found["sasl.username"], found["sasl.password"]) == ("orders", "s3cret")


def test_active_config_resolves_secrets_late_and_never_prints_them(
    config: Path, point: Callable[[Pointer], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ORDERS_PASSWORD", raising=False)
    with drlib.ActiveCluster("orders", config, pointer=point(RIGHT)) as active:
        reported = active.current()
        assert (reported.alias, reported.version) == ("RIGHT", 2)
        with pytest.raises(UsageError, match="ORDERS_PASSWORD is not set"):
            reported.config()
        monkeypatch.setenv("ORDERS_PASSWORD", "s3cret")
        assert reported.config()["sasl.password"] == "s3cret"
        assert "ORDERS_PASSWORD" not in repr(reported)
        assert "s3cret" not in repr(reported)


def test_active_config_of_client_file_uses_the_pointers_address(
    tmp_path: Path, point: Callable[[Pointer], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = tmp_path / "client.properties"
    client.write_text(
        "security.protocol = SASL_PLAINTEXT\nsasl.mechanism = PLAIN\n"
        "sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="u" password="${env:P}";\n'
    )
    monkeypatch.setenv("P", "x")
    found = drlib.active_config("orders", client, pointer=point(RIGHT))
    assert (found["bootstrap.servers"], found["security.protocol"]) == ("elsewhere:9093", "SASL_PLAINTEXT")
    with pytest.raises(UsageError, match="has no clusters"):
        drlib.active_config("orders", client)


def test_wait_for_change_returns_a_change_once(config: Path, point: Callable[[Pointer], Path]) -> None:
    with drlib.ActiveCluster("orders", config, pointer=point(LEFT)) as active:
        assert active.current().alias == "LEFT"
        assert active.wait_for_change(0.01) is None
        path = point(RIGHT)
        changed = active.wait_for_change(5.0)
        assert changed is not None
        assert (changed.alias, changed.pointer.cutover) == ("RIGHT", {"LEFT.orders": (3, 0)})
        assert active.wait_for_change(0.01) is None
        path.unlink()
        assert active.wait_for_change(0.1) is None
        assert active.current() == changed
        assert active.doubt() == "pointer.json does not exist"


def test_active_cluster_errors_name_the_cause(config: Path, point: Callable[[Pointer], Path], tmp_path: Path) -> None:
    with pytest.raises(NoPointer, match=r"no cluster is active for orders.*drlib pointer move FILE CLUSTER"):
        drlib.active_config("orders", config, pointer=tmp_path / "none.json", timeout_s=0.05)
    with pytest.raises(StalePointer, match=r"has version 1: version 2 or newer exists"):
        drlib.active_config("orders", config, pointer=point(LEFT), at_least=2)
    with pytest.raises(UsageError, match=r"names MIDDLE: the clusters of .* are LEFT, RIGHT"):
        drlib.active_config("orders", config, pointer=point(Pointer(7, "MIDDLE", "m:1")))
    with pytest.raises(UsageError, match="not followed yet"):
        drlib.ActiveCluster("orders", config, pointer=tmp_path / "pointer.json").current()


def test_publish_pointer_uses_the_next_version(config: Path, tmp_path: Path) -> None:
    path = tmp_path / "pointer.json"
    first = drlib.publish_pointer(config, "LEFT", pointer=path)
    assert (first.pointer, first.where) == (Pointer(1, "LEFT", "left-1:9092,left-2:9092"), ("pointer.json",))
    drlib.publish_pointer(config, "RIGHT", pointer=path, remote_prefix="LEFT.", cutover={"LEFT.orders": (3,)})
    assert pointer_file.read(path) == Pointer(2, "RIGHT", "right:9093", "LEFT.", {"LEFT.orders": (3,)})
    with pytest.raises(UsageError, match="UP cannot be made active"):
        drlib.publish_pointer(config, "UP", pointer=path)


def test_pointer_files_move_one_application_alone_and_all_with_it(config: Path, tmp_path: Path) -> None:
    path, own = tmp_path / "pointer.json", tmp_path / "pointer.orders.json"

    def followed() -> dict[str, str]:
        found = {}
        for application in ("orders", "bills"):
            with drlib.ActiveCluster(application, config, pointer=path) as active:
                found[application] = active.current().alias
        return found

    drlib.publish_pointer(config, "LEFT", pointer=path)
    alone = drlib.publish_pointer(config, "RIGHT", "orders", pointer=path)
    assert (alone.pointer.version, alone.where) == (2, (own.name,))
    assert followed() == {"orders": "RIGHT", "bills": "LEFT"}
    drlib.publish_pointer(config, "RIGHT", "orders", pointer=path, hold=True)
    assert drlib.publish_pointer(config, "LEFT", pointer=path).where == (path.name, own.name)
    assert pointer_file.read(path) == pointer_file.read(own)
    assert pointer_file.read(own).version == 4
    assert followed() == {"orders": "LEFT", "bills": "LEFT"}
    with pytest.raises(UsageError, match="no / in its name"):
        drlib.publish_pointer(config, "LEFT", "a/b", pointer=path)


def test_pointers_for_application_and_everyone(config: Path) -> None:
    stored: Pointers = {}
    apply_record(stored, b"*", pointer.encode(LEFT), "here")
    apply_record(stored, b"orders", pointer.encode(RIGHT), "here")
    apply_record(stored, b"bills", b"junk", "here")
    assert pointers_for([stored], "orders") == ([RIGHT, LEFT], [])
    assert pointers_for([stored], "others") == pointers_for([stored], "*") == ([LEFT], [])
    valid, invalid = pointers_for([stored], "bills")
    assert (valid, [error.what for error in invalid]) == ([LEFT], ["here is not a pointer"])
    with pytest.raises(UsageError, match="here is not a pointer"):
        Found({"LEFT": stored}, {}).of("bills")
    apply_record(stored, b"bills", pointer.encode(RIGHT), "here")
    assert pointers_for([stored], "bills") == ([RIGHT, LEFT], [])
    apply_record(stored, b"orders", None, "here")
    assert pointers_for([stored], "orders") == ([LEFT], [])
    apply_record(stored, b"orders", pointer.encode(Pointer(1, "RIGHT", "h:1")), "here")
    with pytest.raises(PointerConflict):
        pointer.newest(pointers_for([stored], "orders")[0])
