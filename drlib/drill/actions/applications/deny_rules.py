"""Which ACLs deny writing to topics, and which of those have to be created.

Rules: a DENY wins over every ALLOW (`StandardAuthorizerData`), so one LITERAL rule a topic and principal is enough, and what
was granted stays as it is. Super users are above rules. A rule that exists already is not created, and so this drill does not
remove it. The first ACL of a topic changes the rights of all other principals: with allow.everyone.if.no.acl.found only
topics without any ACL are open. So a topic without one is *bare*, and is fenced only together with a rule that allows every
principal all other operations, where that was confirmed.
Not for: reading and changing ACLs of a cluster (`drlib.kafka.admin.topic_acls`).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from drlib.kafka.protocol.acls import WILDCARD, Operation, PatternType, Permission, TopicAcl

ANY_PRINCIPAL: Final = "User:*"
_ANY_HOST: Final = "*"


@dataclass(frozen=True, slots=True)
class WriteFence:
    """`make`: the rules to create. `bare`: topics that have none so far, and that `make` would be the first of."""

    make: tuple[TopicAcl, ...]
    bare: tuple[str, ...]


def write_fence(
    topics: Collection[str], principals: Collection[str], existing: Iterable[TopicAcl], *, open_to_all: bool
) -> WriteFence:
    """What is needed so that none of `principals` can write to `topics`, with the rules `existing` in place.

    `open_to_all`: topics without an ACL are open to every principal, and stay so except for writing.
    """
    known = frozenset(existing)
    bare = tuple(topic for topic in sorted(topics) if not any(concerns(rule, topic) for rule in known))
    wanted = {
        TopicAcl(topic, principal, _ANY_HOST, Operation.WRITE, Permission.DENY)
        for topic in topics
        for principal in principals
    }
    if open_to_all:
        wanted |= {TopicAcl(topic, ANY_PRINCIPAL, _ANY_HOST, Operation.ALL, Permission.ALLOW) for topic in bare}
        return WriteFence(tuple(sorted(wanted - known, key=_order)), ())
    return WriteFence(tuple(sorted(wanted - known, key=_order)), bare)


def _order(rule: TopicAcl) -> tuple[bool, TopicAcl]:
    """Rules that allow come before those that deny, so that no reader is locked out between the two."""
    return rule.permission is Permission.DENY, rule


def concerns(rule: TopicAcl, topic: str) -> bool:
    """Does `rule` say anything about `topic`?"""
    if rule.pattern is PatternType.PREFIXED:
        return topic.startswith(rule.topic)
    return rule.topic in (topic, WILDCARD)
