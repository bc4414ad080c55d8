"""An inventory of real groups and producers, complete while both clusters answer, and of one side while the other is down."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from command_line import drlib
from confluent_kafka import Consumer, Producer
from fix_engine import create_topic, wait_for
from testbed_members import join

from drlib.lab.lab import Lab


@contextmanager
def reading(servers: str, group: str, **more: str) -> Iterator[None]:
    """A consumer with partitions."""
    ended, assigned = threading.Event(), threading.Event()

    def read() -> None:
        config = {"bootstrap.servers": servers, "group.id": group, "client.id": f"{group}-1", "log_level": 0, **more}
        consumer = Consumer(config)
        consumer.subscribe(["orders"], on_assign=lambda *_: assigned.set())
        while not ended.is_set():
            consumer.poll(0.2)
        consumer.close()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        wait_for(f"{group} has partitions", assigned.is_set)
        yield
    finally:
        ended.set()
        thread.join(30)


def test_inventory_has_each_kind_and_the_living_side_alone_when_one_is_down(tmp_path: Path) -> None:
    with Lab(tmp_path / "lab", ("paris", "lyon")) as lab:
        servers = lab.clusters["paris"].bootstrap
        file = tmp_path / "mm2.properties"
        addresses = "".join(f"{alias}.bootstrap.servers = {c.bootstrap}\n" for alias, c in lab.clusters.items())
        file.write_text(
            f"clusters = paris, lyon\n{addresses}paris->lyon.enabled = true\nparis->lyon.groups.exclude = left.*\n"
        )
        create_topic(servers, "orders", 2)
        create_topic(servers, "sums-store-changelog", 1)
        began_ms = int(time.time() * 1000)
        idempotent = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
        idempotent.produce("orders", b"a", partition=0)
        assert idempotent.flush(30) == 0
        bank = Producer({"bootstrap.servers": servers, "transactional.id": "bank-1", "log_level": 0})
        bank.init_transactions(30)
        bank.begin_transaction()
        bank.produce("orders", b"b", partition=1)
        bank.flush(30)
        join(servers, "sums", "consumer", "stream")
        join(servers, "workers", "connect", "sessioned")
        join(servers, "registry", "sr", "v0")
        with (
            reading(servers, "billing"),
            reading(servers, "left-behind"),
            reading(servers, "new", **{"group.protocol": "consumer"}),
        ):
            both = drlib("inventory", str(file), "--json")
            assert both.returncode == 0, both.stderr + both.stdout
            document = json.loads(both.stdout)
            rows = {row["name"]: row for row in document["applications"] if row["cluster"] == "paris"}
            lab.clusters["lyon"].kill()
            alone = drlib("inventory", str(file), "--flow", "paris->lyon")
        bank.abort_transaction(30)
    kinds = {name: row["kind"] for name, row in rows.items() if not name.startswith("producer ID")}
    assert kinds == {
        "billing": "consumer group",
        "left-behind": "consumer group",
        "new": "consumer group (KIP-848)",
        "sums": "Kafka Streams",
        "workers": "Connect cluster",
        "registry": "group of another protocol",
        "bank-1": "transactional producer",
    }
    assert (rows["billing"]["clients"], rows["billing"]["hosts"]) == (["billing-1"], ["127.0.0.1"])
    assert (rows["billing"]["topics"], rows["billing"]["way"]) == (["orders"], "pointer or address")
    assert rows["left-behind"]["way"] == "by hand"
    assert rows["workers"]["clients"] == ["workers-1"]
    assert (rows["registry"]["clients"], rows["registry"]["members"]) == (["registry-1"], 1)
    assert rows["sums"]["topics"] == ["sums-store-changelog"]
    assert rows["bank-1"]["state"] == "transaction open"
    (plain,) = (row for name, row in rows.items() if name.startswith("producer ID"))
    assert (plain["kind"], plain["topics"]) == ("idempotent producer", ["orders"])
    assert began_ms <= plain["last_ms"] <= time.time() * 1000
    assert alone.returncode == 3, alone.stderr
    assert "lyon does not answer" in alone.stdout
    assert "billing" in alone.stdout
