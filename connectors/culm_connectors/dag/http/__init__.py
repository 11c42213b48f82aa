"""The HTTP door of section 9: shards in parts, nodes, publishes, a trustless gateway, what is published.

`server`: `serve_http`, a door on a socket, whose connections `sockets` counts; `app`: the same as an ASGI
application; `settings`, with all that bounds a client. `routes`: the table of what is answered, by the
handlers in `answers/`, and its OpenAPI document. `door`: what all handlers share; `access`: who may;
`client_budgets`: who asks, the budgets of each, and shares of what is done at once; `event_sources`: what
streams of events are fed from; `accept`: the media types that a client accepts; `problems`: what is wrong.
"""
