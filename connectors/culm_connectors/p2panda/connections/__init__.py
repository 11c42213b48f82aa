"""The connections of one driver: what is read, checked and applied, and what is written.

| module | what it holds |
|---|---|
| connection, writer | the four tasks of one connection; the writer among them, with what it holds back |
| leave | the end of a connection in good order: what the remote has taken |
| link | what is known of each connection: its limits and queues |
| duplicate_connections | which of two connections is kept when both peers dial |
| shared | what every connection works with, and the interfaces of what stands behind it |
| catch_up_limiter, budgets | who may catch up now; what one key may use |
"""
