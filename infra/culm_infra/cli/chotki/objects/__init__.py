"""Classes and objects: `classes` and `edit` write, and share `writing`; `get` and `export` read."""
