"""The console in tests: served in this process, and targets of every kind."""
