"""Disaster recovery and failover for Apache Kafka: an exact mirror, and drills that prove it.

The names in `__init__.pyi` are the public API; everything else may change. They are loaded when first used (PEP 562), so
importing this package, or one module of it, loads nothing else, not even the list of the names. A name whose packages are an
extra that is not installed raises `MissingDependency`, which says what to install.
"""

_homes: dict[str, str] = {}  # name -> module


def __getattr__(name: str) -> object:
    if name == "__all__":
        return sorted(_public())
    if name.startswith("__") or name not in _public():
        raise AttributeError(f"module 'drlib' has no attribute {name!r}")
    from importlib import import_module

    from drlib.extras import explains_missing_extra

    with explains_missing_extra(f"drlib.{name}"):
        return getattr(import_module(_homes[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_public()})


def _public() -> dict[str, str]:
    """Each public name and its module, as `__init__.pyi` imports them."""
    if not _homes:
        from pathlib import Path

        text = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
        lines = (line.split() for line in text.splitlines())
        # Split, not parsed: `ast` fails in Python 3.11 while another thread imports. At once: another thread may look at it.
        _homes.update({words[3]: words[1] for words in lines if words[:1] == ["from"]})
    return _homes
