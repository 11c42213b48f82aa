"""A door on loopback over a folder, and what tests bring to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from culm_connectors.dag.http.access import DoorAccess
from culm_connectors.dag.http.server import serve_http
from culm_connectors.dag.http.settings import DagHttpSettings
from culm_connectors.dag.service import DagService
from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.dag.store.settings import DagFolderSettings
from culm_models.dag.blocks.cid import CAR, DAG_CBOR, RAW, Cid, cid_of
from culm_models.dag.car.writer import write_car
from culm_models.dag.ucan.did_key import did_key
from culm_models.dag.validation_rules import ValidationRules
from culm_models.testing.dag.replica import NOW
from tests.models.dag.signers import KEYS

SERVICE = 5
"""Of the signers, the one who stands for the deployment."""
CAR_TYPE = "application/vnd.ipld.car"


@dataclass(frozen=True, slots=True)
class OpenDoor:
    """A door that is served, a client of it, and its service."""

    url: str
    client: httpx.AsyncClient
    service: DagService

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        url = httpx.URL(self.url)
        return url.host, url.port or 0


@asynccontextmanager
async def open_door(
    folder: Path, verify: Any = True, closing: Any = None, **settings: Any
) -> AsyncIterator[OpenDoor]:
    """A door of a new folder; everybody may do everything unless settings say otherwise.

    `closing`: a `ClosingDoor`.
    """
    door_settings = DagHttpSettings(**{"append": "anyone", "read": "anyone", **settings})
    verdict = ValidationRules(services=(did_key(KEYS[SERVICE]),))
    store = DagFolder(folder, DagFolderSettings(verdict=verdict), create=True)
    try:
        async with DagService(store, lambda: NOW) as service:
            access = DoorAccess(service, door_settings, lambda: NOW)
            async with (
                serve_http(service, door_settings, access, closing) as url,
                httpx.AsyncClient(base_url=url, verify=verify) as client,
            ):
                yield OpenDoor(url, client, service)
    finally:
        store.close()


async def bring(door: OpenDoor, blocks: list[tuple[Cid, bytes]]) -> None:
    """Put blocks into the folder of a door, as one shard."""
    data = write_car([], blocks)
    await door.service.work(lambda folder: folder.add_shard(KEYS[0], cid_of(CAR, data), data))


def car_of(*blocks: bytes) -> bytes:
    """A CAR of nodes and UCANs; what begins as a JWT is raw."""
    cids: list[Cid] = [cid_of(RAW if block.startswith(b"ey") else DAG_CBOR, block) for block in blocks]
    return write_car([cids[0]], list(zip(cids, blocks, strict=True)))
