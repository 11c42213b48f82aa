"""Kafka itself: clients, administration, rights.

- `clients`: settings, and factories for producer, consumer and admin client; `java_client`: these properties
  in the Java client's words, for Spark; `local`: where Kafka is when nobody says.
- `admin`: creates, lists and checks topics against the catalogue; `cluster`: whether there are brokers.
- `acls`: the rights each program needs, and how they are printed.
- `origin`: which cluster and which creation of its topics offsets belong to, kept beside them.
- `job_positions`: how far each job has read, for others to see.
- `client_errors`: what a client says, in words and at a bounded rate.
"""
