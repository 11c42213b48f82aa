"""Shared by the commands.

- ``noun``: groups of commands as tables. ``options``: options that several commands have.
- ``output``: text, tables and JSON. ``log_lines``: log lines of programs that run until they are stopped.
- ``start_at``: ``--from``, where the reading of a stream starts.
- ``reaching``: the wait for Kafka. ``new_paths``: files and folders that appear whole.
- ``data_folder``: the folder of a command's key and data, and its option ``--dir``.
- ``log_names``: names of logs, KEY/LOG_ID.
"""
