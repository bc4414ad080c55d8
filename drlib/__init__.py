"""Disaster recovery and failover for Apache Kafka: an exact mirror, and drills that prove it.

The names below are the public API; everything else may change. They are loaded when first used (PEP 562), so importing
this package, or one module of it, starts and loads nothing else. A name whose packages are an extra that is not installed
raises `MissingDependency`, which says what to install.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from drlib.extras import explains_missing_extra

if TYPE_CHECKING:
    from drlib.analysis.sessions.continuous_audit import ContinuousAudit
    from drlib.analysis.sessions.duplicates_audit import DuplicatesAudit
    from drlib.analysis.sessions.nightly_audit import NightlyAudit
    from drlib.client.active_cluster import Active, ActiveCluster, active_config, publish_pointer
    from drlib.client.ordered_consumer import OrderedConsumer
    from drlib.client.ordered_member import CommitOutcome
    from drlib.client.read_plan import Scope
    from drlib.errors import DrlibError
    from drlib.mirror.offsets.translation.external_offsets import translate_offsets
    from drlib.model import (
        Flow,
        GroupTranslation,
        OffsetTranslation,
        Segment,
        TopicPartition,
        Translation,
        TranslationKind,
    )
    from drlib.runbook.open_analysis import (
        open_continuous_audit,
        open_duplicates_audit,
        open_lag_analysis,
        open_nightly_audit,
    )
    from drlib.runbook.open_drill import open_drill
    from drlib.runs.check import Verdict
    from drlib.runs.scorecard import Objectives, Scorecard
    from drlib.training.academy.open import open_lesson
    from drlib.training.incidents.store import open_incident
    from drlib.training.tour import Tour
    from drlib.ui.console import console
    from drlib.ui.figures.drill import order_figure, pulse_figure
    from drlib.ui.figures.duplicates import duplicates_figure
    from drlib.ui.figures.failover import failover_figure
    from drlib.ui.figures.lag import lag_figure
    from drlib.ui.figures.positions import checkpoints_figure, positions_figure
    from drlib.ui.sizing.sizing import Sizing

__all__ = [
    "Active",
    "ActiveCluster",
    "CommitOutcome",
    "ContinuousAudit",
    "DrlibError",
    "DuplicatesAudit",
    "Flow",
    "GroupTranslation",
    "NightlyAudit",
    "Objectives",
    "OffsetTranslation",
    "OrderedConsumer",
    "Scope",
    "Scorecard",
    "Segment",
    "Sizing",
    "TopicPartition",
    "Tour",
    "Translation",
    "TranslationKind",
    "Verdict",
    "active_config",
    "checkpoints_figure",
    "console",
    "duplicates_figure",
    "failover_figure",
    "lag_figure",
    "open_continuous_audit",
    "open_drill",
    "open_duplicates_audit",
    "open_incident",
    "open_lag_analysis",
    "open_lesson",
    "open_nightly_audit",
    "order_figure",
    "positions_figure",
    "publish_pointer",
    "pulse_figure",
    "translate_offsets",
]

_HOMES = {
    "Active": "drlib.client.active_cluster",
    "ActiveCluster": "drlib.client.active_cluster",
    "CommitOutcome": "drlib.client.ordered_member",
    "ContinuousAudit": "drlib.analysis.sessions.continuous_audit",
    "DrlibError": "drlib.errors",
    "DuplicatesAudit": "drlib.analysis.sessions.duplicates_audit",
    "Flow": "drlib.model",
    "GroupTranslation": "drlib.model",
    "NightlyAudit": "drlib.analysis.sessions.nightly_audit",
    "Objectives": "drlib.runs.scorecard",
    "OffsetTranslation": "drlib.model",
    "OrderedConsumer": "drlib.client.ordered_consumer",
    "Scope": "drlib.client.read_plan",
    "Scorecard": "drlib.runs.scorecard",
    "Segment": "drlib.model",
    "Sizing": "drlib.ui.sizing.sizing",
    "TopicPartition": "drlib.model",
    "Tour": "drlib.training.tour",
    "Translation": "drlib.model",
    "TranslationKind": "drlib.model",
    "Verdict": "drlib.runs.check",
    "active_config": "drlib.client.active_cluster",
    "checkpoints_figure": "drlib.ui.figures.positions",
    "console": "drlib.ui.console",
    "duplicates_figure": "drlib.ui.figures.duplicates",
    "failover_figure": "drlib.ui.figures.failover",
    "lag_figure": "drlib.ui.figures.lag",
    "open_continuous_audit": "drlib.runbook.open_analysis",
    "open_drill": "drlib.runbook.open_drill",
    "open_duplicates_audit": "drlib.runbook.open_analysis",
    "open_incident": "drlib.training.incidents.store",
    "open_lag_analysis": "drlib.runbook.open_analysis",
    "open_lesson": "drlib.training.academy.open",
    "open_nightly_audit": "drlib.runbook.open_analysis",
    "order_figure": "drlib.ui.figures.drill",
    "positions_figure": "drlib.ui.figures.positions",
    "publish_pointer": "drlib.client.active_cluster",
    "pulse_figure": "drlib.ui.figures.drill",
    "translate_offsets": "drlib.mirror.offsets.translation.external_offsets",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'drlib' has no attribute {name!r}")
    with explains_missing_extra(f"drlib.{name}"):
        return getattr(import_module(_HOMES[name]), name)
