"""Which connections brokers refuse by address: limits read, changed for refused or kept addresses, and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.decoding import Undecodable
from drlib.drill.actions.clients.rules import (
    NO_LIMIT,
    OVERRIDES,
    PER_IP,
    Limits,
    addresses,
    admits,
    keeping,
    limits_of,
    member_address,
    refusing,
)
from drlib.errors import UsageError

FOUR = ("10.0.0.1", "10.0.0.2", "10.0.0.3", "::1")
NAMES = {"mirror.example": {"10.0.0.1"}, "two.example": {"10.0.0.2", "10.0.0.3"}}


def resolve(host: str) -> set[str]:
    return NAMES.get(host, set())


def limits(per_ip: int = NO_LIMIT, **overrides: int) -> Limits:
    return Limits(per_ip, overrides)


def test_limits_are_read_as_brokers_write_them() -> None:
    found = limits_of({PER_IP: "20", OVERRIDES: "10.0.0.1:5, mirror.example:7,::1:0"})
    assert found == Limits(20, {"10.0.0.1": 5, "mirror.example": 7, "::1": 0})
    assert limits_of({OVERRIDES: "", PER_IP: None}) == limits_of({}) == Limits(NO_LIMIT, {})
    with pytest.raises(Undecodable):
        limits_of({OVERRIDES: "10.0.0.1:many"})


def test_refused_addresses_have_no_connection_and_all_others_what_they_had() -> None:
    before = Limits(20, {"10.0.0.2": 5, "mirror.example": 7})
    after = refusing(before, ("10.0.0.2", "10.0.0.3"), resolve)
    assert after == Limits(20, {"mirror.example": 7, "10.0.0.2": 0, "10.0.0.3": 0})
    named = refusing(before, ("10.0.0.1",), resolve)
    assert named.overrides_text == "10.0.0.2:5,10.0.0.1:0", "the name of a refused address would let it in again"
    assert refusing(Limits(20, {"two.example": 4}), ("10.0.0.2",), resolve).overrides_text == "10.0.0.2:0,10.0.0.3:4"


def test_kept_addresses_have_the_limits_that_they_had_and_all_others_none() -> None:
    before = Limits(20, {"10.0.0.2": 5, "mirror.example": 7, "10.0.0.9": 3})
    after = keeping(before, ("10.0.0.1", "10.0.0.2", "10.0.0.3"), resolve)
    assert after == Limits(0, {"10.0.0.1": 7, "10.0.0.2": 5, "10.0.0.3": 20})
    assert not admits(after, "10.0.0.9")


def some_limits() -> st.SearchStrategy[Limits]:
    hosts = st.sampled_from((*FOUR, *NAMES))
    return st.builds(Limits, st.integers(0, NO_LIMIT), st.dictionaries(hosts, st.integers(0, NO_LIMIT)))


def limit_of(limits: Limits, address: str) -> int:
    """With the names among the overrides looked up; an address that is there itself counts before its name."""
    named = (most for host, most in limits.overrides.items() if address in resolve(host))
    return limits.overrides.get(address, next(named, limits.per_ip))


@given(some_limits(), st.lists(st.sampled_from(FOUR), min_size=1, unique=True))
def test_limits_in_any_state_refuse_exactly_those_that_are_meant_and_survive_being_written(
    before: Limits, meant: list[str]
) -> None:
    refused, kept = refusing(before, meant, resolve), keeping(before, meant, resolve)
    for address in FOUR:
        assert not (admits(refused, address) and address in meant)
        assert not (admits(kept, address) and address not in meant)
        if address not in meant:
            assert limit_of(refused, address) == limit_of(before, address)
    for each in (before, refused, kept):
        assert limits_of(dict(each.values)) == each


def test_networks_are_written_as_their_addresses_and_others_refused() -> None:
    assert addresses(("10.0.0.0/30", "10.0.0.1", "::1"), "hosts") == (
        *("10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3"),
        "::1",
    )
    assert len(addresses(("10.0.0.0/23", "10.1.0.0/23"), "hosts")) == 1024
    for wrong, why in (("kafka.example", "neither an address nor a network"), ("10.0.0.0/8", "more than 1,024")):
        with pytest.raises(UsageError, match=why):
            addresses((wrong,), "hosts")


def test_member_is_at_the_address_behind_the_slash() -> None:
    assert [member_address(host) for host in ("/10.0.0.7", "a.example/10.0.0.7", "10.0.0.7")] == ["10.0.0.7"] * 3


def test_member_at_an_ipv6_address_that_its_broker_reports_in_full_is_the_one_that_is_refused_or_kept() -> None:
    member = member_address("/fd00:0:0:0:0:0:0:7%eth0")
    assert member == "fd00::7"
    assert not admits(refusing(limits(), addresses(("FD00:0::7",), "hosts"), resolve), member)
    assert admits(keeping(limits(), addresses(("fd00::/126", "fd00::7"), "keep"), resolve), member)
    assert not admits(Limits(NO_LIMIT, {"fd00:0:0:0:0:0:0:7": 0}), member)
