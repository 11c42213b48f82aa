"""Screenshots for the documentation; they are written if `CONSOLE_SCREENS` names a folder."""

from __future__ import annotations

import io
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from PIL.Image import Image as Picture
    from playwright.sync_api import Page

VARIABLE: Final = "CONSOLE_SCREENS"
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
    path = Path(folder) / f"console-{name}.png"
    with_palette(shown).save(path, optimize=True)
    assert path.stat().st_size < MAX_BYTES, f"{path} has {path.stat().st_size} bytes"


def with_palette(shown: Picture) -> Picture:
    """Return a picture in its 256 most frequent colours: areas keep theirs, letters get near ones."""
    from PIL import Image

    data = shown.tobytes()
    counted = Counter(data[at : at + 3] for at in range(0, len(data), 3))
    palette = Image.new("P", (1, 1))
    palette.putpalette(b"".join(color for color, _ in counted.most_common(256)))
    return shown.quantize(palette=palette, dither=Image.Dither.NONE)
