"""Chotki's objects as Parquet, one table per class (reference 10.9). Needs the extra `export`.

    from culm_topics.chotki.parquet import export

    done = export("objects", kafka="127.0.0.1:9092")

- `export`: writes a state to its tables, completely at first and then incrementally.
- `columns`: Arrow's types for those of Chotki, names of columns, conversion of values to Arrow.
- `dataset`: the folder and its list: the columns and the progress of each table.
- `part_files`: rows as files of bounded row groups.
"""

from culm_topics.chotki.parquet.dataset import Table
from culm_topics.chotki.parquet.export import Exported, ExportedTable, export, write_tables

__all__ = ["Exported", "ExportedTable", "Table", "export", "write_tables"]
