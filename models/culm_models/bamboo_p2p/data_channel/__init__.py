"""The data channel: `sender` makes what goes out, `receiver` takes what comes.

`incoming_pieces` is how far the other end is in each request, and what it brought; `incoming_runs` takes what
comes whole and in a row at once. `rebuilding` makes entries whole again and finds forks, `incoming_payload`
is one payload on its way in, `outgoing_payloads` makes the messages of those that go out.
"""
