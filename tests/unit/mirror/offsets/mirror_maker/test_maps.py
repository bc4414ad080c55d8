"""Maps of a flow that MirrorMaker 2 mirrors, asked as a journal's are."""

from __future__ import annotations

import uuid

from drlib.mirror.journal.entries import SourcePartition, TopicNames
from drlib.mirror.offsets.mirror_maker.maps import SyncedMap, SyncedMaps, id_of
from drlib.mirror.offsets.mirror_maker.sync_pairs import SyncedPartition, UsablePairs
from drlib.model import TopicPartition, Translation, TranslationKind

BOUNDED = TranslationKind.BOUNDED
AT = TopicPartition("t", 3)


def maps() -> SyncedMaps:
    found = SyncedMaps(checkpoints={("g", AT): (45, 48), ("bad", AT): (45, 90)})
    found.names[id_of("t")] = TopicNames(id_of("t"), "t", "A.t", uuid.uuid4())
    synced = SyncedPartition(0, 100, UsablePairs(((10, 10), (60, 70))), (60, 70))
    found.by_partition[SourcePartition(id_of("t"), 3)] = SyncedMap(synced)
    return found


def test_forward_takes_the_groups_own_checkpoint_where_it_is_better() -> None:
    assert maps().forward("g", AT, 50) == Translation(48, BOUNDED, 22)
    assert maps().forward("other", AT, 50) == Translation(11, BOUNDED, 59)
    assert maps().forward("bad", AT, 50) == Translation(11, BOUNDED, 59)
    assert maps().forward("g", AT, 44) == Translation(11, BOUNDED, 59)  # the group was set back since


def test_forward_of_what_was_not_mirrored_is_none() -> None:
    assert maps().forward("g", TopicPartition("t", 4), 50) is None
    assert maps().forward("g", TopicPartition("u", 3), 50) is None


def test_map_has_the_bounds_of_what_was_mirrored_and_no_way_back() -> None:
    (offsets,) = maps().by_partition.values()
    assert isinstance(offsets, SyncedMap)
    assert (offsets.position, offsets.furthest, offsets.target_end) == (61, 90, 100)
    assert offsets.backward(50) == Translation(None, TranslationKind.UNKNOWN)


def test_topics_are_known_by_name_whatever_their_id_is() -> None:
    (key,) = maps().by_partition
    assert maps().is_current(key, uuid.uuid4())
    assert not maps().is_current(key, None)
