"""bymux: several streams over one ordered channel, each with its own backpressure. Usable alone.

`frames` is the bytes, `endpoint` one end of a connection that has two streams from the start, as Bamboo
Point-2-Point uses it, `errors` what ends a connection.
"""

from culm_models.bymux.endpoint import Endpoint
from culm_models.bymux.errors import BymuxError

__all__ = ["BymuxError", "Endpoint"]
