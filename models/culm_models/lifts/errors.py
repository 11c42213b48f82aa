"""What can be wrong with a fingerprint that names its lift."""

from culm_models.errors import ModelError


class LiftError(ModelError, code="lift"):
    """A lift or a fingerprint that breaks a rule."""


class UnknownLiftError(LiftError, code="lift.unknown"):
    """A name or a wire code that no lift of the registry has."""


class FingerprintLengthError(LiftError, code="lift.length"):
    """A fingerprint that is longer or shorter than its lift says."""
