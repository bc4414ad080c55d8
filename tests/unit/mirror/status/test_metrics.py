"""What a lane keeps in memory is a metric of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hostile_text import HOSTILE
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from sample_flow import worker

from drlib.mirror.status import worker_status
from drlib.mirror.status.metrics import WorkerCollector, families
from drlib.mirror.status.worker_status import Event


def test_families_have_the_memory_of_each_lane() -> None:
    kept = next(family for family in families(worker(kept_bytes=7_000_000)) if family.name == "drlib_memory_bytes")
    assert {sample.labels["lane"]: sample.value for sample in kept.samples} == {"0": 7_000_000, "1": 0}


NAMES = {name: text.encode(errors="replace").decode() for name, text in HOSTILE.items() if text}


@pytest.mark.parametrize("text", NAMES.values(), ids=NAMES)
def test_scrape_of_any_text_has_the_labels_as_they_are_and_no_other_sample(text: str) -> None:
    def scraped(word: str) -> dict[str, list[tuple[str, dict[str, str]]]]:
        event = Event(f"E{word}", f"e{word}", "d", 5, flow=f"f{word}")
        state = replace(worker(event, lane_state=f"s{word}"), brief=((f"f{word}", f"n{word}", 2),))
        lines = replace(state.flows[0].partitions[0], target_topic=f"t{word}")
        state = replace(state, flows=(replace(state.flows[0], partitions=(lines,)),))
        registry = CollectorRegistry(auto_describe=False)
        registry.register(WorkerCollector(lambda: state))
        page = generate_latest(registry).decode()
        found = text_string_to_metric_families(page)
        return {family.name: [(each.name, dict(each.labels)) for each in family.samples] for family in found}

    hostile, plain = scraped(text), scraped("plain")
    as_plain = {
        name: [(n, {label: value.replace(text, "plain") for label, value in labels.items()}) for n, labels in samples]
        for name, samples in hostile.items()
    }
    assert as_plain == plain


@pytest.mark.parametrize("text", NAMES.values(), ids=NAMES)
def test_status_of_any_text_is_read_back_as_it_was(text: str) -> None:
    state = worker(Event(f"E{text}", text, text, 5, remedy=text, flow=text, entities=(text,)))
    assert worker_status.decode(worker_status.encode(state)) == state
    assert worker_status.encode(state).count(b"\n") == 0
