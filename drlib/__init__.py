"""Disaster recovery and failover for Apache Kafka: an exact mirror, and drills that prove it.

The names below are the public API; everything else may change. They are loaded when first used (PEP 562), so importing
this package, or one module of it, starts and loads nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drlib.academy.opening import open_lesson
    from drlib.clusters.active import Active, ActiveCluster, active_config, publish_pointer
    from drlib.clusters.ordered import CommitOutcome
    from drlib.clusters.ordered_consumer import OrderedConsumer
    from drlib.console import console
    from drlib.drill.continuous_audit import ContinuousAudit
    from drlib.drill.duplicates_audit import DuplicatesAudit
    from drlib.drill.nightly_audit import NightlyAudit
    from drlib.drill.scorecard import Objectives, Scorecard, Verdict
    from drlib.drill.tour import Tour
    from drlib.errors import DrlibError
    from drlib.mirror.own_offsets import translate_offsets
    from drlib.model import (
        Flow,
        GroupTranslation,
        OffsetTranslation,
        Segment,
        TopicPartition,
        Translation,
        TranslationKind,
    )
    from drlib.rules.read_plan import Scope
    from drlib.runbook.analyses import (
        open_continuous_audit,
        open_duplicates_audit,
        open_lag_analysis,
        open_nightly_audit,
    )
    from drlib.runbook.incidents import open_incident
    from drlib.runbook.opening import open_drill
    from drlib.views.drill_pictures import order_figure, pulse_figure
    from drlib.views.duplicate_pictures import duplicates_figure
    from drlib.views.failover_pictures import failover_figure
    from drlib.views.lag_pictures import lag_figure
    from drlib.views.position_pictures import checkpoints_figure, positions_figure
    from drlib.views.sizing import Sizing

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
    "Active": "drlib.clusters.active",
    "ActiveCluster": "drlib.clusters.active",
    "CommitOutcome": "drlib.clusters.ordered",
    "ContinuousAudit": "drlib.drill.continuous_audit",
    "DrlibError": "drlib.errors",
    "DuplicatesAudit": "drlib.drill.duplicates_audit",
    "Flow": "drlib.model",
    "GroupTranslation": "drlib.model",
    "NightlyAudit": "drlib.drill.nightly_audit",
    "Objectives": "drlib.drill.scorecard",
    "OffsetTranslation": "drlib.model",
    "OrderedConsumer": "drlib.clusters.ordered_consumer",
    "Scope": "drlib.rules.read_plan",
    "Scorecard": "drlib.drill.scorecard",
    "Segment": "drlib.model",
    "Sizing": "drlib.views.sizing",
    "TopicPartition": "drlib.model",
    "Tour": "drlib.drill.tour",
    "Translation": "drlib.model",
    "TranslationKind": "drlib.model",
    "Verdict": "drlib.drill.scorecard",
    "active_config": "drlib.clusters.active",
    "checkpoints_figure": "drlib.views.position_pictures",
    "console": "drlib.console",
    "duplicates_figure": "drlib.views.duplicate_pictures",
    "failover_figure": "drlib.views.failover_pictures",
    "lag_figure": "drlib.views.lag_pictures",
    "open_continuous_audit": "drlib.runbook.analyses",
    "open_drill": "drlib.runbook.opening",
    "open_duplicates_audit": "drlib.runbook.analyses",
    "open_incident": "drlib.runbook.incidents",
    "open_lag_analysis": "drlib.runbook.analyses",
    "open_lesson": "drlib.academy.opening",
    "open_nightly_audit": "drlib.runbook.analyses",
    "order_figure": "drlib.views.drill_pictures",
    "positions_figure": "drlib.views.position_pictures",
    "publish_pointer": "drlib.clusters.active",
    "pulse_figure": "drlib.views.drill_pictures",
    "translate_offsets": "drlib.mirror.own_offsets",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'drlib' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
