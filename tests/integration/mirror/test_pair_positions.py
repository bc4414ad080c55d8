"""Positions of groups that move between two clusters that both serve: by both logs as they are now."""

from __future__ import annotations

from collections.abc import Callable

from fix_engine import Engine, commit, create_topic, delete_records, produce
from testbed_sync import value_at

from drlib.config.settings import load_mirror_settings
from drlib.mirror.offsets.translation.two_way import group_positions, read_flow_pair, translate
from drlib.model import Flow, TranslationKind


def test_position_whose_records_expired_on_the_target_is_at_its_log_start(
    engine: Engine, fresh_topic: Callable[..., str]
) -> None:
    """What has expired there alone is lost by moving; what has expired on both clusters is not."""
    topic, group, mirror = engine.topics, fresh_topic("group"), f"{engine.source}.{engine.topics}"
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 50, partitions=1)
    engine.mirror_now(topic)
    commit(engine.left, group, topic, 5)
    settings, moving = load_mirror_settings(engine.properties), Flow(engine.source, engine.target)
    positions = group_positions(settings, engine.source, [group])
    delete_records(engine.right, mirror, 20)
    (found,) = translate(settings, read_flow_pair(settings, moving), positions, {})
    assert (found.translation.kind, found.translation.offset) == (TranslationKind.LOST, 20)
    assert found.translation.expired == found.translation.records > 0
    delete_records(engine.left, topic, 30)
    (found,) = translate(settings, read_flow_pair(settings, moving), positions, {})
    assert found.translation.exact
    assert found.translation.offset is not None
    assert value_at(engine.right, mirror, found.translation.offset) == value_at(engine.left, topic, 30)
