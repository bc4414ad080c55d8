"""The shipped alert rules and dashboard, and what they use of a worker's metrics."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import yaml
from prometheus_client.core import Metric
from promql import Expression, parse

from drlib.cli.mirror.service import monitoring_file

TARGET_LABELS = frozenset({"job", "instance"})  # which Prometheus adds to every series of a target
OF_PROMETHEUS = frozenset({"up"})
SUFFIXES = {"counter": "_total", "gauge": ""}


def alert_rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(monitoring_file("alerts.yml"))["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def dashboard() -> dict[str, Any]:
    board: dict[str, Any] = json.loads(monitoring_file("dashboard.json"))
    return board


def expressions() -> Iterator[tuple[str, Expression]]:
    """(where, expression) of every rule, panel and variable; values of the dashboard's variables as they are."""
    for rule in alert_rules():
        yield rule["alert"], parse(rule["expr"])
    board = dashboard()
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], parse(target["expr"])
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", parse(variable["query"]["query"].rpartition(",")[0] + ")")


def exported(families: Iterable[Metric]) -> dict[str, frozenset[str] | None]:
    """The labels of each sample by its name; None where a family has no sample now."""
    found: dict[str, frozenset[str] | None] = {}
    for family in families:
        found[family.name + SUFFIXES.get(family.type, "")] = None
        for sample in family.samples:
            found[sample.name] = frozenset(sample.labels)
    return found


def not_exported(families: Iterable[Metric]) -> list[str]:
    """What rules and dashboard use and `families` do not have: metrics, and labels of their selectors."""
    names = exported(families)
    missing = []
    for where, expression in expressions():
        labels: set[str] = set(TARGET_LABELS)
        for selector in expression.selectors:
            if selector.metric in OF_PROMETHEUS:
                continue
            if selector.metric not in names:
                missing.append(f"{where}: {selector.metric}")
                continue
            of_metric = names[selector.metric]
            if of_metric is None:
                labels |= expression.grouped_by
                continue
            labels |= of_metric
            missing += [
                f"{where}: {selector.metric}{{{label}}}"
                for label, _, _ in selector.labels
                if label not in of_metric | TARGET_LABELS
            ]
        missing += [f"{where}: grouped by {label}" for label in expression.grouped_by - labels]
    return missing
