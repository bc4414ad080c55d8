"""The versions of every request that this package can send, and which of them a broker supports.

Rules:
- Each connection asks its broker (ApiVersions) and sends the highest version that both support: a broker may be upgraded, or
  rolled back, between two connections.
- A mirror's target needs the newest version of each request, which means Kafka 3.1: a claim asks its leaders and coordinators
  for what older brokers do not say. A source may be as old as `OLDEST_SOURCE`.
- AddPartitionsToTxn stays at 3 and EndTxn at 3: from EndTxn v5 on the broker bumps the epoch itself (KIP-890), and a fence must
  carry exactly the epoch of the claim.
Source: the message definitions of Kafka, `validVersions` in each release.
"""

from collections.abc import Mapping
from typing import Final

from drlib.errors import UsageError

API_VERSIONS: Final = 0  # answered by every broker, whatever its version
OLDEST_SOURCE: Final = "2.4"
OLDEST_TARGET: Final = "3.1"

KNOWN: Final[Mapping[str, tuple[int, int, int]]] = {
    "Produce": (0, 9, 9),
    "Fetch": (1, 11, 13),
    "ListOffsets": (2, 5, 7),
    "Metadata": (3, 9, 12),
    "OffsetCommit": (8, 8, 8),
    "OffsetFetch": (9, 6, 8),
    "FindCoordinator": (10, 3, 4),
    "JoinGroup": (11, 7, 7),
    "Heartbeat": (12, 4, 4),
    "LeaveGroup": (13, 4, 4),
    "SyncGroup": (14, 5, 5),
    "DescribeGroups": (15, 5, 5),  # from v6 on, a missing group is an error without operations
    "ListGroups": (16, 4, 4),
    "SaslHandshake": (17, 1, 1),
    "InitProducerId": (22, 4, 4),
    "AddPartitionsToTxn": (24, 3, 3),
    "EndTxn": (26, 3, 3),
    "DescribeAcls": (29, 2, 2),
    "CreateAcls": (30, 2, 2),
    "DeleteAcls": (31, 2, 2),
    "DescribeConfigs": (32, 4, 4),
    "SaslAuthenticate": (36, 2, 2),
    "OffsetDelete": (47, 0, 0),
    "DescribeClientQuotas": (48, 1, 1),
    "AlterClientQuotas": (49, 1, 1),
    "DescribeQuorum": (55, 1, 1),
    "DescribeCluster": (60, 0, 0),
    "DescribeProducers": (61, 0, 0),
    "DescribeTransactions": (65, 0, 0),
    "ListTransactions": (66, 0, 0),
    "FindShareCoordinator": (10, 6, 6),  # FindCoordinator with the key type of share groups (KIP-932)
    "ShareGroupDescribe": (77, 1, 1),  # v0 was of the early access in Kafka 4.0
    "ReadShareGroupState": (84, 0, 0),
    "WriteShareGroupState": (85, 0, 1),
    "StreamsGroupDescribe": (89, 0, 0),  # KIP-1071
    "DescribeShareGroupOffsets": (90, 0, 1),  # v1 also the lag (KIP-1226, Kafka 4.2)
    "AlterShareGroupOffsets": (91, 0, 0),
    "DeleteShareGroupOffsets": (92, 0, 0),
}
"""Request name -> (API key, oldest, newest version that can be sent)."""

OF_SOURCE: Final = ("Fetch", "ListOffsets", "Metadata", "OffsetFetch", "FindCoordinator")
"""What nothing can be read without: checked when a connection is opened."""
OF_SHARE_GROUPS: Final = (
    "FindShareCoordinator",
    "ShareGroupDescribe",
    "ReadShareGroupState",
    "WriteShareGroupState",
    "DescribeShareGroupOffsets",
    "AlterShareGroupOffsets",
    "DeleteShareGroupOffsets",
)
"""Not supported before Kafka 4.1: nothing is asked about share groups there."""
OF_STREAMS_GROUPS: Final = ("StreamsGroupDescribe",)
"""Not supported before Kafka 4.1: there are no streams groups there."""
_OPTIONAL: Final = (
    "DescribeQuorum",
    "DescribeCluster",
    "DescribeClientQuotas",
    "AlterClientQuotas",
    *OF_SHARE_GROUPS,
    *OF_STREAMS_GROUPS,
)
OF_TARGET: Final = tuple(name for name in KNOWN if name not in _OPTIONAL)
"""What a target must support in the newest version."""
NEWEST: Final[Mapping[str, int]] = {name: newest for name, (_, _, newest) in KNOWN.items()}

Offered = Mapping[int, tuple[int, int]]
"""API key -> oldest and newest version of a broker."""


class UnsupportedRequest(UsageError):
    """A broker does not support a request in any version that can be sent."""


def highest(offered: Offered) -> dict[str, int]:
    """By request name: the highest version that the broker supports and that can be sent; without the others."""
    chosen = {}
    for name, (key, oldest, newest) in KNOWN.items():
        least, most = offered.get(key, (0, -1))
        if max(oldest, least) <= min(newest, most):
            chosen[name] = min(newest, most)
    return chosen


def check(peer: str, offered: Offered, *, as_target: bool = False) -> None:
    """Raises `UnsupportedRequest` naming what the broker lacks, as a mirror's source or as its target."""
    chosen = highest(offered)
    wanted = OF_TARGET if as_target else OF_SOURCE
    lacking = [name for name in wanted if name not in chosen or (as_target and chosen[name] < NEWEST[name])]
    if lacking:
        raise _unsupported(peer, lacking, OLDEST_TARGET if as_target else OLDEST_SOURCE, as_target=as_target)


def unsupported(peer: str, name: str) -> UnsupportedRequest:
    """The error that the broker supports no version of one request that can be sent."""
    return UnsupportedRequest(
        f"broker {peer} does not support {name} v{KNOWN[name][1]}",
        "it is too old for that request, or is not a Kafka broker",
        f"Upgrade the cluster of {peer}; what asks for {name} cannot be done there until then.",
    )


def _unsupported(peer: str, names: list[str], least: str, *, as_target: bool) -> UnsupportedRequest:
    versions = ", ".join(f"{name} v{NEWEST[name] if as_target else KNOWN[name][1]}" for name in names)
    role = "target" if as_target else "source"
    return UnsupportedRequest(
        f"broker {peer} does not support {versions}",
        f"it is older than Kafka {least}, or is not a Kafka broker",
        f"Use a cluster of Kafka {least} or newer as the {role} of a mirror.",
    )
