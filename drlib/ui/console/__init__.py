"""People at work: the live console of a notebook, and JupyterLab started so that it can be used at once.

`drlib.console(...)` opens one: this package is called like a function, whichever of the two was imported first.
Not for: what the state is (`drlib.ui.console.state`), and what runbooks leave behind, which is never a widget.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from drlib.extras import explains_missing_extra

if TYPE_CHECKING:
    from drlib.model import Flow
    from drlib.ui.console.open import Console


@explains_missing_extra("drlib.console")
def console(of: str | Path | Flow = "", *, lab_dir: str | Path = "", runs_dir: str | Path = "") -> Console:
    """A console on a properties file, or on a lab (or one of its flows, "LEFT->RIGHT"). See `opening.open_console`."""
    from drlib.ui.console.open import open_console

    return open_console(of, lab_dir=lab_dir, runs_dir=runs_dir)


class _Callable(ModuleType):
    def __call__(self, of: str | Path | Flow = "", *, lab_dir: str | Path = "", runs_dir: str | Path = "") -> Console:
        return console(of, lab_dir=lab_dir, runs_dir=runs_dir)


sys.modules[__name__].__class__ = _Callable
