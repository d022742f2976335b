"Differential-privacy accounting with proved bounds, in milliseconds, for any delta."
__version__ = "0.1.0"


__all__ = [,
]
