"""The data channel: `sender` produces the outgoing data, `receiver` reads the incoming data.

`incoming_pieces`: the other end's progress in each request, and the received data. `incoming_runs`: batches
of complete consecutive entries. `rebuilding`: entries from metadata. `incoming_payload`: one payload that is
being received. `outgoing_payloads`: messages of payloads to send.
"""
