"""A start from the topic `blocks`, and how an index is verified and mended by it.

- `warm_start`: serve at once, fill the index behind it.
- `block_heights`: what `blocks` says; `heights`: heights as columns.
- `claims`: entries that `logs` is known to hold before they are in the index.
- `verification`, `repair`: what an index lacks or has wrong, and reading it once more;
  `index_check`: without a connector.
"""
