"""Decide which configurations of a mirror topic follow its source topic, and what has to be altered.

Rules (MirrorMaker 2's `MirrorSourceConnector.targetConfig` and `incrementalAlterConfigs`): the table `ACTIONS` says what
becomes of a source value, by where it comes from. Read-only and sensitive values, and those that the file excludes, are never
touched; nor are values from the source brokers' own files. Only differences are altered; a value counts as copied when it is
set on the mirror topic itself, because a default of the target's brokers may change.
Not for: which topics are mirrored (`drlib.config.patterns.selection`), asking brokers (`drlib.mirror.sync.configs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from drlib.kafka.admin.descriptions import ConfigChange, ConfigSource, ConfigValue


class Action(Enum):
    SET = "set the source's value on the mirror topic"
    FOLLOW_DEFAULT = "delete the mirror topic's own value, or set the source's default where the file says so"
    LEAVE = "leave the mirror topic as it is"


ACTIONS: Final[Mapping[ConfigSource, Action]] = {
    ConfigSource.TOPIC: Action.SET,
    ConfigSource.DYNAMIC_BROKER: Action.SET,
    ConfigSource.DYNAMIC_DEFAULT_BROKER: Action.SET,
    ConfigSource.STATIC_BROKER: Action.LEAVE,
    ConfigSource.DEFAULT: Action.FOLLOW_DEFAULT,
    ConfigSource.UNKNOWN: Action.LEAVE,
}


@dataclass(frozen=True, slots=True)
class DesiredConfig:
    """The configuration that a mirror topic should have: values `own` to the topic, and names that are `unset`."""

    own: Mapping[str, str]
    unset: frozenset[str]

    def same(self, other: DesiredConfig, name: str) -> bool:
        """True where both say the same of `name`."""
        return self.own.get(name) == other.own.get(name) and (name in self.unset) == (name in other.unset)


def desired(
    source: Iterable[ConfigValue], copied: Callable[[str], bool], *, defaults_from_source: bool
) -> DesiredConfig:
    """The configuration of the mirror topic. `copied`: is a name copied, by config.properties.exclude?"""
    own: dict[str, str] = {}
    unset = set()
    for entry in source:
        action = ACTIONS[entry.source]
        if entry.read_only or entry.sensitive or entry.value is None or not copied(entry.name):
            continue
        if action is Action.SET or (action is Action.FOLLOW_DEFAULT and defaults_from_source):
            own[entry.name] = entry.value
        elif action is Action.FOLLOW_DEFAULT:
            unset.add(entry.name)
    return DesiredConfig(own, frozenset(unset))


def changes(wanted: DesiredConfig, target: Iterable[ConfigValue]) -> tuple[ConfigChange, ...]:
    """What to alter on a mirror topic with the configuration `target`, by name."""
    current = {entry.name: entry.value for entry in target if entry.source is ConfigSource.TOPIC}
    to_alter = [ConfigChange(n, current.get(n), new) for n, new in wanted.own.items() if current.get(n) != new]
    to_alter += [ConfigChange(n, old, None) for n, old in current.items() if n in wanted.unset]
    return tuple(sorted(to_alter, key=lambda change: change.name))


def drift(
    altered: Iterable[ConfigChange], before: DesiredConfig | None, now: DesiredConfig
) -> tuple[ConfigChange, ...]:
    """The changes that revert something done on the target; the others copy what changed on the source.

    `before`: the desired configuration at the last run; None at the first run, when the origin of a difference is unknown and
    all count.
    """
    return tuple(change for change in altered if before is None or before.same(now, change.name))
