"""Reading the runs of an evidence package, and writing it: `evidence.json`, `evidence.md`, `reports.sha256`, and a manifest.

Rules: runs are judged by `drlib.drill.run.stored_run` alone. `reports.sha256` is what `sha256sum -c` reads, in the folder of
runs; the manifest is over the package. A folder that has anything else in it is refused: nothing that is sealed may be foreign.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from drlib.drill.run import planning
from drlib.drill.run.planning import PLAN_FILE
from drlib.drill.run.stored_run import Evidence, StoredRun
from drlib.errors import UsageError
from drlib.files import make_folder, read_stored, write_whole
from drlib.runbook import history
from drlib.runbook.evidence import page
from drlib.runbook.evidence.package import Hashes, Package, Unverified
from drlib.runbook.evidence.rules import Facts, Scope, build
from drlib.runs import folder as folders
from drlib.runs import journal
from drlib.runs.folder import MANIFEST
from drlib.runs.journal import JOURNAL, JournalTampered

JSON: Final = "evidence.json"
PAGE: Final = "evidence.md"
REPORTS: Final = "reports.sha256"
REPORT: Final = "report.html"


def collect(runs_dir: Path, scope: Scope) -> Package:
    """The package of the runs in `runs_dir`."""
    facts: list[Facts] = []
    unverified: list[Unverified] = []
    pending: list[str] = []
    for past in history.read_runs(runs_dir):
        stored = past.stored
        if stored.evidence is Evidence.PENDING:
            pending.append(stored.folder.name)
        elif isinstance(read := _facts(stored), Facts):
            facts.append(read)
        else:
            unverified.append(read)
    return build(scope, facts, unverified, pending)


def write(package: Package, folder: Path) -> Path:
    """Write `package` into `folder` and seal it. Raises `UsageError` where that cannot be."""
    try:
        make_folder(folder)
        foreign = sorted(each.name for each in folder.iterdir() if each.name not in {JSON, PAGE, REPORTS, MANIFEST})
        if foreign:
            raise UsageError(
                f"{folder} is not written to", f"it has {foreign[0]}, which is of no package", "Name another: --out."
            )
        folders.unseal(folder)
        write_whole(folder / JSON, package.model_dump_json(indent=2) + "\n")
        write_whole(folder / PAGE, page.render(package))
        lines = (f"{each.hashes.report}  {each.run}/{REPORT}\n" for each in package.runs if each.hashes.report)
        write_whole(folder / REPORTS, "".join(lines))
        folders.seal(folder)
    except OSError as error:
        raise folders.unwritable(folder, error) from error
    return folder


def _facts(stored: StoredRun) -> Facts | Unverified:
    """What a verified run says. Its other files are read once more, and only as the manifest has them."""
    if stored.scorecard is None:
        return _unverified(stored, [str(each) for each in stored.differences])
    try:
        listed = folders.listed(stored.folder)
        contents = {name: read_stored(stored.folder / name) for name in (PLAN_FILE, JOURNAL) if name in listed}
        changed = [name for name, data in contents.items() if hashlib.sha256(data).hexdigest() != listed[name]]
        if changed:
            return _unverified(stored, [f"{name}: it was changed while it was read" for name in changed])
        plan = planning.parse(contents[PLAN_FILE]) if PLAN_FILE in contents else None
        lines = journal.parse(contents[JOURNAL], stored.folder / JOURNAL) if JOURNAL in contents else ()
        manifest = hashlib.sha256(read_stored(stored.folder / MANIFEST)).hexdigest()
    except (OSError, ValueError, JournalTampered) as error:
        return _unverified(stored, [f"it was changed while it was read: {error}"])
    return Facts(
        stored.folder.name,
        stored.scorecard,
        () if plan is None else tuple(step.title for step in plan.drill.steps),
        () if plan is None else tuple(each.title for each in plan.drill.hypothesis),
        Hashes(
            manifest=manifest,
            report=listed.get(REPORT),
            plan=None if plan is None else plan.hash,
            journal=lines[-1].hash if lines else None,
        ),
    )


def _unverified(stored: StoredRun, why: Sequence[str]) -> Unverified:
    evidence = stored.evidence if stored.scorecard is None else Evidence.CONTRADICTORY
    return Unverified(run=stored.folder.name, evidence=evidence.value, differences=tuple(why))
