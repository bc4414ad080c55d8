"""A notebook's kernel that starts before it is known what it will run, so that an emergency does not wait for it.

Rules: until a run takes it, it only imports. It is taken once; one that is not taken is ended. A kernel that could not be
started, or has died, is no error: the run then starts its own. What the process says before a log exists is kept in a file
without a name, which the run appends to its own log. Every kernel of ours is spoken to over Unix sockets in a folder of its
own: jupyter_client draws TCP ports and releases them before the kernel listens to them, so that on a busy machine another
process takes one, and the kernel dies of it.
Not for: executing the notebook (`notebook_client`).
"""

import asyncio
import os
import threading
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any, Final

from traitlets.config import Config

KERNEL: Final = "python3"
_LONGEST_SOCKET: Final = 103  # bytes of a Unix socket's path: sun_path of unix(7), and of macOS, which has less
_ARGUMENTS: Final = ["--HistoryManager.hist_file=:memory:"]  # as nbclient does
_START_S: Final = 60.0
_LOOK_S: Final = 0.05
_IMPORTS: Final = "import drlib\ndrlib.open_drill"


def kernel_config(folder: str) -> Config:
    """jupyter_client's settings of one kernel: its traffic is encrypted where it can, over Unix sockets in `folder`, which is
    its own and private. Over TCP ports of this machine where that path is too long for a socket."""
    place = os.path.join(os.path.realpath(folder), "kernel")
    settings = {"transport_encryption": "auto", "connection_file": f"{place}.json"}
    if len(os.fsencode(f"{place}-00")) <= _LONGEST_SOCKET:
        settings |= {"transport": "ipc", "ip": place}
    return Config({"KernelManager": settings})


class EarlyKernel:
    """Starts in a thread of its own when constructed, with `folder` as its working directory."""

    def __init__(self, folder: Path) -> None:
        self.said: IO[bytes] = TemporaryFile()  # noqa: SIM115 closed by close()
        self._folder = folder
        self._sockets = TemporaryDirectory(prefix="drlib-kernel-")
        self._manager: Any = None  # of a kernel that answers and was not taken
        self._unwanted = threading.Event()
        self._thread = threading.Thread(target=self._run, name="early-kernel", daemon=True)
        self._thread.start()

    def take(self) -> Any | None:
        """Its `AsyncKernelManager`, whose kernel answers; None where there is none, or it was taken. Blocks while it starts."""
        self._thread.join()
        manager, self._manager = self._manager, None
        if manager is None or asyncio.run(manager.is_alive()):
            return manager
        asyncio.run(manager.cleanup_resources())
        return None

    def close(self) -> None:
        """End the kernel that no run took. Safe to repeat."""
        self._unwanted.set()
        self._thread.join()
        manager, self._manager = self._manager, None
        if manager is not None:
            asyncio.run(manager.shutdown_kernel(now=True))
        self._sockets.cleanup()
        self.said.close()

    def _run(self) -> None:
        try:
            self._manager = asyncio.run(self._started())
        except Exception as error:  # of jupyter_client, zmq or the process: the run starts its own kernel
            self.said.write(f"a kernel could not be started early: {error!r}\n".encode())

    async def _started(self) -> Any | None:
        """The manager of a kernel that answers and has begun to import; None where it is no longer wanted."""
        from jupyter_client.manager import AsyncKernelManager

        manager: Any = AsyncKernelManager(kernel_name=KERNEL, config=kernel_config(self._sockets.name))
        cwd = str(self._folder)
        await manager.start_kernel(extra_arguments=_ARGUMENTS, cwd=cwd, stdout=self.said, stderr=self.said)
        client = manager.client()
        try:
            client.start_channels()
            ready = asyncio.ensure_future(client.wait_for_ready(timeout=_START_S))
            while not ready.done():
                await asyncio.wait([ready], timeout=_LOOK_S)
                if self._unwanted.is_set():
                    ready.cancel()
                    await manager.shutdown_kernel(now=True)
                    return None
            await ready
            client.execute(_IMPORTS, silent=True, store_history=False, allow_stdin=False)
        except BaseException:
            await manager.shutdown_kernel(now=True)
            raise
        finally:
            client.stop_channels()
        return manager
