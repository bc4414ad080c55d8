"""The folder of the first runbooks: what would be written, what may be replaced, and the writing.

Rules: `MANIFEST` has the SHA-256 of each file as it was written. A file that is not in it, or is not as it was written, is kept
unless it is forced by name; so is every file of a flow of which a cluster did not answer, because less would be known than
before. Runbooks are loaded and their drills parsed in a temporary folder first: what is refused there is never written. Nothing
is ever deleted.
Not for: the texts (`runbooks`, `readme`).
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

import drlib
from drlib import decoding
from drlib.drill.run import registry
from drlib.errors import UsageError
from drlib.files import read_given, read_given_bytes, read_json, write_whole
from drlib.model import Flow
from drlib.runbook import run_parameters
from drlib.runbook.file import drill_section, find, model, parameters
from drlib.runbook.file.parameters import NotebookFile
from drlib.runbook.first_runbooks import readme, runbooks
from drlib.runbook.first_runbooks.observation import FlowFacts, SeenCluster
from drlib.runbook.first_runbooks.runbooks import Place
from drlib.runs.scorecard import Objectives

MANIFEST: Final = ".drlib-init.json"
_MOST_BYTES: Final = 4 << 20
_MODE: Final = 0o644  # colleagues and schedulers read them; nothing in them is secret


class Manifest(BaseModel):
    """SHA-256 by path, relative to the folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: dict[str, str] = {}


class Outcome(StrEnum):
    WRITTEN = "written"
    UNCHANGED = "unchanged"
    EDITED = "kept, as it was edited since drlib init wrote it"
    FOREIGN = "kept, as drlib init did not write it"
    UNANSWERED = "kept, as a cluster did not answer and less is known now"


@dataclass(frozen=True, slots=True)
class FirstRunbooks:
    """`files`: path in the folder -> text. `partial`: those that rest on clusters that did not answer."""

    files: Mapping[str, str]
    partial: frozenset[str]


def make(
    flows: Sequence[FlowFacts], place: Place, objectives: Objectives, notebooks: Mapping[str, str]
) -> FirstRunbooks:
    """All files for `flows`, made without asking anything. `notebooks`: the shipped ones, by name."""
    named = runbooks.names(flows)
    files = {f"{runbooks.COPIES}/{name}": text for name, text in sorted(notebooks.items())}  # before what needs them
    partial: set[str] = set()
    for facts, names in zip(flows, named, strict=True):
        own = runbooks.texts(facts, names, place, objectives)
        files |= own
        partial |= set() if facts.complete else set(own) | {readme.NAME}
    files[readme.NAME] = readme.page(flows, named, place, objectives)
    return FirstRunbooks(files, frozenset(partial))


def shipped_notebooks() -> dict[str, str]:
    """The notebooks that the runbooks use, by name: of the installed package, or of the repository. Raises `UsageError`."""
    names = sorted(set(runbooks.NOTEBOOKS.values()))
    folder = find.shipped("notebooks")
    if folder is None or not all((folder / name).is_file() for name in names):
        why = f"{Path(drlib.__file__).parent} has none"
        raise UsageError("drlib's notebooks are missing", why, "Install drlib again from its wheel.")
    return {name: read_given(folder / name, "a notebook") for name in names}


def drill_parameters(notebooks: Mapping[str, str]) -> frozenset[str]:
    """The parameters that the notebook of drills takes. Raises `UsageError`."""
    content = decoding.json_as(NotebookFile, notebooks[runbooks.DRILL_NOTEBOOK])
    return frozenset(parameters.declared_in(runbooks.DRILL_NOTEBOOK, content) or ())


def check(made: FirstRunbooks) -> None:
    """Load each runbook as `drlib run` does. Raises `UsageError` for one that it would refuse."""
    with tempfile.TemporaryDirectory(prefix="drlib-init-") as name:
        root = Path(name)
        (root / runbooks.COPIES).mkdir()
        for path, text in made.files.items():
            write_whole(root / path, text, durable=False)
        for path in made.files:
            if path.endswith(".yaml"):
                accept(root / path)


def accept(path: Path) -> model.Runbook:
    """The runbook at `path`, with parameters, drill and arguments checked. Raises `UsageError`."""
    book = model.load(path)
    values = run_parameters.resolved(book, {})
    if book.drill is not None:
        registry.parse_drill(drill_section.drill(book.drill, book.name, book.objectives, values))
    return book


def known_objectives(folder: Path, flows: Sequence[FlowFacts]) -> Objectives:
    """Those of the failover's runbook that is there already; none where there is no readable one."""
    for names in runbooks.names(flows):
        try:
            return model.load(folder / names[runbooks.FAILOVER]).objectives
        except UsageError:
            continue
    return Objectives()


def write(made: FirstRunbooks, folder: Path, forced: Collection[str] = ()) -> dict[str, Outcome]:
    """Write what may be written; by path what was done. Raises `UsageError` for a folder that cannot be written, and for a
    name in `forced` that is no file of drlib's. Where it is interrupted, new files are taken away: `drlib failover` takes a
    runbook that is there, and the next `drlib init` would keep a file that the manifest does not have."""
    refuse_unknown(forced, made.files)
    manifest = read_manifest(folder)
    outcomes, new = {}, []
    try:
        (folder / runbooks.COPIES).mkdir(parents=True, exist_ok=True)
        for path, text in made.files.items():
            there = _there(folder / path)
            outcome = _decide(there, text, manifest.get(path), path in forced, path in made.partial)
            if there is None:
                new.append(folder / path)
            if outcome is Outcome.WRITTEN:
                write_whole(folder / path, text, mode=_MODE)
            if outcome in (Outcome.WRITTEN, Outcome.UNCHANGED):
                manifest[path] = _sha256(text.encode())
            outcomes[path] = outcome
        written = Manifest(sha256=manifest).model_dump_json(indent=1) + "\n"
        if _there(folder / MANIFEST) != written.encode():
            write_whole(folder / MANIFEST, written, mode=_MODE)
    except BaseException as error:
        for made_now in new:
            made_now.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        why = error.strerror or type(error).__name__
        raise UsageError(f"{folder} cannot be written", why, "Give another folder: --dir DIR.") from error
    return outcomes


def possible_files(of_file: Sequence[Flow], flows: Sequence[Flow], notebooks: Collection[str]) -> list[str]:
    """What `make` may write for `flows`, whatever the clusters answer. `of_file`: all flows that the file enables."""
    unasked = [
        FlowFacts(each, SeenCluster(each.source, ()), SeenCluster(each.target, ()), of_file=tuple(of_file))
        for each in flows
    ]
    named = (name for files in runbooks.names(unasked) for name in files.values())
    return [*named, *(f"{runbooks.COPIES}/{name}" for name in notebooks), readme.NAME]


def refuse_unknown(forced: Collection[str], files: Collection[str]) -> None:
    """Raises `UsageError` for a name that is not one of `files`."""
    if unknown := [name for name in forced if name not in files]:
        known = ", ".join(name for name in files if not name.startswith(runbooks.COPIES))
        raise UsageError(f"--force {unknown[0]}", "drlib init writes no such file", f"Its files are {known}.")


def _decide(there: bytes | None, text: str, written: str | None, forced: bool, partial: bool) -> Outcome:
    if there is None or forced:
        return Outcome.WRITTEN
    if there == text.encode():
        return Outcome.UNCHANGED
    if written is None:
        return Outcome.FOREIGN
    if _sha256(there) != written:
        return Outcome.EDITED
    return Outcome.UNANSWERED if partial else Outcome.WRITTEN


def read_manifest(folder: Path) -> dict[str, str]:
    """SHA-256 by path of what was written before; empty where nothing was. Raises `UsageError` for an unreadable one."""
    try:
        return dict(read_json(folder / MANIFEST, Manifest, "Delete it; drlib init then replaces nothing.").sha256)
    except FileNotFoundError:
        return {}


def _there(path: Path) -> bytes | None:
    """The bytes of a file; None where there is none. Raises OSError, also for what is no regular file."""
    if not os.path.lexists(path):
        return None
    return read_given_bytes(path, _MOST_BYTES)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
