"""Serve a policy until a signal ends it, whatever the policy and the clients do then."""

import asyncio
import os
import signal
from collections.abc import Callable

from act_policy.control.serving.server import PolicyServer


def serve_until_stopped(server: PolicyServer, what: str, say: Callable[[str], None]) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP.

    A policy that still computes does not keep the process: it ends with code 0 here.

    Args:
        server: not running yet.
        what: is served, in the first line.
        say: prints a line.

    Raises:
        UserError: the address cannot be listened on.
    """
    config = server.config
    for warning in config.warnings():
        say(f"warning: {warning}")

    def on_ready(port: int) -> None:
        secure = "s" if config.certificate else ""
        host = f"[{config.host}]" if ":" in config.host else config.host
        say(f"serving {what}")
        say(f"clients: ws{secure}://{host}:{port}  status: http{secure}://{host}:{port}/")

    asyncio.run(_run(server, on_ready))
    say("stopped")
    if server.is_computing:  # in a thread, for which the interpreter would wait
        os._exit(0)


async def _run(server: PolicyServer, on_ready: Callable[[int], None]) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await server.run(stop, on_ready)
