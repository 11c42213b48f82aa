"""p2panda at the edge: one sans-I/O peer driven over many connections.

| module | contents |
|---|---|
| protocol, composition | p2panda as a protocol of a connector; the composition of its parts |
| driver | one peer, the table of its connections, and the queue of entries to store |
| connections | reading, checking, applying and writing for each connection |
| announcements | the newest announcement of every peer at every edge |
| topic_followers | readers of the topics in Kafka, from the start on |
| interest | the schemas that are served |
| peer_events | handling of the events of peers: counted, and passed on |
| quotas | limits on the bytes of the index, per author and per peer |
| access | the schemas that a key may replicate, by the allow-list |
| settings, metric_families | the settings; the metrics for Prometheus |
| reference_peer, aquadoggo | the reference peer; links to p2panda's nodes |
"""
