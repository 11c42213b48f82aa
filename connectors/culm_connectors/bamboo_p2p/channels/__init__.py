"""The two channels of a connection, over each transport.

- `interface`: the channels as a session sees them; `two_streams`: over two QUIC streams; `multiplexed`: over
  one channel of bytes, by bymux; `budgets`: limits of a principal's multiplexed channels
"""
