"""Which settings of a mirror topic follow its source topic, and what has to be altered for it.

Rules (MirrorMaker 2's `MirrorSourceConnector.targetConfig` and `incrementalAlterConfigs`): what becomes of a source value
is decided by where it comes from, in the table `ACTIONS`. Read-only and sensitive values, and those the file excludes,
are never touched; nor is what the source's brokers have in their own files. Only differences are altered: a value counts
as copied when it is set on the mirror topic itself, because one a target broker lends may change any day.
Not for: which topics are mirrored (`selection`), and asking brokers (`drlib.mirror.sync.configs`).
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
class Desired:
    """What a mirror topic should look like: values `own` to the topic, and names that are `unset`."""

    own: Mapping[str, str]
    unset: frozenset[str]

    def same(self, other: Desired, name: str) -> bool:
        """Do both want the same of this setting?"""
        return self.own.get(name) == other.own.get(name) and (name in self.unset) == (name in other.unset)


def desired(source: Iterable[ConfigValue], copied: Callable[[str], bool], *, defaults_from_source: bool) -> Desired:
    """What the mirror topic should look like. `copied`: is this setting copied, by config.properties.exclude?"""
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
    return Desired(own, frozenset(unset))


def changes(wanted: Desired, target: Iterable[ConfigValue]) -> tuple[ConfigChange, ...]:
    """What to alter on a mirror topic that has the settings `target`, by name."""
    has = {entry.name: entry.value for entry in target if entry.source is ConfigSource.TOPIC}
    found = [ConfigChange(n, has.get(n), new) for n, new in wanted.own.items() if has.get(n) != new]
    found += [ConfigChange(n, old, None) for n, old in has.items() if n in wanted.unset]
    return tuple(sorted(found, key=lambda change: change.name))


def drift(found: Iterable[ConfigChange], before: Desired | None, now: Desired) -> tuple[ConfigChange, ...]:
    """Those changes that undo what somebody did on the target; the others only carry over what changed on the source.

    `before` is what was desired at the last look; None at the first, when nobody can tell who changed what and all count.
    """
    return tuple(change for change in found if before is None or before.same(now, change.name))
