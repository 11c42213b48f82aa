"""``culm dag publish``, ``delegate`` and ``revoke``: statements about an id (reference 4)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from culm_infra.cli.dag.folder import (
    Expires,
    KeyFolder,
    Proofs,
    ValidatingFolderFlags,
    expires_at,
    now_s,
    own_key,
    parse_cid,
    parse_key,
)
from culm_infra.cli.kit.new_paths import new_path
from culm_infra.cli.kit.output import Results
from culm_infra.errors import InfraError
from culm_models.dag.ucan.did_key import did_key

Id = Annotated[
    str | None,
    typer.Option("--id", metavar="KEY", help="Under which id; by default the key that signs."),
]


def publish(
    link: Annotated[str, typer.Argument(metavar="CID", help="The root of what is published.")],
    *,
    flags: ValidatingFolderFlags,
    key: KeyFolder = None,
    id: Id = None,
    origin: Annotated[
        str | None, typer.Option(metavar="CID", help="The node whose shards hold it; else the id's head.")
    ] = None,
    shard: Annotated[str | None, typer.Option(metavar="CID", help="The shard that holds the root.")] = None,
    proofs: Proofs = None,
    expires: Expires = None,
    results: Results,
) -> None:
    """Publish a root under an id, as successor of its present publish, and print the new state.

    Readers use only complete publishes; a publish is broken for good if no shard of its origin holds the
    root. A key other than the id needs a delegation (`culm dag delegate`), which is looked up in the id's
    space.

    Example: `culm dag publish bafybei…`; `culm dag publish bafybei… --id KEY --key mine`
    """
    from culm_connectors.dag.author import publish_link

    signer = own_key(key or flags.path)
    whose = signer.public_key if id is None else parse_key(id)
    with flags.open() as store:
        outcome = publish_link(
            store,
            signer,
            whose,
            parse_cid(link),
            now=now_s(),
            origin=None if origin is None else parse_cid(origin),
            shard=None if shard is None else parse_cid(shard),
            proofs=None if proofs is None else [parse_cid(text) for text in proofs],
            expires=expires_at(expires),
        )
        order = store.published(whose).order
    state = next((entry.state.value for entry in order if entry.cid == outcome.cid), None)
    became = f"published ({state})" if outcome.in_order else "waits for what is missing"
    results.one(
        {
            "publish": outcome.cid.text,
            "id": whose,
            "in_order": outcome.in_order,
            "state": state,
            "missing": [cid.text for cid in outcome.missing],
        },
        f"{outcome.cid.text} {became}",
    )
    results.next(flags.command("culm dag serve 127.0.0.1:4460"))


def delegate(
    to: Annotated[str, typer.Argument(metavar="KEY", help="Who may: a key in hex or as did:key.")],
    *,
    flags: ValidatingFolderFlags,
    key: KeyFolder = None,
    id: Id = None,
    ability: Annotated[
        str, typer.Option("--can", help="dag/publish, dag/append, dag/read, or dag/* for all of them.")
    ] = "dag/publish",
    proofs: Proofs = None,
    expires: Expires = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Also write the UCAN there.")
    ] = None,
    results: Results,
) -> None:
    """Let another key publish under an id; the UCAN is stored in the id's space and exchanged with it.

    Example: `culm dag delegate KEY --expires 2592000`
    """
    from culm_connectors.dag.author import delegate as issue

    audience = did_key(parse_key(to))
    signer = own_key(key or flags.path)
    whose = signer.public_key if id is None else parse_key(id)
    with flags.open(create=True) as store:
        ucan = issue(
            store,
            signer,
            whose,
            audience,
            now=now_s(),
            ability=ability,
            proofs=None if proofs is None else [parse_cid(text) for text in proofs],
            expires=expires_at(expires),
        )
    if output is not None:
        with new_path(output, replaces_file=True) as path:
            path.write_bytes(ucan.block)
    results.one({"ucan": ucan.cid.text, "id": whose, "can": ability}, ucan.cid.text)


def revoke(
    ucans: Annotated[list[str], typer.Argument(metavar="CID…", help="UCANs, by their CIDs.")],
    *,
    flags: ValidatingFolderFlags,
    key: KeyFolder = None,
    results: Results,
) -> None:
    """Revoke delegations, or the leaf of a publish; the latest complete state is published again with that.

    From that position of the order on, nothing that needs them counts. Only the id itself can revoke.

    Example: `culm dag revoke bafyrei…`
    """
    from culm_connectors.dag.author import publish_link

    signer = own_key(key or flags.path)
    revoked = [parse_cid(text) for text in ucans]
    with flags.open() as store:
        latest = store.published(signer.public_key).latest_complete
        if latest is None:
            raise InfraError(
                "nothing complete is published under this key: there is nothing to publish again"
            )
        outcome = publish_link(
            store,
            signer,
            signer.public_key,
            latest.link,
            now=now_s(),
            origin=latest.origin,
            shard=latest.shard,
            revokes=revoked,
        )
    names = [cid.text for cid in revoked]
    row = {"publish": outcome.cid.text, "revokes": names, "in_order": outcome.in_order}
    results.one(row, f"{outcome.cid.text} revokes {', '.join(names)}")
