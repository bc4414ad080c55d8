"""Whether it is said which clusters a runbook runs on: by the command line, by the runbook, or by its notebook.

Rules: a lab's folder that a notebook has as its default is for its cells, which a person runs: a command uses no lab that was
not named, since a drill would kill what runs there, and an analysis would audit clusters that are of no interest.
Not for: which flow of these clusters (`drlib.lab.choose_flow`).
"""

from collections.abc import Mapping
from pathlib import Path

from drlib.runbook.file import parameters
from drlib.runbook.file.model import Runbook, Value
from drlib.runbook.file.parameters import Parameter

_FILE, _LAB = "properties", "lab_dir"


def unnamed(book: Runbook, arguments: Mapping[str, Value]) -> bool:
    """Does it need clusters, and are none named? A notebook that takes no file and has no folder for a lab has its own way."""
    takes = parameters.declared(book.notebook)
    if _FILE not in takes and not has_own_lab(book):
        return False
    given = {**book.parameters, **arguments}
    return not (given.get(_FILE, _default(takes, _FILE)) or given.get(_LAB))


def own_file(book: Runbook) -> Path | None:
    """The clusters' file that the runbook or its notebook names; a relative path is in the notebook's folder, where it runs."""
    named = book.parameters.get(_FILE) or _default(parameters.declared(book.notebook), _FILE)
    return book.notebook.parent / str(named) if named else None


def has_own_lab(book: Runbook) -> bool:
    """Can it be run on a lab of its own? Then its notebook has a folder for one."""
    return bool(_default(parameters.declared(book.notebook), _LAB))


def takes_file(book: Runbook) -> bool:
    """Is it for the clusters of a file? A drill that has a lab of its own is for that alone."""
    return _FILE in parameters.declared(book.notebook) and not (book.drill and has_own_lab(book))


def _default(takes: Mapping[str, Parameter], name: str) -> Value | None:
    return takes[name].default if name in takes else None
