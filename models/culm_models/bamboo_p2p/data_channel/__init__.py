"""The data channel: `sender` makes what goes out, `receiver` takes what comes.

`rebuilding` makes entries whole again and finds forks, `incoming_payload` is one payload on its way in.
"""
