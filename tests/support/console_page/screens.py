"""Screenshots for the documentation; they are written if `CULM_CONSOLE_SCREENS` names a folder."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.sync_api import Page

VARIABLE: Final = "CULM_CONSOLE_SCREENS"
MAX_BYTES: Final = 150_000


def font_environment(folder: Path) -> dict[str, str | float | bool] | None:
    """Return an environment in which Chromium has the font Inter; None if no screenshots are wanted."""
    if VARIABLE not in os.environ:
        return None
    from tests.deploy.tools import debian_tool

    (folder / "fonts").symlink_to(debian_tool("fonts-inter", "usr/share/fonts"))
    return {**os.environ, "XDG_DATA_HOME": str(folder)}


def screenshot(page: Page, name: str) -> None:
    """Write `console-NAME.png` with a palette of 256 colours."""
    if (folder := os.environ.get(VARIABLE)) is None:
        return
    from PIL import Image

    # Nothing is hovered, and no field blinks.
    page.mouse.move(0, 0)
    shown = Image.open(io.BytesIO(page.screenshot(animations="disabled", caret="hide"))).convert("RGB")
    palette = shown.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    path = Path(folder) / f"console-{name}.png"
    palette.save(path, optimize=True)
    assert path.stat().st_size < MAX_BYTES, f"{path} has {path.stat().st_size} bytes"
