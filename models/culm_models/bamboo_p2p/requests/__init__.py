"""Requests: ranges of logs that two ends have agreed on, and the progress in each.

`sequence`: the pieces of a range, and those that the other end has passed. `interest`: what an end wants of a
range. `request`: the state of a request. `request_table`: all requests of a connection, and the metadata that
the other end holds. `proposals`: making proposals, and validating proposals and the evidence of cancels.
`completion`: detects that everything has arrived, or can no longer arrive.
"""
