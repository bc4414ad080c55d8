"""Which file a runbook is, given its path or its name.

Rules: a name is looked for in a folder runbooks/ here or above, then among those that come with the package.
A name that is mistyped is refused with this module alone, before what reads a runbook is imported.
Not for: reading it (`drlib.runbook.file.model`).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from drlib.errors import UsageError

SUFFIXES: Final = frozenset({".yaml", ".yml"})
_PACKAGE: Final = Path(__file__).parents[2]


def find(runbook: str | Path) -> Path:
    """The file of a runbook; where there is none, what was given."""
    path = Path(runbook)
    if path.suffix in SUFFIXES or is_there(path):
        return path
    beside = path.with_name(f"{path.name}.yaml") if path.name else path
    candidates = (beside, *(folder / f"{path.name}.yaml" for folder in folders()))
    return next((each for each in candidates if is_there(each)), path)


def refuse_missing(path: Path) -> None:
    """Raises `UsageError`, with what can be given instead, where `find` found no file."""
    if is_there(path):
        return
    names = list(known())
    if _is_folder(path):
        inside = [str(each) for each in sorted(path.glob("*.yaml"))]
        raise UsageError(
            f"{path} is a folder", "a runbook is a file", f"Give one, such as {(inside or names or ['-'])[0]}."
        )
    by_path = len(path.parts) > 1 or path.suffix in SUFFIXES
    what, why = (
        (str(path), "it does not exist")
        if by_path
        else (f"there is no runbook {path}", "it is not among those in reach")
    )
    if by_path and path.stem in names:
        raise UsageError(what, why, f"By its name: drlib run {path.stem}")
    beside = {each.stem: str(each) for each in sorted(path.parent.glob("*.yaml"))} if by_path else {}
    there = beside or {name: name for name in names}
    near = difflib.get_close_matches(path.stem, there, 1)
    if near:
        raise UsageError(what, why, f"Did you mean {there[near[0]]}?")
    listed = f"there are {', '.join(there.values()) or 'none'}"
    raise UsageError(what, f"{why}; {listed}" if by_path else listed, "Give one of these, or another path.")


def known() -> tuple[str, ...]:
    """The names that `find` finds, those of this folder first."""
    return tuple(dict.fromkeys(path.stem for folder in folders() for path in sorted(folder.glob("*.yaml"))))


def folders() -> Iterator[Path]:
    """Where runbooks are looked for by their names."""
    here = Path.cwd()
    for above in (here, *here.parents):
        if (above / "runbooks").is_dir():
            yield above / "runbooks"
    with_package = shipped("runbooks")
    if with_package is not None and with_package.parent not in (here, *here.parents):
        yield with_package


def shipped(name: str) -> Path | None:
    """The folder `name` that comes with drlib, "runbooks" or "notebooks": in the installed package, or beside it in a source
    tree. None where there is none."""
    return next((root / name for root in (_PACKAGE, _PACKAGE.parent) if (root / name).is_dir()), None)


def in_folder(given: Path | None) -> list[Path]:
    """The runbooks of a folder that was given, else of runbooks/ here, which may be missing. Raises `UsageError`."""
    if given is not None and not _is_folder(given):
        why = "it is a file" if is_there(given) else "there is no such folder"
        raise UsageError(f"--runbooks {given}", why, "Give the folder of runbooks.")
    return sorted((given or Path("runbooks")).glob("*.yaml"))


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def is_there(path: Path) -> bool:
    """Is there such a file?"""
    try:
        return path.is_file()
    except OSError:  # a name that is too long
        return False
