"""The topics that only p2panda has: `catalogue`. Its entries go through the topics of replicated logs."""
