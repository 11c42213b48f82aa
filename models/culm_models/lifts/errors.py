"""What can be wrong with a fingerprint that names its lift."""

from typing import ClassVar

from culm_models.errors import ModelError


class LiftError(ModelError):
    """A lift or a fingerprint that breaks a rule."""

    code: ClassVar[str] = "lift"


class UnknownLiftError(LiftError):
    """A name or a wire code that no lift of the registry has."""

    code: ClassVar[str] = "lift.unknown"


class FingerprintLengthError(LiftError):
    """A fingerprint that is longer or shorter than its lift says."""

    code: ClassVar[str] = "lift.length"
