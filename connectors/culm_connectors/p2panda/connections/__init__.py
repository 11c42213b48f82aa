"""The connections of one driver: what is read, checked and applied, and what is written.

| module | contents |
|---|---|
| connection, writer | the four tasks of one connection; the writer among them, with what it holds back |
| leave | the orderly end of a connection |
| link | the state of each connection: its limits and queues |
| duplicate_connections | the choice between two connections when both peers dial |
| shared | the state that all connections share, and the interfaces to the parts behind it |
| catch_up_limiter, budgets | the limit on catch-up; the limits per key |
"""
