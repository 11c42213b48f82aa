"""Many bounds at once with numpy, which whoever imports this module brings along.

Rows of keys are sorted by (public key, log id), as a sync range is; ranks count from 0.
"""

import numpy as np
from numpy.typing import NDArray

from culm_models.keys import PUBLIC_KEY_SIZE
from culm_models.p2panda.compact import LOWEST_BOUND, Bound

_PLACES = np.arange(PUBLIC_KEY_SIZE)


def separating_bounds(
    keys: NDArray[np.uint8], log_ids: NDArray[np.uint64], ranks: NDArray[np.int64]
) -> list[Bound]:
    """`compact.separating_bound` in front of the items at `ranks` (below n): keys [n, 32], log ids [n]."""
    found = keys[ranks]
    # Rank 0 is compared with the last row here, and replaced below.
    differs = found != keys[ranks - 1]
    first = differs.argmax(axis=1)
    same_author = ~differs.any(axis=1)
    found[(first[:, None] < _PLACES) & ~same_author[:, None]] = 0
    packed = found.tobytes()
    bounds: list[Bound] = [
        (packed[at : at + PUBLIC_KEY_SIZE], 0, 0) for at in range(0, len(packed), PUBLIC_KEY_SIZE)
    ]
    for place in np.flatnonzero(same_author):
        bounds[place] = (bounds[place][0], int(log_ids[ranks[place]]), 0)
    for place in np.flatnonzero(ranks == 0):
        bounds[place] = LOWEST_BOUND
    return bounds
