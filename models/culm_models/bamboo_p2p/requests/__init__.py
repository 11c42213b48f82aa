"""What is agreed on: ranges of logs, and how far each has come.

`sequence` counts the pieces of a range, and those that the other end has passed; `interest` is what an end
wants of it, `request` its whole state and `request_table` all of a connection, with the entries that the
other end holds. `proposals` makes them from what is held, and judges those that come and what comes with a
cancel; `completion` says when all is there, or is waited for in vain.
"""
