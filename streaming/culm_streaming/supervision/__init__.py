"""One job's query from its start over its failures.

`queries` (its checkpoint compared, its sink and trigger), `checkpoint` (what a checkpoint belongs to),
`restarts` (again after what passes), `failures` (the cause out of Spark's long reports), `executors` (whether
anybody works), `worker_trial` (a late Python worker: slow or broken), `spark_end` (the end of Spark itself).
"""
