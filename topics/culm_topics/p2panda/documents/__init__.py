"""The topic `documents`: the present state of p2panda's documents.

`record`: the topic's key and value.
"""
