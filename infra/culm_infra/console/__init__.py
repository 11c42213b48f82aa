"""The web console: connectors, jobs and topics at a glance, and one table for each protocol. It only reads.

Modules and packages:

- ``run``: the console from its start to its end.
- ``beside``: a console that stays beside a local stack after a demo.
- ``server``: the console on a socket, with limits on connections and slow clients.
- ``app``: the routes. ``access``: the token. ``headers``: security headers. ``problems``: answers to requests
  that fail.
- ``assets_route``: the page and its files, which are in ``assets``. ``events``: server-sent events.
- ``tables_route``: the routes of the tables.
- ``overview``: the collector, which polls targets and topics.
- ``tables``: one table, and the tables of all protocols.
"""
