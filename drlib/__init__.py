"""Disaster recovery and failover for Apache Kafka: an exact mirror, and drills that prove it.

The names below are the public API; everything else may change. They are loaded when first used (PEP 562), so importing
this package, or one module of it, starts and loads nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drlib.clusters.active import Active, ActiveCluster, active_config, publish_pointer
    from drlib.clusters.ordered import CommitOutcome
    from drlib.clusters.ordered_consumer import OrderedConsumer
    from drlib.drill.failover import FailoverDrill
    from drlib.drill.scorecard import Objectives, Scorecard, Verdict
    from drlib.drill.stage import Traffic
    from drlib.errors import DrlibError
    from drlib.model import Flow, GroupTranslation, Segment, TopicPartition, Translation, TranslationKind
    from drlib.rules.read_plan import Scope

__all__ = [
    "Active",
    "ActiveCluster",
    "CommitOutcome",
    "DrlibError",
    "FailoverDrill",
    "Flow",
    "GroupTranslation",
    "Objectives",
    "OrderedConsumer",
    "Scope",
    "Scorecard",
    "Segment",
    "TopicPartition",
    "Traffic",
    "Translation",
    "TranslationKind",
    "Verdict",
    "active_config",
    "publish_pointer",
]

_HOMES = {
    "Active": "drlib.clusters.active",
    "ActiveCluster": "drlib.clusters.active",
    "CommitOutcome": "drlib.clusters.ordered",
    "DrlibError": "drlib.errors",
    "FailoverDrill": "drlib.drill.failover",
    "Flow": "drlib.model",
    "GroupTranslation": "drlib.model",
    "Objectives": "drlib.drill.scorecard",
    "OrderedConsumer": "drlib.clusters.ordered_consumer",
    "Scope": "drlib.rules.read_plan",
    "Scorecard": "drlib.drill.scorecard",
    "Segment": "drlib.model",
    "TopicPartition": "drlib.model",
    "Traffic": "drlib.drill.stage",
    "Translation": "drlib.model",
    "TranslationKind": "drlib.model",
    "Verdict": "drlib.drill.scorecard",
    "active_config": "drlib.clusters.active",
    "publish_pointer": "drlib.clusters.active",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'drlib' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
