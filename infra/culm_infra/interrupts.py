"""Interrupts of commands that run until they are stopped."""

from __future__ import annotations

import asyncio
import signal


def interrupted() -> asyncio.Event:
    """An event that SIGINT and SIGTERM set from now on."""
    event = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, event.set)
    return event
