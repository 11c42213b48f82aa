"""Culm's Kafka topics: what they are called, what their records hold, and how to read them.

- `catalogue`: every topic as data: name, key, value, partitions, clean-up, who writes and reads it.
- `records`: the keys and values, one small module a record; `cddl/` holds the same shapes as CDDL.
- `kafka`: settings and factories for producer, consumer and admin client; `java_properties` says the same
  properties in the Java client's words, for Spark.
- `admin`: creates, lists and checks topics against the catalogue; `acls`: the rights each program needs.
- `origin`: which cluster and which creation of its topics offsets belong to, kept beside them.
- `consumer`: `LogConsumer`, the reader for programs that consume the replicated logs.
- `reading`: a topic as it stands, for operators and tools; `vectors`: who holds what, read that way.
- `status_server`: the HTTP port of jobs and connectors: metrics, alive, ready.
- `docs`: renders docs/topics.md from all of the above.
- `errors`: the errors of this package and their stable codes.

No protocol rule lives here.
"""
