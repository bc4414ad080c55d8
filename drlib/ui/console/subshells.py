"""Whether, and how, clicks on a widget are answered while a cell of its notebook runs.

Rules: a front end that supports subshells has the kernel create one, a thread of its own, and sends widget messages to it;
others queue them behind the running cell. A cell that waits for a click asks first which of the two applies. Outside a kernel
there are no clicks.
Sources: JEP 91 (kernel subshells), `SubshellManager` and `Kernel.shell_channel_thread_main` of ipykernel 7.
"""

from typing import Any


def answer_while_busy(control: Any) -> None:
    """Let the front end's messages for `control` go where it sends them: to a subshell, which answers while a cell runs.

    ipykernel 7.4 sends them to the shell that spoke last on the comm instead, which for a widget made by a cell is the
    busy one (BaseComm._reply_subshell_for). Where there is no such rule, or no subshell, nothing changes.
    """
    comm = getattr(control, "comm", None)
    if comm is not None and hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda data, default: default


def clicks_are_answered() -> bool:
    """Has this kernel's front end asked for a subshell, so that a click is answered while a cell runs?"""
    from IPython.core.getipython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    manager = getattr(getattr(kernel, "shell_channel_thread", None), "manager", None)
    listed = getattr(manager, "list_subshell", None)
    return bool(listed is not None and listed())
