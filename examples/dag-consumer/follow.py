"""Follow an id in Kafka, keep the files that it publishes in a folder, and print the changes.

    python follow.py ID-IN-HEX FOLDER [BOOTSTRAP [PREFIX-OF-TOPICS]]

Every block is checked by its CID. After a restart the program resumes where it was.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from culm_models.dag.errors import DagError
from culm_models.dag.paths.resolve import ContentKind
from culm_models.dag.unixfs.directories import list_directory
from culm_topics.dag.consumer import DagChangeKind, DagConsumer, DagContent
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.origin import Origin


def write_tree(content: DagContent, path: str, target: Path) -> None:
    """Write the file or directory at `CID/segment/…` below a folder."""
    end = content.resolve(path)
    if end.kind is ContentKind.DIRECTORY:
        target.mkdir(parents=True, exist_ok=True)
        for entry in list_directory(end.cid, content.block):
            if entry.name in ("", ".", "..") or "/" in entry.name or "\0" in entry.name:
                raise ValueError(f"{path} has a name that is none here: {entry.name!r}")
            write_tree(content, f"{path}/{entry.name}", target / entry.name)
        return
    part = target.with_name(f"{target.name}.part")
    with part.open("wb") as file:
        for piece in content.file(path):
            file.write(piece)
    part.replace(target)


def main(id_hex: str, folder: str, bootstrap: str | None = None, prefix: str | None = None) -> None:
    """Follow the id until stopped."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    cursor = target / ".cursor.json"
    kept = json.loads(cursor.read_text()) if cursor.exists() else None
    kafka: KafkaSettings | str | None = bootstrap
    if bootstrap is not None and prefix is not None:
        kafka = KafkaSettings(bootstrap=bootstrap, prefix=prefix)
    with DagConsumer(
        kafka,
        ids=[bytes.fromhex(id_hex)],
        start_at=None if kept is None else {int(place): at for place, at in kept["positions"].items()},
        origin=None if kept is None else Origin.decode(kept["origin"].encode()),
        state_dir=target / ".state",
    ) as consumer:
        for change in consumer:
            print(change.kind.value, change.cid, flush=True)
            complete = change.published.complete
            if change.kind is DagChangeKind.COMPLETE and complete is not None:
                try:
                    write_tree(consumer.content, str(complete.link), target / "content")
                except DagError as error:
                    print(f"not opened: {error}", file=sys.stderr)
            said = {"positions": consumer.positions(), "origin": consumer.origin.encode().decode()}
            cursor.with_suffix(".new").write_text(json.dumps(said))
            cursor.with_suffix(".new").replace(cursor)


if __name__ == "__main__":
    main(*sys.argv[1:])
