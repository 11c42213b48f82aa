"""The two channels of a connection, over what networks offer.

- `interface`: what a session sees; `two_streams`: two QUIC streams; `multiplexed`: one channel of bytes, by
  bymux; `budgets`: what a principal may send over that
"""
