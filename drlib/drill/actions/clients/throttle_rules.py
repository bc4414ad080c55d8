"""Which quotas slow all producers of a cluster down to a standstill, and which let the mirror write on. Pure.

Rules (Kafka's `DefaultQuotaCallback`): of several limits the one of the most specific entity counts: a user's, with a client ID
before without one; then those of the default user, in the same way; and only then those of client IDs alone. Each client has a
user, `ANONYMOUS` without a login. So one limit of the default user slows every client down, and one of the default user with
the mirror's client ID, which needs no knowledge of its login, lets it write on. Whatever is more specific than the limit of
the default user escapes it.
Not for: reading and setting quotas (`drlib.kafka.admin.quotas`).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from drlib.kafka.admin.descriptions import Quota
from drlib.kafka.admin.quotas import STANDSTILL, Entity

NO_LIMIT: Final = 1e15
EVERY_USER: Final[Entity] = (("user", ""),)


@dataclass(frozen=True, slots=True)
class Throttle:
    """`limits`: what is to be set; `kept`: client IDs that write on; `escaping`: quotas that are more specific, and let
    producers write."""

    limits: Mapping[Entity, float]
    kept: tuple[str, ...]
    escaping: tuple[Quota, ...]

    @property
    def quotas(self) -> tuple[Quota, ...]:
        """What is to be set."""
        return tuple(Quota(entity, limit) for entity, limit in self.limits.items())


def throttle(existing: Iterable[Quota], kept: Collection[str]) -> Throttle:
    """For a cluster with the quotas `existing`, on which clients with the IDs `kept` write on, as fast as they might before."""
    now = {quota.entity: quota.bytes_per_s for quota in existing}
    limits = {EVERY_USER: STANDSTILL}
    of_all = now.get(EVERY_USER, NO_LIMIT)
    for client in kept:
        before = now.get(_with_default_user(client), now.get(_with_default_user(""), of_all))
        limits[_with_default_user(client)] = before if before > STANDSTILL else NO_LIMIT
    escaping = (
        Quota(entity, limit)
        for entity, limit in now.items()
        if limit > STANDSTILL and entity not in limits and any(kind == "user" for kind, _ in entity)
    )
    return Throttle(limits, tuple(kept), tuple(sorted(escaping)))


def named(quota: Quota) -> str:
    """A quota's entity as `kafka-configs.sh` describes it."""
    return ", ".join(f"{kind} {name or '(default)'}" for kind, name in quota.entity)


def _with_default_user(client: str) -> Entity:
    return (("client-id", client), ("user", ""))
