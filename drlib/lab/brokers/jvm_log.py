"""What a Java process of the lab logs, and the end of it to show when the process did not come up.

Rules: Log4j writes to the process's own standard output, which the lab keeps in a file; warnings of everybody, and what
the one named logger has to say.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

TAIL_LINES: Final = 40
_CONFIGURATION: Final = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n%throwable
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
logger.talking.level = info
logger.talking.name = """


def configuration(logger: str) -> str:
    """A log4j2.properties file in which `logger` (a Java package) may log at INFO."""
    return _CONFIGURATION + logger + "\n"


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """The last `lines` lines of `log`; nothing where there is no log."""
    if not log.exists():
        return ""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
