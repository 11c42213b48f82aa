"""Classes and objects: `classes`, `new` and `edit` write, and share `writing`; `get` and `export` read."""
