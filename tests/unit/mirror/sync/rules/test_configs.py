"""Which settings follow the source: the table row by row, and that altering what is asked for leaves nothing to alter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.kafka.admin.descriptions import ConfigChange, ConfigSource, ConfigValue
from drlib.mirror.sync.rules.configs import ACTIONS, DesiredConfig, changes, desired, drift

S = ConfigSource
NAMES = ("retention.ms", "cleanup.policy", "min.insync.replicas", "segment.ms")


def copied(name: str) -> bool:
    return name != "min.insync.replicas"


def values(own: dict[str, str]) -> list[ConfigValue]:
    return [ConfigValue(n, own.get(n, "lent"), S.TOPIC if n in own else S.DEFAULT) for n in NAMES]


@pytest.mark.parametrize(
    ("source", "from_source", "own", "unset"),
    [
        (S.TOPIC, False, {"retention.ms": "5"}, set()),
        (S.TOPIC, True, {"retention.ms": "5"}, set()),
        (S.DYNAMIC_BROKER, False, {"retention.ms": "5"}, set()),
        (S.DYNAMIC_DEFAULT_BROKER, False, {"retention.ms": "5"}, set()),
        (S.STATIC_BROKER, False, {}, set()),
        (S.STATIC_BROKER, True, {}, set()),
        (S.DEFAULT, False, {}, {"retention.ms"}),
        (S.DEFAULT, True, {"retention.ms": "5"}, set()),
        (S.UNKNOWN, True, {}, set()),
    ],
)
def test_desired_action_by_config_source(
    source: ConfigSource, from_source: bool, own: dict[str, str], unset: set[str]
) -> None:
    found = desired([ConfigValue("retention.ms", "5", source)], copied, defaults_from_source=from_source)
    assert found == DesiredConfig(own, frozenset(unset))


def test_actions_has_every_config_source() -> None:
    assert set(ACTIONS) == set(ConfigSource)
    assert ConfigSource.of(5) is S.DEFAULT
    assert ConfigSource.of(77) is S.UNKNOWN


@pytest.mark.parametrize(
    "value",
    [
        ConfigValue("min.insync.replicas", "2", S.TOPIC),
        ConfigValue("retention.ms", "2", S.TOPIC, read_only=True),
        ConfigValue("retention.ms", None, S.TOPIC, sensitive=True),
        ConfigValue("retention.ms", None, S.TOPIC),
    ],
)
def test_desired_read_only_sensitive_and_excluded_values_are_left(value: ConfigValue) -> None:
    assert desired([value], copied, defaults_from_source=True) == DesiredConfig({}, frozenset())


def test_changes_target_default_is_not_the_topics_own() -> None:
    wanted = DesiredConfig({"retention.ms": "5"}, frozenset({"segment.ms"}))
    lent = [ConfigValue("retention.ms", "5", S.STATIC_BROKER), ConfigValue("segment.ms", "9", S.DYNAMIC_BROKER)]
    assert changes(wanted, lent) == (ConfigChange("retention.ms", None, "5"),)
    own = [ConfigValue("retention.ms", "4", S.TOPIC), ConfigValue("segment.ms", "9", S.TOPIC)]
    assert changes(wanted, own) == (ConfigChange("retention.ms", "4", "5"), ConfigChange("segment.ms", "9", None))
    assert str(changes(wanted, own)[1]) == "segment.ms: 9 -> (default)"


def test_drift_excludes_changes_of_the_source() -> None:
    before = DesiredConfig({"retention.ms": "5", "segment.ms": "1"}, frozenset({"cleanup.policy"}))
    now = DesiredConfig({"retention.ms": "6", "segment.ms": "1"}, frozenset({"cleanup.policy"}))
    found = (
        ConfigChange("retention.ms", "5", "6"),
        ConfigChange("segment.ms", "2", "1"),
        ConfigChange("cleanup.policy", "compact", None),
    )
    assert drift(found, before, now) == found[1:]
    assert drift(found, None, now) == found
    unset_now = DesiredConfig({"segment.ms": "1"}, frozenset({"retention.ms"}))
    assert drift([ConfigChange("retention.ms", "5", None)], before, unset_now) == ()


settings = st.dictionaries(st.sampled_from(NAMES), st.text(max_size=3))


@given(settings, settings, st.booleans())
def test_changes_applied_leaves_no_change_and_keeps_excluded_names(
    source: dict[str, str], target: dict[str, str], from_source: bool
) -> None:
    wanted = desired(values(source), copied, defaults_from_source=from_source)
    after = dict(target)
    for change in changes(wanted, values(target)):
        assert change.old == after.get(change.name)
        assert change.old != change.new
        if change.new is None:
            del after[change.name]
        else:
            after[change.name] = change.new
    assert changes(wanted, values(after)) == ()
    assert after.get("min.insync.replicas") == target.get("min.insync.replicas")
    if not from_source:
        assert {n: v for n, v in after.items() if copied(n)} == {n: v for n, v in source.items() if copied(n)}
