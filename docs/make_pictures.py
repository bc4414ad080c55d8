"""Makes the pictures of the documentation, from nothing: a failover drill is run for its report, an incident is played for its
reveal, the first notebook for its console, as a browser shows them; and a night on secured clusters for a recording of its
commands in a terminal.

Rules: everything runs in a folder of its own that is gone afterwards, so that what was run here before neither helps nor
hinders; each picture is made of what really happened. The incident's player is not a good one, so that the reveal has
something to tell. Needs what tests need (`make setup`, Debian's chromium), tmux, and some ten minutes; names of pictures as
arguments make only those: `python docs/make_pictures.py incident`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, sync_playwright
from terminal_recording import Terminal, as_svg, terminal

from drlib.lab.lab import Lab
from drlib.training.incidents.incident import Incident
from drlib.training.incidents.reveal_figure import reveal_figure
from drlib.training.incidents.rules.symptoms import Symptom
from drlib.ui.jupyterlab import JupyterLab

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
KERNEL: Final = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel"
CAUSE: Final = "wrong-acl"
SEED: Final = 1  # of level 2, has this cause
SHOWN_S: Final = 60.0


def report(page: Page, place: Path) -> None:
    """The head of a failover drill's report."""
    drill = [sys.executable, "-m", "drlib.cli", "run", str(ROOT / "runbooks" / "failover-drill.yaml"), "--lab"]
    subprocess.run([*drill, "--runs-dir", str(place / "runs")], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (found,) = (place / "runs").glob("*/report.html")
    page.goto(found.as_uri())
    page.wait_for_selector("svg.main-svg")
    page.screenshot(path=DOCS / "report.png")


def incident(page: Page, place: Path) -> None:
    """The reveal of an incident with a wrong diagnosis, two wrong moves and a hint."""
    folder = place / "incident"
    folder.mkdir()
    run = Incident.start(folder, SEED, at_once=True, level=2)
    try:
        _wait_for_symptom(run, Symptom.MIRROR_BEHIND)
        where = run.record.injected_causes()[0].where
        other = "flights" if where == "bookings" else "bookings"
        for step in (
            lambda: run.act("acknowledge"),
            lambda: run.diagnose("link-cut-one-way"),
            lambda: run.act("heal-link RIGHT"),
            run.hint,
            lambda: run.diagnose(CAUSE),
            lambda: run.act(f"remove-acl RIGHT LEFT.{other}"),
            lambda: run.act(f"remove-acl RIGHT LEFT.{where}"),
        ):
            step()
            _wait_for_observation(run)
        reveal = run.finish(settle_s=SHOWN_S)
        figure = reveal_figure(reveal, run.record.started_ms())
    finally:
        run.close()
    path = place / "incident.html"
    figure.write_html(path, include_plotlyjs=True, config={"displayModeBar": False})
    page.goto(path.as_uri())
    page.wait_for_selector("svg.main-svg")
    page.locator("svg.main-svg").first.screenshot(path=DOCS / "incident.png")


def _wait_for_symptom(run: Incident, symptom: Symptom) -> None:
    run.testbed().wait(symptom.value, lambda: symptom in run.status()[1], SHOWN_S)


def _wait_for_observation(run: Incident) -> None:
    """Wait as a person does between two moves."""
    before = run.status()[0].at_ms
    run.testbed().wait("another observation", lambda: run.status()[0].at_ms > before, SHOWN_S)


def console(page: Page, place: Path) -> None:
    """The console in the first notebook: a flow that mirrors, a group that would continue exactly, a plan that waits."""
    project = place / "project"
    shutil.copytree(ROOT / "notebooks", project / "notebooks", ignore=shutil.ignore_patterns(".*"))
    here = ["--expose-app-in-browser"]
    with (
        Lab(project / ".lab"),
        JupyterLab(project, browser=False, state=project / "state", arguments=here) as jupyter,
    ):
        page.goto(jupyter.url)
        page.wait_for_function(f"(k => k && k.connectionStatus === 'connected' && k.status === 'idle')({KERNEL})")
        for _ in range(11):  # up to the translated position; the last cell would close it
            page.evaluate("() => { void jupyterapp.commands.execute('notebook:run-cell-and-select-next'); }")
        shown = page.locator(".drlib-console", has_text="readers").filter(has_text="exact")
        shown.wait_for(timeout=90_000)
        page.get_by_role("button", name="Kill…").click()
        page.locator(".drlib-console-confirm", has_text="SIGKILL").wait_for()
        page.locator(".drlib-console-widget").screenshot(path=DOCS / "console.png")
        page.get_by_role("button", name="Leave it").click()
        page.evaluate("() => jupyterapp.commands.execute('notebook:run-all-below')")  # it closes what it opened
        page.locator(".drlib-console-said", has_text="closed").wait_for(timeout=60_000)


def night(page: Page, place: Path) -> None:
    """A failover and the way back, typed at a terminal; the applications are moved by hand as the screen says."""
    del page
    sys.path.insert(0, str(ROOT / "tests"))
    import testbed_secured_night as secured

    def moved(screen: Terminal, run: str, step: str, alias: str) -> None:
        """Wait for the step that moves the pointer, move the applications, and wait until the command ends."""
        screen.look_until(lambda _: clusters.ended(run, step), 300)
        by_hand = threading.Thread(target=clusters.reconfigure, args=(secured.named_on(clusters, alias),))
        by_hand.start()
        screen.look_until(lambda shown: shown.rstrip().endswith("$"), 400)
        by_hand.join()

    with secured.a_secured_night(place) as clusters, terminal(clusters.root) as screen:
        clusters.cli("init", str(clusters.operator), "--rto", "10m", "--rpo", "10m", "--rpo-records", "none")
        clusters.kill_worker()
        clusters.let_run(60)
        clusters.failing.kill()
        screen.type("drlib failover drill.properties 'paris->lyon'")
        screen.look_until(lambda shown: "Type lyon" in shown, 120)
        screen.type("lyon")
        moved(screen, "failover", "move", "lyon")
        clusters.let_run(60)
        clusters.start_worker()
        clusters.failing.start()
        clusters.stop(*clusters.producers)
        clusters.all_read()
        screen.type("clear; drlib failback drill.properties 'paris->lyon'")
        screen.look_until(lambda shown: "recover, quarantine, leave:" in shown, 120)
        screen.type("recover")
        screen.look_until(lambda shown: "Type paris" in shown, 120)
        screen.type("paris")
        moved(screen, "fail-back", "go-home", "paris")
        (DOCS / "the-night.svg").write_text(as_svg(screen.screens))


FILES: Final = {"night": "the-night.svg"}
PICTURES: Final[Mapping[str, Callable[[Page, Path], None]]] = {
    "report": report,
    "incident": incident,
    "console": console,
    "night": night,
}


def main(wanted: list[str]) -> int:
    if unknown := set(wanted) - set(PICTURES):
        print(f"There is no picture {min(unknown)}; there are {', '.join(PICTURES)}.", file=sys.stderr)
        return 2
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for name in wanted or PICTURES:
            began = time.monotonic()
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            with tempfile.TemporaryDirectory(prefix=f"drlib-{name}-") as folder:
                PICTURES[name](page, Path(folder))
            page.close()
            print(f"docs/{FILES.get(name, f'{name}.png')}  {time.monotonic() - began:.0f} s", flush=True)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
