"""Keep the configurations of mirror topics equal to those of their source topics, by MirrorMaker 2's rules.

Rules: decided in `drlib.mirror.sync.rules.configs`; only differences are altered. A change made on the target is reverted and
reported with old and new value (`TopicConfigDrift`), until a run finds none. A value that the target refuses is an event of
that topic (`TopicConfigRefused`); its other values and the other topics are still copied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from drlib.config.flow_settings import FlowSettings
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import ConfigChange, ConfigValue
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.preflight.checks import not_authorized
from drlib.mirror.preflight.required_acls import Right
from drlib.mirror.status.worker_status import EventLog
from drlib.mirror.sync.rules.configs import DesiredConfig, changes, desired, drift
from drlib.mirror.threads import in_daemon

DRIFT, REFUSED, UNREADABLE = "TopicConfigDrift", "TopicConfigRefused", "TopicConfigUnreadable"

_NO_TOPIC: Final = "UNKNOWN_TOPIC_OR_PART"


class ConfigSync:
    """A `tasks.SyncTask`; `topics` returns the source topics that are mirrored now."""

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
        self._desired: dict[str, DesiredConfig] = {}

    def reset(self) -> None:
        self._desired.clear()

    async def run_once(self) -> None:
        """Compare and alter the configuration of every mirror topic. Raises `Unreachable`."""
        await in_daemon(self._run_blocking)

    def _run_blocking(self) -> None:
        topics = sorted(self._topics())
        mirrors = {topic: self._mirror(topic) for topic in topics}
        timeout_s = self._settings.admin_timeout_ms / 1000
        with (
            Cluster(self._source, timeout_s=timeout_s) as source,
            Cluster(self._target, timeout_s=timeout_s) as target,
        ):
            source_configs = source.topic_settings(topics)
            target_configs = target.topic_settings(mirrors.values())
            for topic, mirror in mirrors.items():
                self._sync_topic(target, topic, mirror, source_configs[topic], target_configs[mirror])
        for topic in [t for t in self._desired if t not in mirrors]:
            del self._desired[topic]
            for event in (DRIFT, REFUSED, UNREADABLE):
                self._events.resolve(event, self._mirror(topic))

    def _mirror(self, topic: str) -> str:
        return self._settings.policy.remote_topic(self._settings.flow.source, topic)

    def _sync_topic(
        self,
        target: Cluster,
        topic: str,
        mirror: str,
        source_config: tuple[ConfigValue, ...] | DrlibError,
        target_config: tuple[ConfigValue, ...] | DrlibError,
    ) -> None:
        if isinstance(source_config, DrlibError):
            self._report_unreadable(mirror, source_config)
            return
        if isinstance(target_config, DrlibError):
            self._report_unreadable(mirror, target_config)
            return
        self._events.resolve(UNREADABLE, mirror)
        wanted = wanted_settings(self._settings, source_config)
        differences = changes(wanted, target_config)
        refused = {change.name: error for change, error in _alter(target, mirror, differences)}
        reverted = [c for c in drift(differences, self._desired.get(topic), wanted) if c.name not in refused]
        self._desired[topic] = wanted
        if reverted:
            self._events.open(DRIFT, mirror, f"set back to the source's value: {', '.join(map(str, reverted))}")
        else:
            self._events.resolve(DRIFT, mirror)
        if refused:
            self._events.open(REFUSED, mirror, refusal(self._target, mirror, refused))
        else:
            self._events.resolve(REFUSED, mirror)

    def _report_unreadable(self, mirror: str, error: DrlibError) -> None:
        if isinstance(error, ClusterRefused) and error.code == _NO_TOPIC:  # deleted since, which is an event of its own
            self._events.resolve(UNREADABLE, mirror)
        else:
            self._events.open(UNREADABLE, mirror, str(error))


def wanted_settings(settings: FlowSettings, source_config: Sequence[ConfigValue]) -> DesiredConfig:
    """The configuration that the mirror of a topic with `source_config` should have."""
    return desired(source_config, settings.mirrors_config, defaults_from_source=settings.use_defaults_from == "source")


def refusal(target: ClusterSettings, mirror: str, refused: dict[str, DrlibError]) -> str:
    """Cause and remedy of values that the target refuses."""
    causes = "; ".join(f"{name}: {error.why}" for name, error in refused.items())
    if any(getattr(error, "code", "") == "TOPIC_AUTHORIZATION_FAILED" for error in refused.values()):
        return f"{causes}. {not_authorized(Right('topic', mirror, ('ALTER_CONFIGS',)), target)}"
    return f"{causes}. Add {', '.join(refused)} to config.properties.exclude, or make the target accept the value."


def _alter(target: Cluster, topic: str, wanted: Sequence[ConfigChange]) -> list[tuple[ConfigChange, DrlibError]]:
    """Alter all values in one request; if it is refused, each by itself. Returns the refused ones."""
    if not wanted:
        return []
    try:
        target.alter_topic_settings(topic, wanted)
    except ClusterRefused as error:
        if len(wanted) == 1:
            return [(wanted[0], error)]
        return [refused for change in wanted for refused in _alter(target, topic, [change])]
    return []
