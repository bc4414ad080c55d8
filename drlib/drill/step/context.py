"""Where a drill takes place: what the actions and probes of its steps are made with.

Rules: it names things and opens nothing, so that making an action touches no cluster. `run_dir` is the only folder a
drill writes to besides a lab's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.errors import UsageError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.lab import Lab
from drlib.model import Flow


@dataclass(frozen=True, kw_only=True)
class DrillContext:
    """`clusters` by alias, as an application reaches them. `properties` is the mirror's own file, whose addresses may be
    others (a lab's mirror goes over its link). `pointer` is the applications' pointer file, where they follow one."""

    clusters: Mapping[str, ClusterSettings]
    flow: Flow
    run_dir: Path
    properties: Path | None = None
    lab: Lab | None = None
    pointer: Path | None = None

    def cluster(self, alias: str) -> ClusterSettings:
        """Raises `UsageError` for an unknown alias."""
        if alias not in self.clusters:
            known = ", ".join(sorted(self.clusters)) or "none"
            raise UsageError(
                f"cluster {alias}",
                f"no cluster has this name; the clusters are: {known}",
                "Name one of them; in a runbook `${source}` and `${target}` are those of the flow.",
            )
        return self.clusters[alias]

    def mirror_settings(self) -> MirrorSettings:
        """What the mirror's file says now. Raises `UsageError` where there is none, `ConfigError` where it is wrong.

        On a secured lab the clusters are those of the drill, which has a login and rights of its own.
        """
        if self.properties is None:
            raise UsageError(
                f"the mirror of {self.flow}", "no properties file was given", "Give connect-mirror-maker.properties."
            )
        settings = load_mirror_settings(self.properties)
        if self.lab is None or not self.lab.operator:
            return settings
        own = {alias: self.clusters.get(alias, each) for alias, each in settings.clusters.items()}
        return replace(settings, clusters=own)

    def needs_lab(self, what: str) -> Lab:
        """The lab. Raises `UsageError` where the drill is on real clusters, naming `what` needs one."""
        if self.lab is None:
            raise UsageError(what, "it is for a lab's clusters only", "Run this drill on a lab (--lab).")
        return self.lab
