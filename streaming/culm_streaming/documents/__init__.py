"""The job `documents`: the operations of `logs`, reduced to the present state of each document.

`job` is the code that Spark runs; the other modules work without Spark.

Before the shuffle, stateless:
- `packing`: records are decoded and packed by log; `rows`: their packed form.

After the shuffle, in two stages:
- `log_documents`: the document of each log. All logs in one place, since the document of a log follows from
  an operation in another log.
- `step`: the documents, sharded by document.

The state: `settings`: its layout and limits.
"""
