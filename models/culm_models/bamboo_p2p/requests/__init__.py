"""What is agreed on: ranges of logs, and how far each has come.

`sequence` counts the pieces of a range, `interest` is what an end wants of it, `request` its whole state and
`request_table` all of a connection. `proposals` makes them from what is held and judges those that come;
`evidence` judges what comes with a cancel, and `completion` says when all is there. `passed_pieces` is what
the other end has passed, and `metadata_at_other` which entries it holds. `payload_trace` remembers bytes of a
payload that nobody had verified.
"""
