"""Which flows that keep topic names make a ring, and what is refused in one."""

from pathlib import Path

import pytest

from drlib.config.both_ways.rings import ring_of
from drlib.config.both_ways.shared_topics import TopicsShared, may_return, refuse_partly_shared, refuse_shared_topics
from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.model import Flow

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
DEFAULT = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
ROUND = ("A->B", "B->C", "C->A")


def load(tmp_path: Path, flows: tuple[str, ...], text: str = "") -> MirrorSettings:
    path = tmp_path / "mm2.properties"
    servers = "".join(f"{name}.bootstrap.servers = 127.0.0.1:{9092 + n}\n" for n, name in enumerate("ABCDE"))
    enabled = "".join(f"{flow}.enabled = true\n" for flow in flows)
    path.write_text(f"clusters = A, B, C, D, E\n{servers}{IDENTITY}{enabled}{text}")
    return load_mirror_settings(path)


@pytest.mark.parametrize(
    ("flows", "ring"),
    [
        (ROUND, "B -> C -> A -> B"),
        (("A->B", "B->C", "C->D", "D->A"), "B -> C -> D -> A -> B"),
        ((*ROUND, "A->D", "D->E"), "B -> C -> A -> B"),  # filled from the ring
        (("B->C", "C->B"), "None"),  # a pair
        (("A->B", "B->C"), "None"),
        ((*ROUND, "D->A"), "None"),  # its copies would be taken for records of A's clients
        ((*ROUND, "B->A"), "None"),
        ((*ROUND, "A->C", "C->B", "B->A"), "None"),  # both directions
        (("B->C", "C->D", "D->C"), "None"),  # leads out of a pair
    ],
)
def test_ring_is_one_direction_round_clusters_that_nothing_else_fills(
    tmp_path: Path, flows: tuple[str, ...], ring: str
) -> None:
    settings = load(tmp_path, flows)
    assert str(ring_of(Flow("B", "C"), settings.flows)) == ring


@pytest.mark.parametrize(
    ("flows", "returns"),
    [
        (ROUND, False),
        ((*ROUND, "C->D"), False),
        ((*ROUND, "D->E", "E->D"), False),
        ((*ROUND, "D->A"), True),
        ((*ROUND, "A->D", "C->D"), True),  # by two ways
        ((*ROUND, "C->B"), True),
        (("A->B", "B->C", "A->C"), True),
    ],
)
def test_records_may_not_return_or_come_twice_in_a_ring_whose_copies_are_recognised(
    tmp_path: Path, flows: tuple[str, ...], returns: bool
) -> None:
    assert may_return(load(tmp_path, flows).flows) is returns


def test_flow_whose_names_have_a_prefix_is_in_no_ring(tmp_path: Path) -> None:
    settings = load(tmp_path, ROUND, f"C->A.replication.policy.class = {DEFAULT}\n")
    assert ring_of(Flow("A", "B"), settings.flows) is None
    assert not may_return(settings.flows)


def test_topics_are_shared_if_all_flows_of_the_ring_select_them(tmp_path: Path) -> None:
    settings = load(tmp_path, ROUND, "topics = orders, heartbeats\nB->C.topics = o.*\n")
    ring = ring_of(Flow("A", "B"), settings.flows)
    assert ring is not None
    assert [ring.shares(name) for name in ("orders", "others", "heartbeats")] == [True, False, False]
    assert (ring.incoming.flow, ring.relays) == (Flow("C", "A"), 1)


@pytest.mark.parametrize("flow", [Flow("A", "B"), Flow("B", "A")])
def test_positions_are_refused_in_a_ring_and_between_two_of_its_clusters_backwards(tmp_path: Path, flow: Flow) -> None:
    settings = load(tmp_path, ROUND)
    for refuse in (refuse_shared_topics, refuse_partly_shared):
        with pytest.raises(TopicsShared, match=r"is not possible between . and ."):
            refuse(settings, flow, "it is not possible")
    refuse_shared_topics(settings, Flow("A", "D"), "it is possible")
