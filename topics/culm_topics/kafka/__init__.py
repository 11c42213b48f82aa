"""Access to Kafka itself: clients, administration, rights.

- `clients`: settings, and factories for producer, consumer and admin client; `java_client`: the properties
  under the Java client's names, for Spark; `local`: the default address of Kafka;
  `variables`: the environment variables about it.
- `admin`: creates, lists and checks topics against the catalogue; `cluster`: whether there are brokers.
- `acls`: the rights each program needs, and a script that grants them; `strimzi`: topics and rights as
  resources of Strimzi.
- `origin`: the cluster and the creation of the topics to which stored offsets belong.
- `job_positions`: the position up to which each job has read, for other programs.
- `client_errors`: a client's errors, in words and at a bounded rate.
"""
