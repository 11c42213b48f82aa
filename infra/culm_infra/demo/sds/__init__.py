"""The demo of SDS: one channel for each wire profile, hosted and full participants, on a bad network.

- ``plan``: the channels, who takes part in them and how, and what they say.
- ``bad_network``: the bad network between a full participant and its edge.
- ``size``: how large it is.
- ``cast``: the participants on stage, and what each received, message by message.
- ``run``: the story, chapter by chapter, to the verdict.
- ``verdict``: everybody's log, the pipeline's and the store compared, with figures and tables.
"""
