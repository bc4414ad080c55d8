"""Workers of one flow with different files: they share its lanes, so each knows of the others."""

from __future__ import annotations

from collections.abc import Callable

from fix_engine import Engine, create_topic, produce


def test_workers_with_other_topics_name_each_other_until_they_end(
    engine: Engine, fresh_topic: Callable[..., str]
) -> None:
    flow = f"{engine.source}->{engine.target}"
    topic, other = engine.topics, fresh_topic("other")
    for name in (topic, other):
        create_topic(engine.left, name, 2)
        produce(engine.left, name, 20, partitions=2)
    first = engine.start()
    engine.wait_caught_up(topic, 2)
    same = engine.start()
    engine.wait_caught_up(topic, 0)
    assert not engine.reported("WorkersDiffer", flow, number=0)
    assert engine.stop(same) == 0, engine.log()
    engine.topics = other
    second = engine.start()
    event = engine.wait_reported("WorkersDiffer", flow)
    assert "they have other topics or names than this worker: " in event.detail
    assert engine.stop(first) == 0, engine.log()
    engine.wait_reported("WorkersDiffer", flow, resolved=True)
    engine.wait_caught_up(other, 2)
    assert engine.stop(second) == 0, engine.log()
