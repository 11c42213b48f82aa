"""p2panda at the edge: one sans-I/O peer driven over many QUIC connections.

| module | what it holds |
|---|---|
| driver | reads, checks, applies and writes for every connection of one peer |
| sessions | what is known of each connection: its limits, queues and what was delivered |
| exchange | the four tasks of one connection |
| writing | the writer among them, and what it holds back |
| surroundings | what an exchange works with, and what it asks of the program around it |
| turns, backoff | who may catch up now, and when to try again |
| publication, backlog | what goes to Kafka, and what waits for that, bounded |
| subscription, announcements, interest | what comes from Kafka; which schemas are served |
| quotas | how much of the index an author's logs, and what a peer brings, may take |
| dialling | keeps a connection to an address |
| settings | the numbers of the driver |
| metrics | what the driver counts |
"""
