"""A whole replica in memory over byte channels: `peer`. For demos, tests, and programs that want no store."""
