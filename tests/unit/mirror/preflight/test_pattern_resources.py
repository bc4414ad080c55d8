"""Patterns as resources of ACLs: what stands for them, and what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.config.patterns.selection import matches
from drlib.mirror.preflight.pattern_resources import EVERY, Names, resources

ALPHABET = st.text("ab.-", min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("orders", {Names("orders")}),
        (r"orders\.v1", {Names("orders.v1")}),
        ("eu.orders", {Names("eu.orders")}),
        ("eu.orders.*", {Names("eu.orders", True)}),
        ("orders.*", {Names("orders", True)}),
        (r"orders\..*", {Names("orders.", True)}),
        ("a|b.*", {Names("a"), Names("b", True)}),
        (".*", {Names(EVERY)}),
    ],
)
def test_pattern_with_a_resource_becomes_it(pattern: str, found: set[Names]) -> None:
    assert resources([pattern]) == (tuple(sorted(found, key=lambda each: each.name)), ())


@pytest.mark.parametrize("pattern", [".", "a.?", "a+", "(a|b)c", "a|b+", "[ab]", ".*a", "a?", ""])
def test_pattern_without_a_resource_is_returned(pattern: str) -> None:
    assert resources([pattern]) == ((), (pattern,))


def test_everything_covers_the_other_patterns() -> None:
    assert resources(["orders", ".*"]) == ((Names(EVERY),), ())


@given(st.sampled_from(["a", r"a\.b", "a.*", "a|b.*", ".*", r"a\-.*"]), ALPHABET)
def test_resources_hold_exactly_the_names_that_match(pattern: str, name: str) -> None:
    found, _ = resources([pattern])
    held = any(each.name in (EVERY, name) or (each.prefixed and name.startswith(each.name)) for each in found)
    assert held == matches((pattern,), name)


@given(st.sampled_from(["a.b", "a.b.*", "a..*", "a.b|a"]), ALPHABET)
def test_resources_of_names_with_a_dot_hold_no_name_that_does_not_match(pattern: str, name: str) -> None:
    found, rest = resources([pattern])
    assert found
    assert not rest
    held = any(each.name == name or (each.prefixed and name.startswith(each.name)) for each in found)
    assert matches((pattern,), name) or not held


def test_renamed_everything_is_a_prefix() -> None:
    assert Names(EVERY).renamed("paris.") == Names("paris.", True)
    assert Names("a", True).renamed("paris.") == Names("paris.a", True)
    assert Names(EVERY).renamed("") == Names(EVERY)
