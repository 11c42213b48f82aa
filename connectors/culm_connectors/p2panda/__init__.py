"""p2panda at the edge: one sans-I/O peer driven over many connections.

| module | what it holds |
|---|---|
| protocol, composition | p2panda as a protocol of a connector; what it is put together from |
| driver | one peer, the table of its connections, and what was stored for them |
| connections | reading, checking, applying and writing for each connection |
| announcements | the newest announcement of every peer at every edge |
| topic_followers | what is read from Kafka, from the start on |
| interest | which schemas are served |
| peer_events | what becomes of the events of peers: counted, and told to others |
| quotas | how much of the index an author's logs, and what a peer brings, may take |
| access | which schemas a key may replicate, by the allow-list |
| settings, metric_families | the numbers of the driver, what Prometheus is told |
| reference_peer, aquadoggo | a peer of one's own; links to p2panda's nodes |
"""
