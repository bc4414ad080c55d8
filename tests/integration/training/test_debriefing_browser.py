"""The debriefing's page in a real browser: nothing clipped, no label over another, and a replay that works by keyboard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.async_playwright import Axe
from debriefed_incidents import played_by_a_team
from playwright.async_api import Page, async_playwright

from drlib.training.incidents.rules.causes import CAUSES, InjectedCause
from drlib.training.incidents.rules.reveal import Reveal, TimelineEntry, Track
from drlib.training.incidents.team.page import Played, write_debriefing

CHROMIUM = Path("/usr/bin/chromium")
CHARTS = "document.querySelectorAll('.chart:has(svg.main-svg)').length === 2"
TEXTS = "g.annotation-text-g, text.gtitle, .xtick text, .ytick text, text.xtitle"
# Each text of each figure: what it covers of another one, and what of it is outside of its figure or the page.
OVERLAPS = """texts => [...document.querySelectorAll('.chart')].flatMap(place => {
  const list = [...place.querySelectorAll(texts)].map(e => [e.textContent, e.getBoundingClientRect()]);
  return list.flatMap(([a, p], i) => list.slice(i + 1)
    .filter(([, q]) => p.left + 1 < q.right && q.left + 1 < p.right && p.top + 3 < q.bottom && q.top + 3 < p.bottom)
    .map(([b]) => `${a} / ${b}`));
})"""
CLIPPED = """texts => [...document.querySelectorAll('.chart')].flatMap(place => {
  const frame = place.querySelector('svg.main-svg').getBoundingClientRect();
  return [...place.querySelectorAll(texts)].map(e => [e.textContent, e.getBoundingClientRect()])
    .filter(([, p]) => p.left < frame.left - 1 || p.right > frame.right + 1 || p.top < frame.top - 1
      || p.bottom > frame.bottom + 1)
    .map(([text, p]) => `${text}: ${[p.left - frame.left, frame.right - p.right, p.top - frame.top, frame.bottom - p.bottom]}`);
})"""
MARKS = "() => document.querySelectorAll('#figure-2 .scatterlayer .point').length"


def longest_texts(played: Played) -> Played:
    """Every cause's story, as if each had been injected: the longest texts that a reveal can have."""
    causes = [InjectedCause(cause.name, cause.wheres[0], cause.hows[0]) for cause in CAUSES.values()]
    stories = [TimelineEntry(60, Track.CAUSE, cause.render(cause.definition.story)) for cause in causes]
    entries = sorted((*played.reveal.entries, *stories), key=lambda entry: entry.at_s)
    reveal = Reveal(tuple(causes[:2]), tuple(entries), played.reveal.score, played.reveal.measurements)
    return replace(played, reveal=reveal)


@asynccontextmanager
async def opened(
    folder: Path, *, width: int, scheme: Literal["light", "dark"] = "light", motion: Literal["reduce"] | None = None
) -> AsyncIterator[tuple[Page, list[str]]]:
    """The page, and what a browser complains of or asks a network for."""
    assert CHROMIUM.exists(), "this test needs Debian's chromium: apt-get install -y chromium"
    path, _ = write_debriefing(longest_texts(played_by_a_team()), folder)
    heard: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion=motion, bypass_csp=True
        )
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on(
            "request", lambda asked: heard.append(asked.url) if not asked.url.startswith(("file:", "data:")) else None
        )
        await page.goto(path.as_uri())
        await page.wait_for_function(CHARTS)
        yield page, heard
        await browser.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (420, "dark"), (1280, "dark"), (420, "light")])
async def test_debriefing_has_no_clipped_and_no_overlapping_text(
    tmp_path: Path, width: int, scheme: Literal["light", "dark"]
) -> None:
    async with opened(tmp_path, width=width, scheme=scheme) as (page, heard):
        texts = await page.locator("#figure-2 g.annotation-text-g").all_text_contents()
        assert len(texts) > 30
        assert not [text for text in texts if "…" in text]
        assert await page.evaluate(OVERLAPS, TEXTS) == []
        assert await page.evaluate(CLIPPED, TEXTS) == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        found = (await Axe().run(page)).response["violations"]
        assert [(rule["id"], rule["impact"], rule["nodes"][0]["target"]) for rule in found] == []
        await page.screenshot(path=tmp_path / f"debriefing-{width}-{scheme}.png", full_page=True)
        assert heard == []


async def test_replay_is_played_stopped_and_stepped_by_keyboard(tmp_path: Path) -> None:
    async with opened(tmp_path, width=1280) as (page, heard):
        button, slider = page.get_by_role("group", name="Replay").get_by_role("button"), page.get_by_role("slider")
        last = int(await slider.get_attribute("max") or 0)
        everything = await page.evaluate(MARKS)
        assert everything > 30
        assert await slider.input_value() == str(last)
        await slider.focus()
        await page.keyboard.press("Home")
        await page.wait_for_function(f"({MARKS})() < 5")
        assert (await slider.get_attribute("aria-valuetext") or "").startswith("after 0.0 s: state: everything works")
        await page.keyboard.press("ArrowRight")
        assert await slider.input_value() == "1"
        await page.keyboard.press("Shift+Tab")
        assert await button.evaluate("button => button === document.activeElement")
        assert await button.text_content() == "Play"
        await page.keyboard.press("Enter")
        assert await button.text_content() == "Stop"
        await page.wait_for_function("Number(document.querySelector('.replay input').value) >= 3")
        await page.keyboard.press("Enter")
        assert await button.text_content() == "Play"
        stopped = int(await slider.input_value())
        assert 3 <= stopped < last
        await page.keyboard.press("Enter")
        await page.wait_for_function(f"({MARKS})() === {everything}", timeout=60_000)
        assert await slider.input_value() == str(last)
        await page.wait_for_function("document.querySelector('.replay button').textContent === 'Play'")
        assert "finished" in (await page.locator(".replay p").text_content() or "")
        await page.locator("#theme").click()
        await page.wait_for_function(f"({MARKS})() === {everything}")
        assert heard == []


async def test_replay_moves_by_single_events_where_less_motion_is_wanted(tmp_path: Path) -> None:
    async with opened(tmp_path, width=420, motion="reduce") as (page, heard):
        button: Any = page.get_by_role("group", name="Replay").get_by_role("button")
        slider = page.get_by_role("slider")
        assert await button.text_content() == "Next event"
        for at in ("0", "1", "2"):
            await button.press("Enter")
            assert await slider.input_value() == at
            assert await button.text_content() == "Next event", "nothing moves by itself"
        await page.wait_for_function(f"({MARKS})() < 6")
        assert await page.locator(".replay p").get_attribute("aria-live") == "polite"
        assert heard == []
