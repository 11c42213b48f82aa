"""The job `documents`: the operations of `logs`, reduced to the present state of each document.

`job` is the code that Spark runs; the other modules work without Spark.

Before the shuffle, stateless:
- `packing`: records are decoded and packed by log; `rows`: their packed form.

After the shuffle, in two stages:
- `log_documents`: the document of each log. All logs in one place, since the document of a log follows from
  an operation in another log. `sorted_runs`: its append-only state. `waiting_logs`: those without a document.
- `step`: the documents, sharded by document. `reduction`: one document. `document_state`: its state, and
  `history`: its operations in pages. `waiting_operations`: those that wait for others. `fetching`: values
  that are read in `logs` again. `output_records`: the record of a document.

`settings`: the layout of the state and the limits; `errors`: what exceeds a limit.
"""
