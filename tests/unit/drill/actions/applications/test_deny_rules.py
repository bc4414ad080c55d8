"""Which rules keep everybody from writing, and when the first rule of a topic would do more than that."""

from __future__ import annotations

from drlib.drill.actions.applications.deny_rules import WriteFence, write_fence
from drlib.kafka.protocol.acls import Operation, PatternType, Permission, TopicAcl

ALL = "User:*"


def deny(topic: str, who: str = ALL) -> TopicAcl:
    return TopicAcl(topic, who, "*", Operation.WRITE, Permission.DENY)


def allow(topic: str, who: str = "User:reader", pattern: PatternType = PatternType.LITERAL) -> TopicAcl:
    return TopicAcl(topic, who, "*", Operation.READ, Permission.ALLOW, pattern)


def test_write_fence_denies_each_principal_on_topics_with_rules() -> None:
    there = [allow("a"), allow("b.", pattern=PatternType.PREFIXED)]
    found = write_fence(["a", "b.1"], [ALL, "User:app"], there, open_to_all=False)
    assert found == WriteFence((deny("a"), deny("a", "User:app"), deny("b.1"), deny("b.1", "User:app")), ())


def test_write_fence_existing_rule_is_not_made() -> None:
    there = [deny("a"), allow("*")]
    assert write_fence(["a", "b"], [ALL], there, open_to_all=False) == WriteFence((deny("b"),), ())


def test_write_fence_bare_topic_is_named_or_opened_for_all_but_writing() -> None:
    there = [allow("a"), allow("bar", pattern=PatternType.PREFIXED)]
    assert write_fence(["a", "ba", "c"], [ALL], there, open_to_all=False).bare == ("ba", "c")
    found = write_fence(["a", "c"], [ALL], there, open_to_all=True)
    everything = TopicAcl("c", ALL, "*", Operation.ALL, Permission.ALLOW)
    assert found == WriteFence((everything, deny("a"), deny("c")), ())  # first what lets in
