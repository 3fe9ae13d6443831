"""The one place that knows which version this is."""

__version__ = "0.1.0.dev0"
