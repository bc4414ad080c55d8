"""What follows from an observation: mirrored topics, applications, topics that producers need on the target."""

from __future__ import annotations

from dataclasses import replace

from first_runbooks import facts_of, group, paris_and_lyon

from drlib.runbook.first_runbooks.observation import FlowFacts, SeenGroup

IDENTITY = (
    "paris->lyon.enabled = true\nreplication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
)


def test_facts_of_the_default_policy_name_mirrors_and_topics_missing_on_the_target() -> None:
    (facts,) = facts_of(paris_and_lyon())
    assert facts.mirrored == {"orders": "paris.orders", "prices": "paris.prices"}
    assert facts.written == ("orders",)
    assert facts.transactional == ("orders",)
    assert facts.missing == ("orders", "prices")
    assert facts.complete


def test_facts_of_the_identity_policy_need_the_mirrors_themselves() -> None:
    clusters = paris_and_lyon(mirrors=False)
    (facts,) = facts_of({**clusters, "lyon": replace(clusters["lyon"], topics=frozenset({"orders"}))}, IDENTITY)
    assert facts.keeps_names
    assert facts.mirrored == {"orders": "orders", "prices": "prices"}
    assert facts.written == ("orders",)
    assert facts.missing == ("prices",)


def test_way_back_is_open_but_under_one_name_that_one_direction_copies() -> None:
    (facts,) = facts_of(paris_and_lyon())
    seen = FlowFacts(facts.flow, facts.source, facts.target)
    ways = [seen, replace(seen, keeps_names=True), replace(seen, keeps_names=True, both_ways=True)]
    assert [each.way_back for each in ways] == [True, False, True]


def test_facts_leave_out_internal_topics_heartbeats_and_mirrors_of_the_target() -> None:
    clusters = paris_and_lyon()
    more = {"heartbeats", "lyon.heartbeats", "lyon.orders", "__consumer_offsets", "mm2-offset-syncs.lyon.internal"}
    paris = replace(clusters["paris"], topics=clusters["paris"].topics | more)
    (facts,) = facts_of({**clusters, "paris": paris})
    assert set(facts.mirrored) == {"orders", "prices"}


def test_applications_are_mirrored_groups_with_members_or_positions_by_name() -> None:
    groups = (
        group("search"),
        group("billing"),
        SeenGroup("idle", 0, (), ("orders",)),
        SeenGroup("unreadable", None, why="refused"),
        SeenGroup("empty", 0),
        group("console-consumer-1"),
        group("drill.run.billing"),
        group("drlib-lyon-paris"),
        group("drlib.mirror.lyon->paris"),
    )
    (facts,) = facts_of(paris_and_lyon(*groups))
    assert facts.applications is not None
    assert [each.name for each in facts.applications] == ["billing", "idle", "search", "unreadable"]


def test_facts_of_a_silent_source_know_mirrors_by_the_target_and_nothing_else() -> None:
    clusters = paris_and_lyon()
    silent = {**clusters, "paris": replace(paris_and_lyon(seen=False)["paris"], silence="no answer")}
    (facts,) = facts_of(silent)
    assert facts.mirrored == {"orders": "paris.orders", "prices": "paris.prices"}
    assert facts.applications is None
    assert facts.written is None
    assert not facts.complete


def test_facts_of_a_silent_target_do_not_know_what_it_lacks() -> None:
    clusters = paris_and_lyon()
    silent = {**clusters, "lyon": replace(paris_and_lyon(seen=False)["lyon"], silence="no answer")}
    (facts,) = facts_of(silent)
    assert facts.missing is None
    assert not facts.complete


def test_facts_of_a_cluster_that_answers_in_part_are_not_complete() -> None:
    clusters = paris_and_lyon()
    (facts,) = facts_of({**clusters, "lyon": replace(clusters["lyon"], in_part="2 of 3 brokers answer")})
    assert not facts.complete
