"""The process around a command: what Ctrl-C, a closed pipe and an error become.

Rules:
- Until a command begins nothing has to be undone, and Ctrl-C ends the process at once. From then on it is a
  `KeyboardInterrupt` in the command, which cleans up.
- An interrupt that Python could only print, since it arrived in a finalizer or in a callback of the import system, is
  raised again; one that a library wrapped in another error is found in its causes.
- A reader that is gone (`drlib ... | head`) ends the command silently.
- A usage error names its command, and says what to type next. What the operating system says of a path that was given is one,
  wherever it was noticed.
"""

from __future__ import annotations

import _thread
import errno
import os
import select
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from drlib.cli import print_error
from drlib.errors import DrlibError, UsageError

if TYPE_CHECKING:
    from typer.exceptions import TyperException

STOPPED: Final = 128 + signal.SIGINT
READER_GONE: Final = 128 + signal.SIGPIPE
NAME: Final = "drlib"
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
_AGAIN_S: Final = 0.01
_LINE: Final = "stopped by Ctrl-C"


def run_command() -> int:
    """Run what the arguments say; returns the exit code. Raises what is an error of drlib itself."""
    try:
        code = _ended()
    except BrokenPipeError:  # also of the line that says how it ended, where one program reads both outputs
        if not _reader_gone():
            raise
        code = READER_GONE
    return _flushed(code)


def _ended() -> int:
    try:
        _refuse_undecodable(sys.argv[1:])
        return _invoke()
    except BrokenPipeError:
        raise
    except DrlibError as error:
        return _failed(error)
    except KeyboardInterrupt:
        return stopped()
    except Exception as error:
        return _failed_otherwise(error)


def leave_when_interrupted() -> None:
    """Until a command begins, Ctrl-C ends the process at once."""
    if (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):  # a shell may have us ignore it, in the background
        signal.signal(signal.SIGINT, _leave)


def command_begins() -> None:
    """From now on Ctrl-C is a `KeyboardInterrupt`."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = _raise_again


def ends() -> None:
    """What is left is the interpreter's, which would print tracebacks, and what an interrupt has left undone."""
    warnings.simplefilter("ignore")
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _leave):
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def stopped() -> int:
    """Say that Ctrl-C ended the command; returns the exit code."""
    print_error(_LINE)
    return STOPPED


def _leave(_: int, __: FrameType | None) -> None:
    os.write(2, f"{NAME}: {_LINE}\n".encode())
    os._exit(STOPPED)


def _raise_again(unraisable: sys.UnraisableHookArgs) -> None:
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        again = threading.Timer(_AGAIN_S, _thread.interrupt_main)  # now it would be raised here, and be lost again
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(unraisable)


def _refuse_undecodable(arguments: Sequence[str]) -> None:
    """Raises `UsageError` for a name that no JSON file and no terminal could show."""
    for each in arguments:
        try:
            each.encode()
        except UnicodeEncodeError:
            raise UsageError(f"argument {each!a}", "it is not UTF-8", "Rename it, or give a link to it.") from None


def _invoke() -> int:
    from typer import Abort, Exit
    from typer.exceptions import TyperException
    from typer.main import get_command

    from drlib.cli.app import app

    command = get_command(app)
    try:
        if f"_{NAME.upper()}_COMPLETE" in os.environ:
            command.main(prog_name=NAME)
        with command.make_context(NAME, sys.argv[1:], obj=command_begins) as context:
            command.invoke(context)
    except Exit as ended:
        return ended.exit_code
    except (Abort, EOFError):
        from drlib.outgoing.terminal import show

        show(error=True)  # the cursor is behind the question
        print_error("stopped: the question was not answered, so nothing was changed")
        return STOPPED
    except TyperException as error:
        return _wrong_usage(error)
    return 0


def _wrong_usage(error: TyperException) -> int:
    from drlib.cli.usage import usage_error
    from drlib.outgoing.terminal import show

    if type(error).__name__ == "NoArgsIsHelpError":
        show(error.format_message())
    else:
        print_error(usage_error(error.format_message(), sys.argv[1:]))
    return 2


def _failed(error: DrlibError) -> int:
    print_error(str(error))
    return error.exit_code


def _failed_otherwise(error: Exception) -> int:
    """The exit code of an error that is not one of ours, where it is not a fault of drlib; else it is raised."""
    if _was_interrupted(error):
        return stopped()
    if isinstance(error, ImportError):
        from drlib.extras import missing_extra

        if missing := missing_extra(error, " ".join([NAME, *sys.argv[1:2]])):
            return _failed(missing)
    if isinstance(error, OSError) and error.errno in _FULL:
        return _full(error)
    if isinstance(error, OSError) and _is_of_a_given_path(error):
        return _failed(
            UsageError(f"{error.filename} cannot be used", error.strerror or type(error).__name__, "Give another path.")
        )
    raise error


def _is_of_a_given_path(error: OSError) -> bool:
    """Is it about a path of the command line, or about one below the working directory, as are the defaults of options?"""
    if not isinstance(error.filename, str | bytes | os.PathLike):
        return False
    path = Path(os.fsdecode(error.filename)).absolute()
    values = (value for each in sys.argv[1:] for value in (each, each.partition("=")[2]) if value)
    return any(path.is_relative_to(place) for place in (Path.cwd(), *(Path(value).absolute() for value in values)))


def _was_interrupted(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _reader_gone() -> bool:
    """Does no process read what this one writes to standard output or standard error?"""
    ask = select.poll()
    for number in (1, 2):
        ask.register(number, 0)
    return any(event & select.POLLERR for _, event in ask.poll(0))


def _flushed(code: int) -> int:
    """`code`, or that of standard output that cannot be written. Nothing is left to be written by the interpreter."""
    from drlib.outgoing import terminal

    try:
        terminal.flush()
    except OSError as error:
        if error.errno == errno.EPIPE:
            return READER_GONE
        return code or _full(error)
    return code


def _full(error: OSError) -> int:
    what = "the output" if error.filename is None else os.fsdecode(error.filename)
    print_error(f"{what} cannot be written: {error.strerror}. Make room, or write elsewhere.")
    return 1
