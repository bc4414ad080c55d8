"""The topics that producers write to after a failover: which they are, and who may write to them on either side.

Rules: which topics is decided as the mirror decides it (`drlib.mirror.sync.rules.local_topics`). Without an authorizer
every principal may write. ACLs and quotas are read in one question each, and one that is refused does not hide the other.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from drlib.drill.readiness.checks.observations import Unanswered
from drlib.drill.readiness.observe.ask import ask_blocking
from drlib.kafka.admin.descriptions import Quota
from drlib.kafka.admin.quotas import missing_quotas
from drlib.kafka.admin.topic_acls import NoAuthorizer, topic_rules
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.sync.rules import local_topics

Answer = TypeVar("Answer")

_GRANT: Final = "Grant Describe and DescribeConfigs on both clusters to drlib's principal."


async def locked_out(
    source: ClusterSettings, target: ClusterSettings, names: Sequence[str]
) -> Mapping[str, tuple[str, ...]] | Unanswered:
    """By topic: principals that an ACL of the source lets write, and none of the target."""

    def compare() -> Mapping[str, tuple[str, ...]]:
        try:
            here, there = topic_rules(source), topic_rules(target)
        except NoAuthorizer:
            return {}
        found = {name: tuple(local_topics.locked_out(here, there, name)) for name in names}
        return {name: principals for name, principals in found.items() if principals}

    return _with_fix(await ask_blocking(compare) if names else {})


async def quotas(
    source: ClusterSettings, target: ClusterSettings
) -> tuple[tuple[Quota, float | None], ...] | Unanswered:
    """Quotas of the source's producers that the target lacks or has lower."""
    return _with_fix(await ask_blocking(lambda: missing_quotas(source, target)))


def _with_fix(answer: Answer | Unanswered) -> Answer | Unanswered:
    return Unanswered(answer.why, answer.fix or _GRANT) if isinstance(answer, Unanswered) else answer
