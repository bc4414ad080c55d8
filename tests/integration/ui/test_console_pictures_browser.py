"""The console's picture in a real browser, without a lab: from a wide page to a telephone, light and dark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from axe_playwright_python.async_playwright import Axe
from fix_browser import CHROMIUM
from playwright.async_api import async_playwright

from drlib.drill.plan.rollback_preview import RollbackPreview, UndoneStep
from drlib.drill.session.board import Stand, StepStand
from drlib.kafka.admin.descriptions import Record
from drlib.lab.environment import LAB_ONLY, Banner, Environment
from drlib.mirror.monitor.flow_view import NO_WORKER, FlowView
from drlib.mirror.monitor.survey import GroupPosition, GroupStatus
from drlib.mirror.status.event_kinds import kind_of
from drlib.mirror.status.forecast import Outlook
from drlib.mirror.status.worker_status import Event, PartitionStatus
from drlib.model import TopicPartition, TranslationKind
from drlib.ui.console.picture import html_of
from drlib.ui.console.show.records import Log, offsets, positions_html, records_html
from drlib.ui.console.state import NOT_STARTED, ClusterSeen, ConsoleState, DrillSeen

NOW = 1_700_000_000_000
TOPICS = ("orders", "payments.settled.by-region.and-currency", *(f"stream-{n}" for n in range(11)))
GROUPS = ("billing", "warehouse-replenishment-eu-central", *(f"readers-{n}" for n in range(6)))


def group(name: str, number: int) -> GroupStatus:
    positions = tuple(
        GroupPosition(
            TopicPartition(topic, p), 1000, 1000 + n * 37 * number, float(n * number), TranslationKind.EXACT, 990
        )
        for n, topic in enumerate(TOPICS)
        for p in (0, 1)
    )
    return GroupStatus(name, len(positions), 9, len(positions), 0, 0, 0, positions)


def full() -> ConsoleState:
    """Everything that a console can show, at once."""
    partitions = tuple(
        PartitionStatus(t, 0, f"LEFT.{t}", 0, 5, 5, 905, 5, outlook=Outlook(lag_s=61.0), as_of_ms=NOW) for t in TOPICS
    )
    opened = tuple(
        Event(
            name, f"{TOPICS[1]}-0", "the broker says why, at length", NOW, None, kind_of(name).remedy, 1, "LEFT->RIGHT"
        )
        for name in ("Parked", "NoWorker")
    )
    groups = tuple(group(name, n) for n, name in enumerate(GROUPS))
    flow = FlowView("LEFT->RIGHT", NO_WORKER, NOW, 1, (), (), partitions, opened, groups, 5.0, None)
    steps = tuple(
        StepStand(f"s{n}", f"Step {n} of the way to the other cluster", stand, 1.5) for n, stand in enumerate(Stand)
    )
    would = RollbackPreview(
        tuple(
            UndoneStep(f"move-{n}", "Move", (f"pointer of {TOPICS[1]} on RIGHT: RIGHT -> LEFT",), partly=not n)
            for n in (0, 1)
        ),
        (("drop-topics", "its action cannot be undone"),),
    )
    drill = DrillSeen(
        "failover-drill", Path("runs/20261121T100000Z-failover-drill-4be0a7"), "LEFT->RIGHT", "practice", "running", steps,
        alive=True, rollback=would,
    )  # fmt: skip
    back = replace(flow, flow="RIGHT->LEFT", state=NOT_STARTED, at_ms=NOW + 60_000, events=(), groups=(), partitions=())
    clusters = (
        ClusterSeen("LEFT", "not running", "LEFT-1 not running", "cut"),
        ClusterSeen("RIGHT", "runs", link="healthy"),
    )
    banner = Banner(Environment.LAB, "", LAB_ONLY)
    return ConsoleState(NOW + 61_000, clusters, (flow, back), drill, ("LEFT was asked in vain",), banner)


def page_of(scheme: str) -> str:
    state, at = full(), TopicPartition(TOPICS[1], 0)
    records = [Record(at, n, NOW, b"key-" * 30, b"\xff" * 300, (("trace", b"1" * 60),)) for n in range(6)]
    log = Log(0, 6)
    parts = (
        html_of(state),
        records_html("LEFT", at, log, offsets(log, "0"), records),
        positions_html("LEFT->RIGHT", state.flows[0].groups[1], NOW) if state.flows[0].groups else "",
    )
    ground = "#fff" if scheme == "light" else "#111"
    return (
        f'<!doctype html><html lang="en"><title>Console</title><meta name="viewport" content="width=device-width">'
        f'<body data-jp-theme-light="{str(scheme == "light").lower()}" style="margin:8px;background:{ground}">'
        f"<main><h1 style='color:#fff;background:#000'>Console</h1>{''.join(parts)}</main></body></html>"
    )


CUT = """() => [...document.querySelectorAll('.drlib-console *')].filter(e => {
  const box = e.getBoundingClientRect(), home = e.closest('.drlib-console').getBoundingClientRect();
  return box.width && (box.right > home.right + 1 || box.left < home.left - 1);
}).map(e => e.textContent.slice(0, 40))"""
COVERED = """() => {
  const cells = [...document.querySelectorAll('.drlib-console td, .drlib-console th, .drlib-console .chip')]
    .map(e => [e, e.getBoundingClientRect()]).filter(([, box]) => box.width && box.height);
  return cells.flatMap(([a, p], i) => cells.slice(i + 1).filter(([b, q]) => !a.contains(b) && !b.contains(a)
    && p.left + 2 < q.right && q.left + 2 < p.right && p.top + 2 < q.bottom && q.top + 2 < p.bottom)
    .map(([b]) => `${a.textContent} / ${b.textContent}`)).slice(0, 10);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_console_picture_is_whole_and_accessible_at_every_width(tmp_path: Path, scheme: str) -> None:
    assert CHROMIUM.exists(), "this test needs Debian's chromium: apt-get install -y chromium"
    path = tmp_path / "console.html"
    path.write_text(page_of(scheme))
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for width in (1280, 700, 420):
            page = await browser.new_page(viewport={"width": width, "height": 900})
            await page.goto(path.as_uri())
            await page.screenshot(path=tmp_path / f"console-{width}-{scheme}.png", full_page=True)
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
            assert await page.evaluate(CUT) == []
            assert await page.evaluate(COVERED) == []
            for words in (
                "If you abort it now",
                "as of 22:13:20, 61 s ago",
                "mirror not started",
                "Lag of groups by topic",
            ):
                assert await page.get_by_text(words).first.is_visible(), words
            found = (await Axe().run(page)).response["violations"]
            assert [(rule["id"], rule["impact"], rule["nodes"][0]["html"]) for rule in found] == []
            await page.close()
        await browser.close()
