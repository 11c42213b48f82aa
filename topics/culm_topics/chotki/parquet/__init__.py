"""Chotki's objects as Parquet, one table a class (reference 10.9). Needs the extra `export`.

    from culm_topics.chotki.parquet import export

    done = export("objects", kafka="127.0.0.1:9092")

- `export`: what of a state goes to which table, the first time and again.
- `columns`: Arrow's types for those of Chotki, names of columns, values as Arrow takes them.
- `dataset`: the folder and its list: which table has which columns, and how far each one is.
- `part_files`: rows as files of bounded row groups.
"""

from culm_topics.chotki.parquet.dataset import Table
from culm_topics.chotki.parquet.export import Exported, ExportedTable, export, write_tables

__all__ = ["Exported", "ExportedTable", "Table", "export", "write_tables"]
