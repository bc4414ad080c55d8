"""Decide which ACLs of the source's topics are copied to their mirror topics.

Rules (MirrorMaker 2's `MirrorSourceConnector.syncTopicAcls`): only LITERAL ACLs of mirrored topics; the table `COPIED` says
what an ACL becomes; ACLs are created, never deleted. Unlike in MirrorMaker 2, the ACL for every topic (`*`) is not copied:
under an identity policy it would open or close the whole target. Nor is one that denies writing to every principal, as a drill
fences the source: the mirror is one of them, and could not deliver what is left, nor write there after the way back.
Not for: ACLs of groups, transactional IDs and the cluster itself, which have no counterpart of another name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from drlib.kafka.protocol.acls import WILDCARD, Operation, PatternType, Permission, TopicAcl

FENCE: Final = ("User:*", "*", Operation.WRITE, Permission.DENY)
COPIED: Final[Mapping[tuple[Permission, Operation], Operation | None]] = {
    (Permission.ALLOW, Operation.ALL): Operation.READ,  # only the mirror writes to a mirror topic
    (Permission.ALLOW, Operation.WRITE): None,
    **{(Permission.ALLOW, op): op for op in Operation if op not in (Operation.ALL, Operation.WRITE)},
    **{(Permission.DENY, op): op for op in Operation},
}


def mirrored(
    source: Iterable[TopicAcl], mirrors: Callable[[str], bool], remote: Callable[[str], str]
) -> tuple[TopicAcl, ...]:
    """The ACLs that should exist on the target. `mirrors`: is the topic mirrored? `remote`: the name of its mirror."""
    wanted = set()
    for acl in source:
        if acl.pattern is not PatternType.LITERAL or acl.topic == WILDCARD or not mirrors(acl.topic):
            continue
        if (acl.principal, acl.host, acl.operation, acl.permission) == FENCE:
            continue
        operation = COPIED[acl.permission, acl.operation]
        if operation is not None:
            wanted.add(TopicAcl(remote(acl.topic), acl.principal, acl.host, operation, acl.permission))
    return tuple(sorted(wanted))


def missing(wanted: Iterable[TopicAcl], target: Iterable[TopicAcl]) -> tuple[TopicAcl, ...]:
    """The ACLs to create."""
    return tuple(sorted(set(wanted) - set(target)))
