"""Why a connection could not be made, in words instead of the operating system's numbers."""

from __future__ import annotations

import socket


def of_os_error(error: OSError) -> str:
    """Such as "connection refused, nothing listens there"; what is not known keeps the system's own text."""
    if isinstance(error, socket.gaierror):
        return f"the name is not known ({error.strerror or error})"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused, nothing listens there"
    if isinstance(error, ConnectionResetError):
        return "the connection was reset"
    return error.strerror or str(error) or type(error).__name__
