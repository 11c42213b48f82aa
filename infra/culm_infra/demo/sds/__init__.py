"""The demo of SDS: one channel for each wire profile, hosted and full participants, on a bad network.

- ``plan``: the channels, their participants, and the messages.
- ``bad_network``: the bad network between a full participant and its edge.
- ``size``: the options of the demo.
- ``actors``: the participants, and a transcript of the messages that each of them received.
- ``run``: the story, chapter by chapter.
- ``convergence``: the logs of all participants, of the pipeline and of the store compared, with figures and
  tables.
"""
