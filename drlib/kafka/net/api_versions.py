"""The version of every request this package sends, and the check that a broker supports them.

Rules: versions are fixed, not negotiated: one set of bytes to test, the oldest with what the engine needs. Together they
require Kafka 3.1 or newer (topic IDs in Fetch). AddPartitionsToTxn stays at 3 and EndTxn at 3: from EndTxn v5 on
the broker bumps the epoch itself (KIP-890), and a fence must carry exactly the epoch of the claim.
"""

from collections.abc import Mapping
from typing import Final

from drlib.errors import UsageError

API_VERSIONS: Final = 0  # answered by every broker, whatever its version

REQUIRED: Final[Mapping[str, tuple[int, int]]] = {
    "Produce": (0, 9),
    "Fetch": (1, 13),
    "ListOffsets": (2, 7),
    "Metadata": (3, 12),
    "OffsetCommit": (8, 8),
    "OffsetFetch": (9, 8),
    "FindCoordinator": (10, 4),
    "JoinGroup": (11, 7),
    "Heartbeat": (12, 4),
    "LeaveGroup": (13, 4),
    "SyncGroup": (14, 5),
    "ListGroups": (16, 4),
    "SaslHandshake": (17, 1),
    "InitProducerId": (22, 4),
    "AddPartitionsToTxn": (24, 3),
    "EndTxn": (26, 3),
    "DescribeAcls": (29, 2),
    "CreateAcls": (30, 2),
    "DeleteAcls": (31, 2),
    "DescribeConfigs": (32, 4),
    "SaslAuthenticate": (36, 2),
    "OffsetDelete": (47, 0),
    "DescribeProducers": (61, 0),
    "DescribeTransactions": (65, 0),
    "ListTransactions": (66, 0),
}
"""Request name -> (API key, version)."""


def version(name: str) -> int:
    return REQUIRED[name][1]


def check(peer: str, offered: Mapping[int, tuple[int, int]]) -> None:
    """`offered`: API key -> (oldest, newest version). Raises `UsageError` naming what the broker lacks."""
    lacking = [
        f"{name} v{wanted}"
        for name, (key, wanted) in REQUIRED.items()
        if key not in offered or not offered[key][0] <= wanted <= offered[key][1]
    ]
    if lacking:
        raise UsageError(
            f"broker {peer} does not support {', '.join(lacking)}",
            "it is older than Kafka 3.1, or is not a Kafka broker",
            "Use a cluster of Kafka 3.1 or newer.",
        )
