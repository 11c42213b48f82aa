"""Hooks of mkdocs: links from a document to a file of the repository that is no document.

Such links work where the repository is read. The site shows them as the path of the file, because it knows no
address of the repository.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent.parent
_LINK: Final = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+)([^)#]*)(?:#[^)]*)?\)")
_LOG: Final = logging.getLogger("mkdocs.culm")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace links that leave docs/; a link to nothing is a warning, with which a strict build fails."""
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def replaced(match: re.Match[str]) -> str:
        target = (folder / match[2] / match[3]).resolve()
        if target.is_relative_to(ROOT / "docs"):
            return match[0]
        if not target.exists():
            _LOG.warning("%s links to %s, which does not exist", page.file.src_uri, match[2] + match[3])
        path = f"`{target.relative_to(ROOT)}`"
        return path if match[1] in (path, path.strip("`")) else f"{match[1]} ({path})"

    return _LINK.sub(replaced, markdown)
