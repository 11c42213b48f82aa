"""Calls from other addresses of this machine: whoever is bounded by address, comes from several."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Attack = Callable[[tuple[str, int]], Awaitable[None]]
_SOURCE: ContextVar[str] = ContextVar("source", default="")
_connect = socket.socket.connect


@contextmanager
def calling_from(number: int) -> Iterator[None]:
    """What this task and those that it creates connect is bound to the loopback address of a number."""
    setattr(socket.socket, "connect", _connect_from)  # noqa: B010 - whoever connects does it here
    token = _SOURCE.set(f"127.1.{number // 256}.{number % 256}")
    try:
        yield
    finally:
        _SOURCE.reset(token)


def _connect_from(of: socket.socket, address: Any) -> None:
    if source := _SOURCE.get():
        of.bind((source, 0))
    _connect(of, address)


def under_keys(attack: Attack, keys: int, addresses: int) -> Attack:
    """An attack by so many keys at a time, which call from so many addresses, again when they are closed."""

    async def one(address: tuple[str, int], number: int) -> None:
        with calling_from(number % addresses + 1):
            await attack(address)

    async def all_of_them(address: tuple[str, int]) -> None:
        await asyncio.gather(*(one(address, number) for number in range(keys)), return_exceptions=True)

    return all_of_them
