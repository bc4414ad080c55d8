"""Keeps the settings of mirror topics as those of their source topics, by MirrorMaker 2's rules.

Rules: decided in `drlib.mirror.sync.rules.configs`; only differences are altered. What somebody changed on the target
is put back,
and told once with old and new value (`TopicConfigDrift`), until a look finds it as it should be. A setting the target
refuses is an event of that topic (`TopicConfigRefused`); its other settings and the other topics go on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from drlib.config.settings import FlowSettings
from drlib.errors import DrlibError
from drlib.kafka.admin.bulk_admin import BulkAdmin
from drlib.kafka.admin.descriptions import ConfigChange, ConfigValue
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.preflight.checks import not_authorized
from drlib.mirror.preflight.required_acls import Right
from drlib.mirror.status.worker_status import EventLog
from drlib.mirror.sync.rules.configs import Desired, changes, desired, drift
from drlib.mirror.threads import in_daemon

DRIFT, REFUSED, UNREADABLE = "TopicConfigDrift", "TopicConfigRefused", "TopicConfigUnreadable"


class ConfigSync:
    """A `duty.Duty`; `topics` gives the source topics mirrored now."""

    name = "TopicConfigSyncFailed"

    def __init__(
        self,
        settings: FlowSettings,
        source: ClusterSettings,
        target: ClusterSettings,
        events: EventLog,
        topics: Callable[[], Collection[str]],
    ) -> None:
        self._settings = settings
        self._source = source
        self._target = target
        self._events = events
        self._topics = topics
        self._desired: dict[str, Desired] = {}

    def forget(self) -> None:
        self._desired.clear()

    async def look(self) -> None:
        await in_daemon(self._look)

    def _look(self) -> None:
        names = sorted(self._topics())
        remote = {name: self._settings.policy.remote_topic(self._settings.flow.source, name) for name in names}
        deadline = self._settings.admin_timeout_ms / 1000
        with (
            BulkAdmin(self._source, timeout_s=deadline) as source,
            BulkAdmin(self._target, timeout_s=deadline) as target,
        ):
            here, there = source.topic_settings(names), target.topic_settings(remote.values())
            for name in names:
                self._one(target, name, remote[name], here[name], there[remote[name]])
        for name in [n for n in self._desired if n not in remote]:
            del self._desired[name]
            for event in (DRIFT, REFUSED, UNREADABLE):
                self._events.resolve(event, self._settings.policy.remote_topic(self._settings.flow.source, name))

    def _one(
        self,
        target: BulkAdmin,
        name: str,
        mirror: str,
        here: tuple[ConfigValue, ...] | DrlibError,
        there: tuple[ConfigValue, ...] | DrlibError,
    ) -> None:
        for answer in (here, there):
            if isinstance(answer, DrlibError):
                self._events.open(UNREADABLE, mirror, str(answer))
                return
        self._events.resolve(UNREADABLE, mirror)
        assert not isinstance(here, DrlibError)
        assert not isinstance(there, DrlibError)
        wanted = wanted_settings(self._settings, here)
        found = changes(wanted, there)
        refused = {change.name: error for change, error in _alter(target, mirror, found)}
        undone = [c for c in drift(found, self._desired.get(name), wanted) if c.name not in refused]
        self._desired[name] = wanted
        if undone:
            self._events.open(DRIFT, mirror, f"as on the source again: {', '.join(map(str, undone))}")
        else:
            self._events.resolve(DRIFT, mirror)
        if refused:
            self._events.open(REFUSED, mirror, refusal(self._target, mirror, refused))
        else:
            self._events.resolve(REFUSED, mirror)


def wanted_settings(settings: FlowSettings, here: Sequence[ConfigValue]) -> Desired:
    """What the mirror of a topic with the settings `here` should look like."""
    return desired(here, settings.mirrors_config, defaults_from_source=settings.use_defaults_from == "source")


def refusal(target: ClusterSettings, mirror: str, refused: dict[str, DrlibError]) -> str:
    """Cause and remedy of settings that the target does not take."""
    causes = "; ".join(f"{name}: {error.why}" for name, error in refused.items())
    if any(getattr(error, "code", "") == "TOPIC_AUTHORIZATION_FAILED" for error in refused.values()):
        return f"{causes}. {not_authorized(Right('topic', mirror, ('ALTER_CONFIGS',)), target)}"
    return f"{causes}. Add {', '.join(refused)} to config.properties.exclude, or make the target take it."


def _alter(target: BulkAdmin, topic: str, found: Sequence[ConfigChange]) -> list[tuple[ConfigChange, DrlibError]]:
    """Alter all at once; where the target refuses, one by one, to find out which it is that it refuses."""
    if not found:
        return []
    try:
        target.alter_topic_settings(topic, found)
    except ClusterRefused as error:
        if len(found) == 1:
            return [(found[0], error)]
        return [each for change in found for each in _alter(target, topic, [change])]
    return []
