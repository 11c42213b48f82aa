"""How a connector starts from the topic `blocks`, and how an index is verified and mended by it.

| module | what it holds |
|---|---|
| heights | log heights as columns |
| told | what `blocks` tells: heights by schema, their blocks, and the input behind them |
| claims | heights that count as held while the index catches up, and who waits for what |
| claiming_store | the index with these heights, as the protocol sees it |
| verification | which blocks of an index differ, and what of that is damage |
| repair | single logs read from `logs` once more |
| boot | all of it in its order |
"""
