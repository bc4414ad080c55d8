"""The values that admin calls return."""

from __future__ import annotations

import pytest

from drlib.kafka.admin.descriptions import ConfigChange, ConfigSource


@pytest.mark.parametrize(
    ("number", "source"),
    [(1, ConfigSource.TOPIC), (5, ConfigSource.DEFAULT), (0, ConfigSource.UNKNOWN), (99, ConfigSource.UNKNOWN)],
)
def test_config_source_of_a_number_of_a_newer_broker_is_unknown(number: int, source: ConfigSource) -> None:
    assert ConfigSource.of(number) is source


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (ConfigChange("retention.ms", "1", "2"), "retention.ms: 1 -> 2"),
        (ConfigChange("retention.ms", None, "2"), "retention.ms: (default) -> 2"),
        (ConfigChange("retention.ms", "1", None), "retention.ms: 1 -> (default)"),
        (ConfigChange("cleanup.policy", "", "compact"), "cleanup.policy:  -> compact"),
    ],
)
def test_config_change_as_text_shows_a_missing_value_as_default(change: ConfigChange, text: str) -> None:
    assert str(change) == text
