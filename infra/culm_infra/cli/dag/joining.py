"""``culm dag join``: the heads of a space become one."""

from __future__ import annotations

from culm_infra.cli import options
from culm_infra.cli.dag.folder import DEFAULT_FOLDER, Folder, Policy, Space, now_s, open_folder, space_of
from culm_infra.cli.output import emit_json, out


def join(
    *,
    folder: Folder = DEFAULT_FOLDER,
    space: Space = None,
    policy: Policy = "bound",
    json: options.Json = False,
) -> None:
    """Join the heads of a space. Whoever holds the same heads makes the same join, with the same CID.

    Example: `culm dag join`
    """
    from culm_connectors.dag.author import join_heads

    with open_folder(folder, policy) as store:
        cid = join_heads(store, space_of(space, folder), now=now_s())
    if json:
        emit_json({"join": cid.text})
    else:
        out.print(cid.text)
