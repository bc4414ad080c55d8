"""Disaster recovery and failover for Apache Kafka: an exact mirror, and drills that prove it.

The names below are the public API; everything else may change. Importing this module starts nothing.
"""

from drlib.drill.failover import FailoverDrill
from drlib.drill.scorecard import Objectives, Scorecard, Verdict
from drlib.drill.stage import Traffic
from drlib.errors import DrlibError
from drlib.model import Flow, GroupTranslation, Segment, TopicPartition, Translation, TranslationKind

__all__ = [
    "DrlibError",
    "FailoverDrill",
    "Flow",
    "GroupTranslation",
    "Objectives",
    "Scorecard",
    "Segment",
    "TopicPartition",
    "Traffic",
    "Translation",
    "TranslationKind",
    "Verdict",
]
