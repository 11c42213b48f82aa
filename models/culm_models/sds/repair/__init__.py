"""SDS-R: requests for repair and answers to them: `repair` is the machine, `hashes` decides who answers."""
