"""SDS-R: repair requests and their answers. `repair` is the state machine, `hashes` decides who answers."""
