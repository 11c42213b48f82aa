"""Messages of Bamboo Point-2-Point and their encoding.

`messages`: the messages of both channels. `control`, `data`: their encoding; `control` also has the setup.
`numbers`: a reader of messages from bytes that may end anywhere.
"""
