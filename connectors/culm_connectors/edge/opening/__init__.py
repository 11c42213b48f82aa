"""How protocols of a connector are opened and closed.

- `shared_rooms`: what several protocols work over, for as long as one of them is open.
- `reopening`: one protocol is closed and opened again when its store has failed.
"""
