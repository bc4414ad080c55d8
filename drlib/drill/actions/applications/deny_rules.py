"""Which ACL rules keep everybody from writing to topics, and which of those there have to be made.

Rules: a DENY wins over every ALLOW (`StandardAuthorizerData`), so one LITERAL rule a topic and principal is enough, and what
was granted stays as it is. Super users are above rules. A rule that exists already is not created, and so not this drill's to
take away. The first rule of a topic changes what holds for everybody else: with allow.everyone.if.no.acl.found only topics
without any rule are open. So a topic without one is *bare*, and is fenced only together with a rule that lets everybody do
the rest, where that was confirmed.
Not for: asking and telling the cluster (`drlib.kafka.admin.topic_acls`).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from drlib.kafka.protocol.acls import WILDCARD, Operation, PatternType, Permission, TopicAcl

EVERYBODY: Final = "User:*"
_ANY_HOST: Final = "*"


@dataclass(frozen=True, slots=True)
class WriteFence:
    """`make`: the rules to create. `bare`: topics that have none so far, and that `make` would be the first of."""

    make: tuple[TopicAcl, ...]
    bare: tuple[str, ...]


def write_fence(
    topics: Collection[str], principals: Collection[str], existing: Iterable[TopicAcl], *, open_to_all: bool
) -> WriteFence:
    """What it takes that none of `principals` writes to `topics`, where the rules `existing` hold.

    `open_to_all`: topics without a rule are open to everybody, and are to stay so but for writing.
    """
    known = frozenset(existing)
    bare = tuple(topic for topic in sorted(topics) if not any(concerns(rule, topic) for rule in known))
    wanted = {
        TopicAcl(topic, principal, _ANY_HOST, Operation.WRITE, Permission.DENY)
        for topic in topics
        for principal in principals
    }
    if open_to_all:
        wanted |= {TopicAcl(topic, EVERYBODY, _ANY_HOST, Operation.ALL, Permission.ALLOW) for topic in bare}
        return WriteFence(tuple(sorted(wanted - known, key=_order)), ())
    return WriteFence(tuple(sorted(wanted - known, key=_order)), bare)


def _order(rule: TopicAcl) -> tuple[bool, TopicAcl]:
    """What lets in comes before what keeps out: between the two no reader may be locked out."""
    return rule.permission is Permission.DENY, rule


def concerns(rule: TopicAcl, topic: str) -> bool:
    """Does `rule` say anything about `topic`?"""
    if rule.pattern is PatternType.PREFIXED:
        return topic.startswith(rule.topic)
    return rule.topic in (topic, WILDCARD)
