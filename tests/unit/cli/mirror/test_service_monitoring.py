"""The shipped alert rules and dashboard: they use what a worker exports, and each alert fires on its fault and on no other."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import drlib
from monitoring_files import alert_rules, dashboard, expressions, not_exported
from promql import alternatives, parse
from repository_root import ROOT
from sample_flow import FLOW, NOW, partition, worker

from drlib.cli.mirror.service import monitoring_file
from drlib.mirror.status.event_kinds import KINDS
from drlib.mirror.status.forecast import Outlook
from drlib.mirror.status.metrics import families
from drlib.mirror.status.worker_status import Event, MemoryStatus, Spread, WorkerStatus

RULES = {rule["alert"]: rule for rule in alert_rules()}
SPREAD = Spread(1, 1, 1, 1)
PROCESS = ("process_resident_memory_bytes", "process_start_time_seconds", "process_cpu_seconds_total")


def full_status() -> WorkerStatus:
    """A status in which every metric has a sample."""
    status = worker(Event("Parked", "orders-0", "why", NOW, flow=FLOW))
    outlook = Outlook(lag_s=2.5, lag_bytes=5000, in_per_s=1, out_per_s=2, eta_s=5.0, left_s=100.0)
    all_known = partition(0, 95, 100, outlook=outlook, latency=SPREAD, age=SPREAD, records=95, bytes=9500)
    flow = replace(status.flows[0], partitions=(all_known,), lane_count=2)
    memory = MemoryStatus(100, 10, (), 0, 200)
    return replace(status, flows=(flow,), memory=memory, brief=((FLOW, "LaneFault", 1),))


def test_rules_and_dashboard_use_only_what_a_worker_exports() -> None:
    found = list(families(full_status()))
    assert [family.name for family in found if not family.samples] == []
    missing = not_exported(found)
    assert [text for text in missing if not text.rpartition(" ")[2].startswith(PROCESS)] == []  # by the endpoint itself


def test_rules_and_dashboard_metric_or_label_that_does_not_exist_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = {"alert": "X", "expr": 'sum by (lanes) (drlib_lane_state{stat="running"}) > drlib_lagg'}
    monkeypatch.setattr("monitoring_files.alert_rules", lambda: [rule])
    missing = [text for text in not_exported(families(full_status())) if text.startswith("X:")]
    assert missing == ["X: drlib_lane_state{stat}", "X: drlib_lagg", "X: grouped by lanes"]


def test_rules_and_dashboard_name_existing_events() -> None:
    named = {
        name
        for _, expression in expressions()
        for selector in expression.selectors
        for label, operator, value in selector.labels
        if label == "event"
        for name in alternatives(operator, value)
    }
    assert len(named) > 30
    assert named - set(KINDS) == set()


def test_rule_exists_for_every_event_that_stops_records() -> None:
    """An event of level ERROR has an alert of its own, or one of the metric that says the same."""
    by_metric = {"Parked", "TargetRefused", "SourceCorrupt", "MirrorUnavailable", "NoWorker", "LaneUnowned"}
    by_metric.add(
        "MirrorMakerSilent"
    )  # of flows without a worker, which has the metrics: drlib status and doctor find it
    named = {
        name
        for rule in RULES.values()
        for selector in parse(rule["expr"]).selectors
        for label, operator, value in selector.labels
        if label == "event"
        for name in alternatives(operator, value)
    }
    assert {name for name, kind in KINDS.items() if kind.level.name == "ERROR"} - named - by_metric == set()


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_rule_has_severity_texts_and_a_link_to_an_existing_heading(rule: Mapping[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    annotations = rule["annotations"]
    assert len(annotations["summary"]) < 100
    assert annotations["description"].endswith(".")
    page, _, anchor = annotations["runbook_url"].partition("#")
    headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert anchor in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    used = set(re.findall(r"\$labels\.(\w+)", json.dumps(annotations)))
    expression = parse(rule["expr"])
    assert used <= expression.grouped_by | {"job", "instance"}


def test_dashboard_panels_fit_the_grid_and_have_unique_ids() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_dashboard_queries_follow_its_variables() -> None:
    names = {variable["name"] for variable in dashboard()["templating"]["list"]}
    text = json.dumps(dashboard()["panels"])
    assert set(re.findall(r"\$\{?([a-z]+)", text)) - names == set()


@pytest.mark.parametrize(("command", "file"), [("prometheus", "alerts.yml"), ("grafana", "dashboard.json")])
def test_service_prints_the_file(command: str, file: str) -> None:
    done = drlib("service", command)
    assert (done.returncode, done.stdout) == (0, monitoring_file(file))


@pytest.mark.parametrize(
    "text", ["sum(", "a{b=c}", "rate(a[5x])", "nonsense(a)", "a b)", "max", "a{b='c' d='e'}", "a ? b"]
)
def test_promql_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"PromQL|bracket|function|label|argument"):
        parse(text)


# -- what the alerts do, by Prometheus itself --------------------------------------------------------------------------

PARTITION = 'job="drlib",instance="w1",source="A",target="B",topic="A.t",partition="0"'
FLOW_OF_W1 = 'job="drlib",instance="w1",source="A",target="B"'
W1 = 'job="drlib",instance="w1"'
HEALTHY = {
    f"up{{{W1}}}": "1+0x240",
    f"drlib_flow_lanes{{{FLOW_OF_W1}}}": "2+0x240",
    f'drlib_lane_state{{{FLOW_OF_W1},lane="0",state="running"}}': "1+0x240",
    f'drlib_lane_state{{{FLOW_OF_W1},lane="1",state="running"}}': "1+0x240",
    f"drlib_replication_record_lag{{{PARTITION}}}": "10+0x240",
    f"drlib_replication_lag_seconds{{{PARTITION}}}": "1+0x240",
    f"drlib_partition_parked{{{PARTITION}}}": "0+0x240",
    f"drlib_events_open{{{W1}}}": "0+0x240",
    f"drlib_status_timestamp_seconds{{{W1}}}": "0+60x240",
    f"process_resident_memory_bytes{{{W1}}}": "100+0x240",
    f"process_start_time_seconds{{{W1}}}": "1+0x240",
    f"drlib_memory_budget_bytes{{{W1}}}": "200+0x240",
}


def event(name: str) -> dict[str, str]:
    return {f'drlib_event_open{{{W1},event="{name}",entity="x",flow="A->B"}}': "_x20 1+0x219"}


LATE = {  # the series of each alert's fault, over the healthy ones; it begins after 20 minutes
    "DrlibNoWorker": {f"up{{{W1}}}": "1+0x20 0+0x219"},
    "DrlibWorkerDown": {f"up{{{W1}}}": "1+0x20 0+0x219"},
    "DrlibWorkerRestarts": {f"process_start_time_seconds{{{W1}}}": "1+0x20 100 200 300+0x217"},
    "DrlibLaneUnowned": {f'drlib_lane_state{{{FLOW_OF_W1},lane="1",state="running"}}': "1+0x20 stale"},
    "DrlibLaneStalled": event("LaneStalled"),
    "DrlibClusterUnreachable": event("SourceUnreachable"),
    "DrlibReplicationLagHigh": {
        f"drlib_replication_lag_seconds{{{PARTITION}}}": "1+0x20 400+60x219",
        f"drlib_replication_record_lag{{{PARTITION}}}": "10+0x20 10+1000x219",
    },
    "DrlibRetentionAhead": event("RetentionAhead"),
    "DrlibRecordsLost": event("SourceLoss"),
    "DrlibJournalTrouble": event("JournalTruncated"),
    "DrlibPartitionsParked": {f"drlib_partition_parked{{{PARTITION}}}": "0+0x20 1+0x219"},
    "DrlibTopicsNotMirrored": event("SourceUnauthorized"),
    "DrlibGroupSyncFailing": event("GroupSyncRefused"),
    "DrlibServiceFailed": event("ServiceFailed"),
    "DrlibStatusStale": {f"drlib_status_timestamp_seconds{{{W1}}}": "0+60x20 1200+0x219"},
    "DrlibMemoryNearBudget": {f"process_resident_memory_bytes{{{W1}}}": "100+0x20 199+0x219"},
    "DrlibEventsOpen": {f"drlib_events_open{{{W1}}}": "0+0x20 1+0x219"},
}
ALSO = {"DrlibNoWorker": {"DrlibWorkerDown"}, "DrlibWorkerDown": {"DrlibNoWorker"}}
WITHOUT_FAULT = {  # what looks like a fault and is none
    "a lag that shrinks": {
        f"drlib_replication_lag_seconds{{{PARTITION}}}": "4000-1x239",
        f"drlib_replication_record_lag{{{PARTITION}}}": "100000-100x239",
    },
    "a lane that moves for a minute": {
        f'drlib_lane_state{{{FLOW_OF_W1},lane="1",state="running"}}': "1+0x20 stale 1+0x218"
    },
    "memory below the budget": {f"process_resident_memory_bytes{{{W1}}}": "180+0x240"},
    "a restart": {f"process_start_time_seconds{{{W1}}}": "1+0x20 100+0x219"},
    "an event of a minute": {
        f'drlib_event_open{{{W1},event="ServiceFailed",entity="x",flow="A->B"}}': "_x20 1 stale",
        f"drlib_events_open{{{W1}}}": "0+0x20 1 0+0x218",
    },
}


@pytest.fixture
def promtool() -> str:
    """Prometheus's own tool."""
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed: it is in Debian's package prometheus")
    return found


def test_dashboard_queries_are_promql(tmp_path: Path, promtool: str) -> None:
    queries = [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", ())]
    rules = [
        {"record": f"panel_{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, query in enumerate(queries)
    ]
    (tmp_path / "queries.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(
        [promtool, "check", "rules", "queries.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(queries)} rules found" in done.stdout + done.stderr


def test_alert_has_a_series_that_fires_it() -> None:
    assert set(LATE) == set(RULES)


def test_alerts_fire_on_their_faults_and_not_on_a_healthy_mirror(tmp_path: Path, promtool: str) -> None:
    """Evaluated by `promtool test rules`, as Prometheus does."""
    (tmp_path / "alerts.yml").write_text(monitoring_file("alerts.yml"))
    cases = []
    for title, changed in {"healthy": {}, **WITHOUT_FAULT}.items():
        cases.append(case(title, changed, {"5m": set(), "25m": set(), "200m": set()}))
    for alert, changed in LATE.items():
        late = "30m" if alert == "DrlibWorkerRestarts" else "200m"
        cases.append(case(alert, changed, {"19m": set(), late: {alert, *ALSO.get(alert, ())}}))
    (tmp_path / "tests.yml").write_text(
        yaml.safe_dump({"rule_files": ["alerts.yml"], "evaluation_interval": "1m", "tests": cases}, sort_keys=False)
    )
    subprocess.run([promtool, "check", "rules", "alerts.yml"], cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run(
        [promtool, "test", "rules", "tests.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def case(title: str, changed: Mapping[str, str], firing: Mapping[str, set[str]]) -> dict[str, Any]:
    """A test of promtool: which alerts fire at each time, by `ALERTS`, with healthy series but those `changed`."""
    series = {**HEALTHY, **changed}
    return {
        "name": title,
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": at,
                "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(names)],
            }
            for at, names in firing.items()
        ],
    }
