"""`drlib translate` says which topics hold transactions, of which a part may be visible on the target."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from confluent_kafka import Producer
from fix_engine import Engine, commit, create_topic, produce, wait_for_markers

from drlib.config.settings import load_mirror_settings
from drlib.mirror.offsets.translation.transactional_topics import visible_in_part
from drlib.model import Flow


def test_translate_names_topics_written_in_transactions_and_no_other(
    engine: Engine, fresh_topic: Callable[..., str]
) -> None:
    plain, paid, group = engine.topics, fresh_topic("paid"), fresh_topic("group")
    engine.topics = f"{plain}, {paid}"
    for topic in (plain, paid):
        create_topic(engine.left, topic, 1)
    produce(engine.left, plain, 10, partitions=1)  # by an idempotent producer
    producer = Producer({"bootstrap.servers": engine.left, "transactional.id": paid, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(paid, b"1", partition=0)
    producer.commit_transaction(30)
    wait_for_markers(engine.left, paid, 1)
    for topic in (plain, paid):
        commit(engine.left, group, topic, 1)
    engine.mirror_now(plain, paid)
    flow = f"{engine.source}->{engine.target}"
    argv = [sys.executable, "-m", "drlib.cli", "translate", str(engine.properties), "--flow", flow, "--group", group]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"drlib: {paid}: written in transactions.")
    assert f"a part may be visible on {engine.target} before the rest" in line
    settings = load_mirror_settings(engine.properties)
    assert visible_in_part(settings, Flow(engine.source, engine.target), [plain]) == ""


def test_visible_in_part_is_silent_where_the_source_is(engine: Engine) -> None:
    engine.left = "127.0.0.1:1"
    settings = load_mirror_settings(engine.properties)
    assert visible_in_part(settings, Flow(engine.source, engine.target), [engine.topics]) == ""
