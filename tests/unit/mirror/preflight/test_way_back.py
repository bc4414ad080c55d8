"""Which topics another file's workers copy back, by their journal and their group."""

from __future__ import annotations

import uuid

import pytest

from drlib.kafka.net.group_requests import GroupListing
from drlib.mirror.journal.claims_and_runs import Clusters
from drlib.mirror.journal.entries import TopicNames
from drlib.mirror.preflight.way_back import copied_back, reason_to_stop, worker_groups

SOURCE, TARGET = "source-id", "target-id"
OPPOSITE = Clusters(TARGET, SOURCE)


def names(source: str, target: str) -> TopicNames:
    return TopicNames(uuid.uuid4(), source, target, uuid.uuid4())


def test_topics_of_the_opposite_journal_under_one_name_are_copied_back() -> None:
    entries = [OPPOSITE, names("b", "b"), names("a", "a"), names("c", "X.c"), names("other", "other")]
    assert copied_back(entries, SOURCE, TARGET, lambda topic: topic != "other") == ("a", "b")


@pytest.mark.parametrize(
    "pinned", [None, Clusters(SOURCE, TARGET), Clusters("third", SOURCE), Clusters(TARGET, "third")]
)
def test_journal_of_other_clusters_or_of_this_direction_copies_nothing_back(pinned: Clusters | None) -> None:
    entries = [names("a", "a")] if pinned is None else [OPPOSITE, names("a", "a"), pinned]
    assert copied_back(entries, SOURCE, TARGET, lambda topic: True) == ()


def test_worker_groups_are_those_of_the_alias_that_have_members() -> None:
    listings = [
        GroupListing("drlib-LEFT-RIGHT", "consumer", "Stable"),
        GroupListing("drlib-LEFT-THIRD", "consumer", "Empty"),
        GroupListing("drlib-LEFT-FOURTH", "consumer", "Dead"),
        GroupListing("drlib-LEFTMOST-RIGHT", "consumer", "Stable"),
        GroupListing("LEFT-mm2", "connect", "Stable"),
        GroupListing("drlib-LEFT-FIFTH", "consumer", "PreparingRebalance"),
    ]
    assert worker_groups(listings, "LEFT") == ("drlib-LEFT-RIGHT", "drlib-LEFT-FIFTH")


def test_reason_to_stop_a_topic_names_who_copies_it_also_where_its_records_were_seen_to_return_first() -> None:
    assert reason_to_stop("orders", "", "group A-mm2") == "orders returns to the source: group A-mm2"
    seen = reason_to_stop("orders", "records of orders-0 return", "group A-mm2")
    assert seen == "records of orders-0 return; group A-mm2"
    assert reason_to_stop("orders", seen, "group A-mm2") == seen
