"""The page and its files, which are part of the package: read once, and served with strong entity tags."""

from __future__ import annotations

import hashlib
import mimetypes
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

FOLDER: Final = Path(__file__).parent / "assets"
PAGE: Final = "index.html"

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file with its type and entity tag."""

    content: bytes
    media_type: str
    etag: str


def load_assets(folder: Path = FOLDER) -> dict[str, Asset]:
    """Return all files below a folder by their paths, with slashes."""
    return {
        path.relative_to(folder).as_posix(): _asset(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def _asset(path: Path) -> Asset:
    content = path.read_bytes()
    guessed = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    digest = hashlib.sha256(content).hexdigest()[:32]
    return Asset(content, _TYPES.get(path.suffix, guessed), f'"{digest}"')


class Assets:
    """Answers requests for the page and for its files."""

    def __init__(self, assets: dict[str, Asset] | None = None) -> None:
        self._assets = load_assets() if assets is None else assets

    async def page(self, request: Request) -> Response:
        """Answer `GET /`."""
        return self._answer(request, PAGE)

    def refused(self, request: Request, status: HTTPStatus) -> Response:
        """Return the page for a browser without the token; browsers do not keep it."""
        page = self._assets[PAGE]
        headers = {"WWW-Authenticate": "Bearer", "Cache-Control": "no-store"}
        return Response(page.content, status, headers, page.media_type)

    async def file(self, request: Request) -> Response:
        """Answer `GET /assets/{path}`."""
        return self._answer(request, request.path_params["path"])

    def _answer(self, request: Request, path: str) -> Response:
        asset = self._assets.get(path)
        if asset is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "there is no such file")
        # Kept by browsers, but only used after the server has confirmed it.
        headers = {"ETag": asset.etag, "Cache-Control": "no-cache"}
        if asset.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(asset.content, media_type=asset.media_type, headers=headers)
