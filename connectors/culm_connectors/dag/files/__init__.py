"""Content that comes and goes as files of others.

`block_file`: blocks on their way into shards. `cars`: a CAR in, and one DAG out as a CAR.
"""
