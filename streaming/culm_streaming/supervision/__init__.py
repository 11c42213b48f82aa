"""Supervision of one job's query from its start, with restarts after failures.

`queries` starts it, with its checkpoint, sink and trigger. `checkpoint` records which topics a checkpoint
belongs to. `restarts` restarts the query after temporary failures. `failures` extracts the cause from Spark's
long reports. `executors` detects missing workers. `worker_trial` distinguishes slow from broken Python
workers. `spark_end` handles the end of Spark itself.
"""
