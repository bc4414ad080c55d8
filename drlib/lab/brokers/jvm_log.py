"""The logging configuration of the lab's Java processes, and the end of their logs for error messages.

Rules: Log4j writes to the process's standard output, which the lab keeps in a file: warnings of all loggers, and INFO of the
one that is named.
"""

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
    """A log4j2.properties file in which `logger` (a Java package) logs at INFO."""
    return _CONFIGURATION + logger + "\n"


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """The last `lines` lines of `log`; nothing where there is no log."""
    if not log.exists():
        return ""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
