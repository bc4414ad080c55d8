"""Which ACL rules of the source's topics hold for their mirror topics.

Rules (MirrorMaker 2's `MirrorSourceConnector.syncTopicAcls`): only LITERAL rules of mirrored topics; the table `COPIED`
says what a rule becomes; rules are created, never deleted. Unlike MirrorMaker 2, the rule for every topic (`*`) is not
turned into one for a topic of that name; under an identity policy it would open or close the whole target.
Not for: groups, transactional IDs and the cluster itself, whose rules nobody can carry over by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from drlib.kafka.protocol.acls import WILDCARD, Operation, PatternType, Permission, TopicAcl

COPIED: Final[Mapping[tuple[Permission, Operation], Operation | None]] = {
    (Permission.ALLOW, Operation.ALL): Operation.READ,  # a mirror topic has one writer, the mirror
    (Permission.ALLOW, Operation.WRITE): None,
    **{(Permission.ALLOW, op): op for op in Operation if op not in (Operation.ALL, Operation.WRITE)},
    **{(Permission.DENY, op): op for op in Operation},
}


def mirrored(
    source: Iterable[TopicAcl], mirrors: Callable[[str], bool], remote: Callable[[str], str]
) -> tuple[TopicAcl, ...]:
    """The rules that should hold on the target. `mirrors`: is the topic mirrored? `remote`: the name of its mirror."""
    found = set()
    for acl in source:
        if acl.pattern is not PatternType.LITERAL or acl.topic == WILDCARD or not mirrors(acl.topic):
            continue
        operation = COPIED[acl.permission, acl.operation]
        if operation is not None:
            found.add(TopicAcl(remote(acl.topic), acl.principal, acl.host, operation, acl.permission))
    return tuple(sorted(found))


def missing(wanted: Iterable[TopicAcl], target: Iterable[TopicAcl]) -> tuple[TopicAcl, ...]:
    """The rules to create."""
    return tuple(sorted(set(wanted) - set(target)))
