"""How a task and the driver prove to each other that they hold the token, which is never sent on their connection. Pure.

Rules: each side sends a number that it drew for this connection, and answers the other's with HMAC-SHA256 under the token, over
both numbers and what the task says of itself; so nothing that was overheard can be used again. The token comes to a task with
its assignment, over Spark's own connections (`rules.refuse_open_connections`).
Not for: what is sent afterwards, which has no secrets and is not encrypted.
"""

import hashlib
import hmac
import json
import secrets

DRIVER, TASK = "driver", "task"


def draw() -> str:
    """A number for one connection."""
    return secrets.token_hex(16)


def proof(token: str, side: str, drivers: str, tasks: str, number: int, attempt: int, name: str) -> str:
    """That `side` holds `token`, for the connection with the numbers `drivers` and `tasks`."""
    said = json.dumps((side, drivers, tasks, number, attempt, name))  # fields cannot run into each other
    return hmac.new(token.encode(), said.encode(), hashlib.sha256).hexdigest()


def proves(given: str, expected: str) -> bool:
    """Whether both are the same; takes as long where they are not."""
    return hmac.compare_digest(given.encode(), expected.encode())
