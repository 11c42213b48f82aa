"""The pipeline of Chotki in one process, in virtual time, with a fault at any write (reference 9.3).

Edges, sessions, stores and the job's steps are the real ones; stand-ins there are for Kafka and for sockets.

| module | what it holds |
|---|---|
| virtual_time | an event loop whose clock leaps to what is due next |
| faults | every write by its number, and what is to happen at it |
| topics | the topics, a producer that may be killed or refused, readers |
| edge | an edge that is started again whenever it was killed |
| job | the job `chotki` with a checkpoint, started again likewise |
| world | replicas, edges, who calls whom, what is changed when, and what must come of it |
"""
