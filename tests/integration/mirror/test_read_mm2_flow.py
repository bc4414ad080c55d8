"""Topics as MirrorMaker 2 leaves them, written by hand: what is read of them, whoever else wrote to them."""

from __future__ import annotations

import asyncio

import pytest
from fix_engine import Engine, commit, create_topic, produce
from testbed_lane import connected
from testbed_mm2 import copied_up_to, leave_traces

from drlib.config.settings import load_mirror_settings
from drlib.errors import DrlibError
from drlib.mirror.journal.entries import SourcePartition
from drlib.mirror.mm2.records import Checkpoint
from drlib.mirror.monitor.flow_view import MIRROR_MAKER, NO_WORKER, overview
from drlib.mirror.monitor.survey import Survey, Surveyor
from drlib.mirror.offsets.mirror_maker.maps import id_of
from drlib.mirror.offsets.mirror_maker.read_flow import SourceSide, mirror_maker_of, read_mm2_flow
from drlib.mirror.offsets.translation.translate_groups import translate_groups, translate_known
from drlib.model import Flow, GroupTranslation, TopicPartition, TranslationKind

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def survey(engine: Engine, *, source_error: str = "") -> Survey:
    settings, flow = load_mirror_settings(engine.properties), Flow(engine.source, engine.target)
    surveyor = Surveyor(settings, settings.flow(flow.source, flow.target))
    return asyncio.run(surveyor.survey(groups=True, source_error=source_error))


@pytest.mark.parametrize(
    ("policy", "location"),
    [("default", "source"), ("default", "target"), ("identity", "source"), ("identity", "target")],
)
def test_flow_of_mirror_maker_is_read_from_its_topics_among_records_of_others(
    engine: Engine, policy: str, location: str
) -> None:
    """2000 records copied to the second half of a mirror of 4000; names kept or not, offset syncs on either side."""
    engine.extra |= {"offset-syncs.topic.location": location, "groups": f"{engine.topics}.*"}
    engine.extra["emit.heartbeats.enabled"] = "false"
    engine.extra |= {"replication.policy.class": IDENTITY} if policy == "identity" else {}
    flow, topic, group = Flow(engine.source, engine.target), engine.topics, f"{engine.topics}.g"
    mirror = topic if policy == "identity" else f"{engine.source}.{topic}"
    create_topic(engine.left, topic, 1)
    create_topic(engine.right, mirror, 1)
    produce(engine.left, topic, 2000, partitions=1)
    produce(engine.right, mirror, 2000, partitions=1, first=9000)
    commit(engine.left, group, topic, 1234)
    settings = load_mirror_settings(engine.properties)
    assert overview(survey(engine), [], 0).state == NO_WORKER
    assert mirror_maker_of(settings, flow) is None
    with pytest.raises(DrlibError, match=r"__drlib-journal"):
        translate_groups(settings, flow)

    produce(engine.right, mirror, 2000, partitions=1)
    syncs = [(n, 2000 + n) for n in range(0, 2000, 101)]
    there = TopicPartition(mirror, 0)
    known = [
        Checkpoint(group, there, 1000, 2910),
        Checkpoint("other", there, 7, 99_999),
        Checkpoint("none", there, -1, -1),
    ]
    leave_traces(engine, syncs, known, location=location)
    copied_up_to(engine, 1700)

    seen = survey(engine)
    view = overview(seen, [], 0)
    assert (view.state, view.open_events) == (MIRROR_MAKER, ())
    (partition,) = [p for p in view.partitions if p.topic == topic]
    assert (partition.mirrored, partition.position, partition.target_end) == (1920, 2000, 4000)
    assert seen.groups is not None
    (row,) = seen.groups
    assert (row.group, row.other, row.read_again) == (group, 1, 100)
    (found,) = translate_groups(settings, flow, [group])
    assert_bounded(found, 1234, 2000 + 1212 + 1, 3313)
    assert mirror_maker_of(settings, flow) is not None

    without = translate_known(settings, flow, source_alive=False)  # by checkpoints alone, and the syncs that lyon has
    by_group = {item.group: item for item in without.translations}
    end = 3010 if location == "target" else 4000
    assert_bounded(by_group[group], 1000, 2910, end)
    assert by_group["other"].translation.offset == (
        2001 if location == "target" else 0
    )  # its checkpoint lies past the end
    silent = survey(engine, source_error="it was killed")
    assert silent.mirror_maker is not None
    assert bool(silent.mirror_maker.unread) == (location == "source")
    (partition,) = [p for p in silent.partitions if p.topic == topic]
    assert (partition.mirrored, partition.known) == (1920 if location == "target" else 1701, False)


def assert_bounded(item: GroupTranslation, position: int, offset: int, end: int) -> None:
    assert item.source_offset == position
    assert (item.translation.kind, item.translation.offset) == (TranslationKind.BOUNDED, offset)
    assert item.translation.records == end - offset


def test_records_written_since_the_source_reported_its_ends_do_not_make_positions_unknown(engine: Engine) -> None:
    """Under traffic, offset syncs are newer than the log ends that were read before them."""
    engine.extra["emit.heartbeats.enabled"] = "false"
    flow, topic, at = Flow(engine.source, engine.target), engine.topics, TopicPartition(engine.topics, 0)
    mirror = f"{engine.source}.{topic}"
    for bootstrap, name in ((engine.left, topic), (engine.right, mirror)):
        create_topic(bootstrap, name, 1)
        produce(bootstrap, name, 500, partitions=1)
    leave_traces(engine, [(0, 0), (400, 400)], [])
    copied_up_to(engine, 450)
    settings = load_mirror_settings(engine.properties)

    async def least(end: int) -> int | None:
        async with connected(engine.left) as source, connected(engine.right) as target:
            side = SourceSide(source, ends={at: end})
            found = await read_mm2_flow(settings.flow(flow.source, flow.target), target, side)
            assert found is not None
            return found.maps.by_partition[SourcePartition(id_of(topic), 0)].position

    assert asyncio.run(least(300)) == 451
