"""What a run found silent is not waited for again, and what answers again is."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from drlib.drill.step import known_silence
from drlib.drill.step.context import DrillContext
from drlib.drill.step.known_silence import (
    AGAIN_S,
    CHEAP_S,
    FORGOTTEN_S,
    FRESH_S,
    KnownSilence,
    Silence,
    ask_in_run,
    counts,
    most_are_silent,
    patience_s,
)
from drlib.errors import Unreachable, UsageError
from drlib.kafka.admin.connect import Refused
from drlib.kafka.admin.reachability import ClusterService
from drlib.kafka.net.cluster_client import Broker, ClusterMetadata
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.ports import free_ports
from drlib.model import Flow

NOW = 1_795_255_200_000
CLUSTERS = [ClusterSettings(alias, (f"{alias}:9092",)) for alias in ("LEFT", "RIGHT")]
ANSWERS = ClusterMetadata("id", 1, {}, {})


@pytest.mark.parametrize(
    ("age_s", "took_s", "expected"),
    [
        (None, 0.0, 5.0),
        (0.0, 5.0, 0.0),
        (FRESH_S - 0.1, 5.0, 0.0),
        (FRESH_S, 5.0, AGAIN_S),
        (0.0, CHEAP_S, AGAIN_S),  # a refused connection costs nothing to try again
        (FORGOTTEN_S, 5.0, 5.0),
        (-1.0, 5.0, 5.0),  # the clock went back
    ],
)
def test_patience_shrinks_for_what_was_silent_a_moment_ago(age_s: float | None, took_s: float, expected: float) -> None:
    known = None if age_s is None else Silence("no answer", NOW - int(age_s * 1000), took_s)
    assert patience_s(known, NOW, 5.0) == expected


class Cluster:
    """Answers or not, and keeps for how long it was asked; `took_s` passes while it is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, float]] = []
        self.silent = {"LEFT"}
        self.now_s = NOW / 1000
        monkeypatch.setattr(known_silence, "who_answers", self.who_answers)
        monkeypatch.setattr(known_silence, "clock", SimpleNamespace(now_ms=lambda: int(self.now_s * 1000)))
        monkeypatch.setattr(known_silence, "time", SimpleNamespace(monotonic=lambda: self.now_s))

    def who_answers(
        self, clusters: list[ClusterSettings], timeout_s: float, _dispensable: object
    ) -> dict[str, ClusterMetadata | Unreachable]:
        (cluster,) = clusters
        self.asked.append((cluster.alias, timeout_s))
        if cluster.alias not in self.silent:
            return {cluster.alias: ANSWERS}
        self.now_s += timeout_s
        return {cluster.alias: Unreachable("it is silent", "no answer", "Start it.")}


def test_ask_in_run_waits_for_a_silent_source_once_and_for_the_target_always(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = DrillContext(clusters={each.alias: each for each in CLUSTERS}, flow=Flow("LEFT", "RIGHT"), run_dir=tmp_path)
    cluster = Cluster(monkeypatch)
    first = ask_in_run(place, CLUSTERS)["LEFT"]
    assert isinstance(first, Unreachable)
    assert [wait for alias, wait in cluster.asked if alias == "LEFT"] == [5.0]
    for _ in range(20):  # the steps of a run, in other processes too: the finding is in the run's folder
        again = ask_in_run(place, CLUSTERS)
        cluster.now_s += 0.1
    assert isinstance(again["LEFT"], Unreachable)
    assert "as found" in again["LEFT"].why
    assert again["RIGHT"] is ANSWERS
    assert [wait for alias, wait in cluster.asked if alias == "LEFT"] == [5.0]
    assert [wait for alias, wait in cluster.asked if alias == "RIGHT"] == [5.0] * 21
    cluster.now_s += FRESH_S
    ask_in_run(place, CLUSTERS)
    assert [wait for alias, wait in cluster.asked if alias == "LEFT"] == [5.0, AGAIN_S]
    cluster.silent.clear()
    cluster.now_s += FRESH_S
    assert ask_in_run(place, CLUSTERS)["LEFT"] is ANSWERS
    assert KnownSilence(tmp_path).of("LEFT") is None


def test_ask_in_run_silent_target_is_never_taken_for_silent_without_asking(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = DrillContext(clusters={each.alias: each for each in CLUSTERS}, flow=Flow("LEFT", "RIGHT"), run_dir=tmp_path)
    cluster = Cluster(monkeypatch)
    cluster.silent = {"RIGHT"}
    for _ in range(3):
        ask_in_run(place, CLUSTERS)
    assert [wait for alias, wait in cluster.asked if alias == "RIGHT"] == [5.0] * 3


def test_ask_in_run_source_that_this_host_cannot_use_is_no_answer_and_a_target_is_an_error(tmp_path: Path) -> None:
    lacks_store = {"security.protocol": "SSL", "ssl.truststore.location": str(tmp_path / "gone.p12")}
    source, target = (
        ClusterSettings(alias, (f"127.0.0.1:{free_ports(1)[0]}",), lacks_store) for alias in ("LEFT", "RIGHT")
    )
    place = DrillContext(clusters={"LEFT": source, "RIGHT": target}, flow=Flow("LEFT", "RIGHT"), run_dir=tmp_path)
    answer = ask_in_run(place, [source])["LEFT"]
    assert isinstance(answer, Refused)
    assert "ssl.truststore.location" in answer.why
    silence = KnownSilence(tmp_path).of("LEFT")
    assert silence is not None
    assert silence.refused
    again = known_silence.repeated("LEFT", silence.at_ms, {"LEFT": silence})
    assert isinstance(again, Refused)
    assert "Restore" not in again.remedy
    with pytest.raises(UsageError, match=r"ssl\.truststore\.location"):
        ask_in_run(place, [target])


@pytest.mark.parametrize(("silent", "found"), [((), False), ((1,), False), ((1, 2), True), ((1, 2, 3), True)])
def test_controller_counts_as_silent_where_most_brokers_are(silent: tuple[int, ...], found: bool) -> None:
    metadata = ClusterMetadata("id", 1, {n: Broker(n, "127.0.0.1", 9092 + n) for n in (1, 2, 3)}, {})
    service = ClusterService(metadata, dict.fromkeys(silent, "no answer"))
    known = most_are_silent(service, NOW)
    assert (known is not None) == found
    assert counts(known, NOW + 10_000) == found
    assert not counts(known, NOW + int(FORGOTTEN_S * 1000))
    assert counts(known, NOW + 10_000, 11.0) == found
    assert not counts(known, NOW + 10_000, 10.0)
    assert not counts(known, NOW - 1)
