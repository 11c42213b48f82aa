"""The HTTP door of section 9: shards in parts, nodes, publishes, a trustless gateway, published ids.

- `server`: `serve_http`, a door on a socket; `sockets`: counts its connections; `app`: the door as an ASGI
application; `settings`: with all limits on clients; `closing`: the end of the door when its process drains
- `routes`: the table of operations, with its OpenAPI document; `answers/`: their handlers
- `door`: shared by all handlers; `access`: rights of clients; `client_budgets`: clients, their budgets and
their shares of concurrent work; `event_sources`: sources of event streams
- `accept`: media types that a client accepts; `problems`: error responses
"""
