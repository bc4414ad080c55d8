"""Quotas that slow producers down: which entities get which limit, what the mirror keeps, and what would escape."""

from __future__ import annotations

import pytest

from drlib.drill.actions.clients.throttle_rules import EVERY_USER, NO_LIMIT, named, throttle
from drlib.kafka.admin.descriptions import Quota
from drlib.kafka.admin.quotas import STANDSTILL, Entity

MIRROR = "drlib-RIGHT"
OF_MIRROR: Entity = (("client-id", MIRROR), ("user", ""))


def test_throttle_without_quotas_limits_the_default_user_and_lets_the_mirror_write() -> None:
    found = throttle((), [MIRROR])
    assert found.limits == {EVERY_USER: STANDSTILL, OF_MIRROR: NO_LIMIT}
    assert (found.kept, found.escaping) == ((MIRROR,), ())
    assert found.quotas == (Quota(EVERY_USER, STANDSTILL), Quota(OF_MIRROR, NO_LIMIT))


@pytest.mark.parametrize(
    ("before", "of_mirror"),
    [
        ({EVERY_USER: 5e6}, 5e6),  # what counted for it so far
        ({EVERY_USER: 5e6, OF_MIRROR: 7e6}, 7e6),
        ({(("client-id", ""), ("user", "")): 3e6, EVERY_USER: 5e6}, 3e6),
        ({EVERY_USER: STANDSTILL}, NO_LIMIT),  # another drill's
        ({EVERY_USER: STANDSTILL, OF_MIRROR: STANDSTILL}, NO_LIMIT),
    ],
)
def test_throttle_gives_the_mirror_what_it_had(before: dict[Entity, float], of_mirror: float) -> None:
    found = throttle([Quota(*each) for each in before.items()], [MIRROR])
    assert found.limits == {EVERY_USER: STANDSTILL, OF_MIRROR: of_mirror}


@pytest.mark.parametrize(
    "entity",
    [
        (("user", "alice"),),
        (("client-id", "web"), ("user", "alice")),
        (("client-id", ""), ("user", "alice")),
        (("client-id", "web"), ("user", "")),
        (("client-id", ""), ("user", "")),
    ],
    ids=str,
)
def test_throttle_names_what_is_more_specific_than_the_default_user(entity: Entity) -> None:
    assert throttle([Quota(entity, 1e6)], [MIRROR]).escaping == (Quota(entity, 1e6),)
    assert throttle([Quota(entity, STANDSTILL)], [MIRROR]).escaping == ()


@pytest.mark.parametrize("entity", [(("client-id", ""),), (("client-id", "web"),)], ids=str)
def test_throttle_outranks_quotas_of_client_ids_alone(entity: Entity) -> None:
    found = throttle([Quota(entity, 1e6)], [])
    assert (found.limits, found.escaping) == ({EVERY_USER: STANDSTILL}, ())


def test_named_says_the_entity_as_kafka_configs_does() -> None:
    assert named(Quota((("client-id", "web"), ("user", "")), 1.0)) == "client-id web, user (default)"
