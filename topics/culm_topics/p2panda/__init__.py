"""The topics of p2panda alone: `catalogue`. Its entries go through those of replicated logs."""
