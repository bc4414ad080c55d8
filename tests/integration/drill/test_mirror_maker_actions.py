"""Actions of drills on a flow that MirrorMaker 2 mirrors, whose topics are written by hand."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from fix_engine import Engine, commit, create_topic, produce
from testbed_mm2 import copied_up_to, copy_as_they_are, leave_traces

from drlib.config.settings import load_mirror_settings
from drlib.drill.plan.plan import Argument, Call
from drlib.drill.run.registry import make_action
from drlib.drill.step import step_output
from drlib.drill.step.context import DrillContext
from drlib.errors import Unreachable, UsageError
from drlib.mirror.mm2.records import Checkpoint
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort


@pytest.fixture
def place(engine: Engine) -> DrillContext:
    """Of 2000 records all were copied; one group has read some, and one all."""
    topic = engine.topics
    engine.extra |= {"groups": f"{topic}.*", "emit.heartbeats.enabled": "false"}
    create_topic(engine.left, topic, 1)
    create_topic(engine.right, f"{engine.source}.{topic}", 1)
    produce(engine.left, topic, 2000, partitions=1)
    copy_as_they_are(engine)
    mirror = TopicPartition(f"{engine.source}.{topic}", 0)
    leave_traces(
        engine,
        [(n, n) for n in range(0, 2000, 101)],
        [Checkpoint(f"{topic}.some", mirror, 1100, 1011), Checkpoint(f"{topic}.gone", mirror, 5, 1)],
    )
    copied_up_to(engine, 1500)
    commit(engine.left, f"{topic}.some", topic, 1234)
    commit(engine.left, f"{topic}.all", topic, 2000)
    settings = load_mirror_settings(engine.properties)
    run_dir = engine.root / "run"
    run_dir.mkdir()
    return DrillContext(
        clusters=settings.clusters,
        flow=Flow(engine.source, engine.target),
        run_dir=run_dir,
        properties=engine.properties,
    )


def act(place: DrillContext, name: str, **arguments: str | float) -> dict[str, object]:
    given = tuple(Argument(key, value) for key, value in arguments.items())
    action = make_action(Call(name, given), place, name.replace(".", "-"))
    return dict(action.act(action.changes(action.observe()), Abort(place.run_dir)))


def test_canary_measures_what_groups_would_read_again_within_what_was_predicted(place: DrillContext) -> None:
    act(place, "groups.shadow")
    seen = act(place, "canary.read")
    assert (seen["positions"], seen["the_same"]) == (2, 2)
    rows = {str(row["group"]).rpartition(".")[2]: row for row in step_output.read_rows(place.run_dir, "canary-read")}
    some, everything = rows["some"], rows["all"]
    assert (some["from"], some["reads again"], some["reads again at most"]) == (1213, 21, 100)
    assert (everything["from"], everything["reads again"], everything["reads again at most"]) == (1920, 80, 80)
    groups = step_output.read_part(place.run_dir, "canary-read").groups
    assert {(g.re_read, g.re_read_at_most) for g in groups} == {(21, 100), (80, 80)}


def test_unreplicated_records_are_found_by_what_both_logs_hold(place: DrillContext, engine: Engine) -> None:
    produce(engine.left, engine.topics, 40, partitions=1, first=2000)
    seen = act(place, "tail.list")
    assert (seen["tail_records"], seen["in_doubt_records"]) == (40, 0)
    assert seen["read_already_by"] == "none"
    commit(engine.left, f"{engine.topics}.all", engine.topics, 2010)
    assert act(place, "tail.list")["read_already_by"] == f"{engine.topics}.all 10"


def test_unreplicated_records_of_equal_content_are_in_doubt_and_can_only_be_quarantined(
    place: DrillContext, engine: Engine
) -> None:
    """Of 30 equal records 12 were copied: which, nothing says."""
    mirror = f"{engine.source}.{engine.topics}"
    for bootstrap, topic, count in ((engine.left, engine.topics, 30), (engine.right, mirror, 12)):
        producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        for _ in range(count):
            producer.produce(topic, key=b"k", value=b"the same", timestamp=1_700_000_000_000, partition=0)
        assert producer.flush(30) == 0
    seen = act(place, "tail.list")
    assert (seen["tail_records"], seen["in_doubt_records"]) == (30, 12)
    with pytest.raises(UsageError, match="cannot be recovered"):
        act(place, "tail.recover")
    assert act(place, "tail.quarantine")["quarantined"] == 30


def test_flow_of_mirror_maker_is_verified_and_caught_up_where_the_mirror_has_all_records(
    place: DrillContext, engine: Engine
) -> None:
    flow = place.flow
    seen = act(place, "reverse.verify", source=flow.source, target=flow.target)
    assert "no heartbeat" in str(seen["mirror_maker_2"]) or "heartbeats are switched off" in str(seen["mirror_maker_2"])
    assert act(place, "reverse.wait", source=flow.source, target=flow.target)["behind_offsets"] == 0
    produce(engine.left, engine.topics, 7, partitions=1, first=2000)
    with pytest.raises(Unreachable, match="none of 7 missing offsets"):
        act(place, "reverse.wait", source=flow.source, target=flow.target, within_s=0.5)


def test_way_back_that_nothing_mirrors_is_refused_with_what_to_start(place: DrillContext) -> None:
    with pytest.raises(UsageError, match="is not being mirrored") as refused:
        act(place, "reverse.verify")
    assert "drlib mirror mm2.properties" in refused.value.remedy
    assert "connect-mirror-maker.sh mm2.properties" in refused.value.remedy
